"""Options that spread a job over processes, and the verb `status`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

import arbo
from arbo.cli import console, options
from arbo.errors import UsageError


class Shards(NamedTuple):
    """How a job is spread; None for what was not given."""

    workers: int | None
    shard_size: int | None
    work: Path | None
    ray: str | None = None

    @contextmanager
    def over(self, linker: arbo.Linker, out: Path) -> Iterator[arbo.Linker]:
        """Yield the linker, which then searches in shards if an option asks for it.

        A work folder that is not given stands beside the run, and is removed at the end of the block unless it fails.
        """
        if self in (Shards(None, None, None), Shards(1, None, None)):
            yield linker
            return
        from arbo.scale.cluster import LOCAL, connected
        from arbo.scale.work import memory_of, opened, remove

        run = out.resolve()
        folder = self.work or run.with_name(f"{run.name}.work")
        if folder.resolve().is_relative_to(run):
            raise UsageError("--work is in the run folder (--out), which is replaced; choose another folder")
        if self.workers and self.ray not in (None, LOCAL):
            raise UsageError("--workers is for --ray local; a cluster has the workers that its nodes have CPUs for")
        size = self.shard_size
        cluster = connected(self.ray, self.workers, memory_of(size)) if self.ray else nullcontext()
        with cluster as pool, opened(folder, self.workers or 1, shard_size=size, pool=pool) as work:
            yield linker.configured(search_all=work.search_all)
        if self.work is None:
            remove(folder)


def status(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A work folder: --work, or RUN.work beside a run.")],
    as_json: options.Json = False,
) -> None:
    """Show how much of a job is done, from the work folder of `arbo link --workers` or `arbo discover --workers`."""
    from arbo.scale.work import progress_of

    stages = progress_of(folder)
    if as_json:
        console.print_json({"folder": str(folder), "stages": stages})
        return
    for stage, told in stages.items():
        left = told["seconds_left"]
        rest = "" if not left else f"; about {left:,.0f} seconds left in one process"
        spent = f"{told['finished']:,} of {told['parts']:,} parts, {told['seconds']:,.0f} seconds"
        console.out.print(console.plain(f"{stage}: {spent}{rest}"))
