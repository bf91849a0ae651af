"""The interface for progress of long stages, without heavy imports."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Yields items unchanged, and shows how many of ``total`` are done."""

    def __call__(self, items: Iterable[T], total: int) -> Iterable[T]:
        """Wrap ``items``."""


def silent(items: Iterable[T], total: int) -> Iterable[T]:
    """Show no progress."""
    return items
