"""Seconds by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Adds up the wall-clock seconds spent in named stages.

    >>> clock = Stopwatch()
    >>> with clock("search"):
    ...     pass
    >>> list(clock.seconds)
    ['search']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what happens inside."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            spent = self.seconds.get(stage, 0.0) + time.perf_counter() - begun
            self.seconds[stage] = round(spent, 4)
