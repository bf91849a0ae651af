"""Options that spread a job over processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import arbo
from arbo.cli import console, options
from arbo.errors import UsageError
from arbo.files import real


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

    @contextmanager
    def over(self, linker: arbo.Linker, out: Path, before: Path | None = None) -> Iterator[arbo.Linker]:
        """Yield the linker, which then embeds, searches and partitions in parts if an option asks for it.

        ``out`` is the run or index that is written; the run ``before`` is not changed. If many documents are read in
        the block, they are kept on the disk of the work folder. Without ``--work``, this folder stands beside ``out``,
        and is removed at the end of the block unless the job fails after a part is finished.
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
        cluster = connected(self.ray, self.workers, search_memory(size)) if self.ray else nullcontext()
        is_new, is_done, work = not folder.exists(), False, None
        try:
            how: Any = {"shard_size": size, "tell": console.say}
            with cluster as pool, opened(folder, self.workers or 1, pool=pool, **how) as work:
                yield work.over(linker)
            is_done = True
        finally:
            is_kept = work is not None and not is_done and work.has_parts()
            if is_kept:
                console.say(f"finished parts are kept in {folder}, and the same command takes them")
            elif self.work is None and (is_done or is_new):
                remove(folder)
