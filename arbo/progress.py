"""Progress of long stages on stderr, as a bar or as lines, and the seconds that each stage takes."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from arbo.engine import Progress, T, silent

Announce = Callable[[str], Progress]  # takes the name of a stage, and returns a function that shows its progress


def quiet(what: str) -> Progress:
    """Show no progress."""
    return silent


def on_screen(what: str) -> Progress:
    """Show a bar as `bars` does, but only on a terminal or in a notebook; this is the default of the library."""
    return bars(what) if sys.stderr.isatty() or "ipykernel" in sys.modules else silent


def bars(what: str) -> Progress:
    """Show a bar with the remaining time once the stage has taken more than two seconds.

    If stderr is neither a terminal nor a notebook, write a line every half minute instead.
    """
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return partial(_lines, what)

    def show(items: Iterable[T], total: int) -> Iterator[T]:
        begun, left = time.monotonic(), iter(items)
        for done, item in enumerate(left, start=1):
            yield item
            if time.monotonic() - begun > 2:
                from rich.console import Console
                from rich.progress import Progress as Bar

                with Bar(console=Console(stderr=True), transient=True) as bar:
                    task = bar.add_task(what, total=total, completed=done)
                    for later in left:
                        yield later
                        bar.advance(task)

    return show


def _lines(what: str, items: Iterable[T], total: int) -> Iterator[T]:
    begun = written = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        if (now := time.monotonic()) - written > 30 and done < total:
            written = now
            left = (now - begun) / done * (total - done)
            sys.stderr.write(f"{what}: {done / total:.0%}, about {left / 60:.0f} minutes left\n")


@contextmanager
def timed(stage: str, seconds: dict[str, float]) -> Iterator[None]:
    """Time the block, and store the wall-clock seconds under the name of the stage."""
    begun = time.perf_counter()
    yield
    seconds[stage] = round(time.perf_counter() - begun, 4)
