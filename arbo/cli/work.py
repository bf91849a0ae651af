"""How a job is shared among processes, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import arbo
from arbo.cli import console
from arbo.errors import UsageError
from arbo.files import real
from arbo.settings import Count, Settings


@dataclass(frozen=True, slots=True)
class JobConfig(Settings):
    """How a job is shared among processes, and what it keeps."""

    workers: Count = 1
    """Number of processes that share the work."""
    ray: str | None = None
    """Share the work on the Ray cluster at this address; ``local`` starts one."""
    cache: str | None = None
    """Folder for the embeddings of a transformer, so that no text is embedded twice; None means `arbo` in the user's
    cache folder."""
    texts: bool = True
    """Whether a run keeps the texts and columns of documents; mentions keep their texts."""
    shard_size: Count | None = None
    """Largest number of names of a search task; None means 524,288. See docs/scale.md."""
    work: str | None = None
    """Folder of finished parts; None means OUT.work, which is removed at the end."""

    @property
    def is_spread(self) -> bool:
        """Whether a setting asks for shards."""
        return (self.shard_size, self.work, self.ray, self.workers) != (None, None, None, 1)

    @contextmanager
    def over(self, linker: arbo.Linker, out: Path, before: Path | None = None) -> Iterator[arbo.Linker]:
        """Yield the linker, which then embeds and searches in parts if a setting asks for it.

        ``out`` is the run or index that is written; the run ``before`` is not changed. Without ``work``, the folder of
        parts stands beside ``out``, and is removed at the end of the block unless the job fails after a part is
        finished.
        """
        if not self.is_spread:
            yield linker
            return
        from arbo.scale.cluster import LOCAL, connected
        from arbo.scale.parts import MANIFEST
        from arbo.scale.work import opened, remove, search_memory

        run = real(out)
        folder = Path(self.work) if self.work else run.with_name(f"{run.name}.work")
        if any(real(folder).is_relative_to(real(kept)) for kept in (run, before) if kept is not None):
            raise UsageError(f"the work folder {folder} is in a run folder; choose another folder")
        if self.workers > 1 and self.ray not in (None, LOCAL):
            raise UsageError("--workers is for --ray local; a cluster has the workers that its nodes have CPUs for")
        several = self.workers if self.workers > 1 else None
        cluster = connected(self.ray, several, search_memory(self.shard_size)) if self.ray else nullcontext()
        is_new, is_done, work = not folder.exists(), False, None
        try:
            with (
                cluster as pool,
                opened(folder, self.workers, pool=pool, shard_size=self.shard_size, tell=console.say) as work,
            ):
                yield work.over(linker)
            is_done = True
        finally:
            if work is not None and not is_done and any(folder.glob(f"*/{MANIFEST}")):
                console.say(f"finished parts are kept in {folder}, and the same command takes them")
            elif self.work is None and (is_done or is_new):
                remove(folder)
