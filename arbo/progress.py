"""Progress of long stages on stderr, as a bar or as lines, and the seconds that each stage takes."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from arbo.engine import Progress, T, silent

Announce = Callable[[str], Progress]
"""Takes the name of a stage, and returns a function that shows its progress."""

_PATIENCE = 2.0
_BETWEEN_LINES = 30.0


def quiet(what: str) -> Progress:
    """Show no progress; this is the default of the library."""
    return silent


def bars(what: str) -> Progress:
    """Show a bar with the remaining time if the stage takes more than two seconds.

    If stderr is not a terminal, write a line every half minute instead.
    """
    if not sys.stderr.isatty():
        return _lines(what)

    def show(items: Iterable[T], total: int) -> Iterator[T]:
        from rich.console import Console
        from rich.progress import Progress as Bar

        with Bar(console=Console(stderr=True), transient=True, disable=False, auto_refresh=True) as bar:
            task = bar.add_task(what, total=total, visible=False)
            begun = time.monotonic()
            for item in items:
                yield item
                bar.update(task, advance=1, visible=time.monotonic() - begun > _PATIENCE)

    return show


def _lines(what: str) -> Progress:
    def show(items: Iterable[T], total: int) -> Iterator[T]:
        begun = written = time.monotonic()
        for done, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if now - written > _BETWEEN_LINES and done < total:
                written = now
                left = (now - begun) / done * (total - done)
                sys.stderr.write(f"{what}: {done / total:.0%}, about {left / 60:.0f} minutes left\n")

    return show


class Stopwatch:
    """Sums the wall-clock seconds spent in named stages.

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
        """Time the block, and add its seconds to those of the stage."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            spent = self.seconds.get(stage, 0.0) + time.perf_counter() - begun
            self.seconds[stage] = round(spent, 4)
