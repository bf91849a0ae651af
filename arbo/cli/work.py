"""Options that spread a job over processes, and the verb `status`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

import arbo
from arbo.cli import console, options
from arbo.cli.console import counted
from arbo.errors import UsageError
from arbo.files import real
from arbo.progress import bars


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """How a job is spread."""

    workers: options.Workers = None
    shard_size: options.ShardSize = None
    work: options.Work = None
    ray: options.Ray = None

    @property
    def is_spread(self) -> bool:
        """Whether an option asks for shards."""
        return (self.shard_size, self.work, self.ray) != (None, None, None) or self.workers not in (None, 1)

    def worker_bytes(self, linker: arbo.Linker, n_names: int) -> int | None:
        """Return the bytes of memory that a worker takes at most, with ``n_names`` distinct names; None without one."""
        from arbo.scale.work import SHARD_SIZE, worker_memory

        is_alone = self.ray is None and self.workers in (None, 1)
        return None if is_alone else worker_memory(linker.encoder, min(self.shard_size or SHARD_SIZE, n_names))

    @contextmanager
    def over(
        self, linker: arbo.Linker, out: Path, before: Path | None = None, *, planned: bool = True
    ) -> Iterator[arbo.Linker]:
        """Yield the linker, which then embeds, searches and partitions in parts if an option asks for it.

        ``out`` is the run or index that is written. The run ``before`` is not changed; for ``planned`` see
        `arbo.scale.work.Work.over`.
        Many documents that are read in the block are on the disk of the work folder. If it is not given, it stands
        beside ``out``, and is removed at the end of the block, unless that fails and there are parts, which is told.
        """
        if not self.is_spread:
            yield linker
            return
        from arbo.scale.cluster import LOCAL, connected
        from arbo.scale.work import opened, remove, search_memory

        run = real(out)
        folder = self.work or run.with_name(f"{run.name}.work")
        if real(folder).is_relative_to(run):
            raise UsageError("--work is in the folder of --out, which is replaced; choose another folder")
        if before is not None and real(folder).is_relative_to(real(before)):
            raise UsageError(f"--work is in the run {before}, which is not changed; choose another folder")
        if self.workers and self.ray not in (None, LOCAL):
            raise UsageError("--workers is for --ray local; a cluster has the workers that its nodes have CPUs for")
        size = self.shard_size
        told: Any = {"job": str(run), "tell": console.say, "announce": bars}
        cluster = connected(self.ray, self.workers, search_memory(size)) if self.ray else nullcontext()
        is_new, is_done, work = not folder.exists(), False, None
        try:
            with cluster as pool, opened(folder, self.workers or 1, shard_size=size, pool=pool, **told) as work:
                yield work.over(linker, planned=planned)
            is_done = True
        finally:
            is_kept = work is not None and not is_done and work.has_parts()
            if is_kept:
                console.say(f"finished parts are kept in {folder}, and the same command takes them")
            elif self.work is None and (is_done or is_new):
                remove(folder)


def status(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="A work folder: --work, or OUT.work beside a run.")],
    as_json: options.Json = False,
) -> None:
    """Show how much of a job is done, from the work folder of a verb with `--workers`, `--work` or `--ray`."""
    from arbo.scale.work import PARTITION, done_in, progress_of

    jobs, done = progress_of(folder), done_in(folder)
    if as_json:
        console.print_json({"folder": str(folder), "jobs": jobs, "done": sorted(done)})
        return
    for job, stages in jobs.items():
        console.print_title(f"{job}: done" if job in done else job)
        for stage, told in stages.items():
            if told["parts"] is None:
                is_sure = not stage.endswith(PARTITION)
                console.show(f"{stage}: to come{'' if is_sure else ', if the mentions need more than one bin'}")
            else:
                n = "one process" if told["workers"] == 1 else f"{told['workers']:,} processes"
                spent, left = counted(round(told["seconds"]), "second"), told["seconds_left"]
                rest = f"; about {counted(round(left), 'second')} left in {n}" if left else ""
                console.show(f"{stage}: {told['finished']:,} of {told['parts']:,} parts, {spent} of work{rest}")
