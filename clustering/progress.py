"""Long stages: the interface for their progress, and calls in threads; without heavy imports."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Progress(Protocol):
    """Yields items unchanged, and shows how many of ``total`` are done."""

    def __call__(self, items: Iterable[T], total: int) -> Iterable[T]:
        """Return the ``items``, of which there are ``total``, and show progress while they are read."""


def silent(items: Iterable[T], total: int) -> Iterable[T]:
    """Return the items themselves, without showing progress."""
    return items


def in_parallel(
    call: Callable[[T], U], items: Sequence[T], *, workers: int | None = None, progress: Progress = silent
) -> list[U]:
    """Call a function with each item, and return the results in order.

    Several items are handled in ``workers`` threads; by default, as many as there are cores. After an error or an
    interruption, no further call begins.
    """
    if len(items) < 2:
        return list(progress(map(call, items), len(items)))
    with ThreadPoolExecutor(min(len(items), workers or os.cpu_count() or 1)) as pool:
        try:
            return list(progress(pool.map(call, items), len(items)))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
