"""The interface for progress of long stages, without heavy imports."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Yields items unchanged, and shows how many of ``total`` are done."""

    def __call__(self, items: Iterable[T], total: int) -> Iterable[T]:
        """Return the ``items``, of which there are ``total``, and show progress while they are read."""


def silent(items: Iterable[T], total: int) -> Iterable[T]:
    """Return the items themselves, without showing progress."""
    return items
