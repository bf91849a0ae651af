"""Progress bars on stderr for what takes longer than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator

from clustering.knn import Progress, T, silent

Announce = Callable[[str], Progress]
"""Given what is being done, returns what shows its progress."""

_PATIENCE = 2.0


def quiet(what: str) -> Progress:
    """Show nothing: the library's default."""
    return silent


def bars(what: str) -> Progress:
    """Show a bar with an estimate once two seconds have passed, if stderr is a terminal."""
    if not sys.stderr.isatty():
        return silent

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
