"""Progress of long work, as whoever asks for it wants it shown; nothing heavy is loaded for it."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Progress(Protocol):
    """Passes items on and shows how many of ``total`` are done."""

    def __call__(self, items: Iterable[T], total: int) -> Iterable[T]:
        """Wrap ``items``."""


def silent(items: Iterable[T], total: int) -> Iterable[T]:
    """Show nothing."""
    return items
