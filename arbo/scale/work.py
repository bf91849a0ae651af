"""A work folder, in which the searches of a job, and the embedding of its texts, are tasks for several processes.

The folder keeps finished parts, so that a job that was interrupted goes on when it is started again.
``arbo-work.json`` says which parts the job needs; see `progress_of`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.pooling import RowPooling
from arbo.engine import Floats, Ids, Index, Limit, Metric, Neighbors, Progress, SearchMethod, Vectors, is_exact
from arbo.errors import DataError, UsageError
from arbo.files import Format, PathLike, check_manifest, write_json
from arbo.linker import Linker
from arbo.retrieval.domains import Wanted, search_all
from arbo.scale import embedding
from arbo.scale.embedding import Slice
from arbo.scale.executors import Serial, completed, executor
from arbo.scale.parts import MANIFEST as PART, read_manifest
from arbo.scale.search import Cell, Grid, forget
from arbo.settings import read_json

MANIFEST = "arbo-work.json"
FORMAT = Format("arbo-work", 1, {"stages": dict}, "a work folder", "choose another folder (--work)")
SHARD_SIZE = 1 << 19
"""Number of distinct vectors in a shard, unless told: with n-grams they take half a gigabyte when they are searched."""

_BYTES = 200_000_000, 1500
"""Memory that a search needs at most: in all, and for each vector of a shard."""
_UNFINISHED = ".arbo-partial-", ".arbo-old-"
"""Begin the names of folders that `arbo.files.whole_folder` has not finished."""
_DAY = 24 * 60 * 60
"""Seconds after which no process can still write such a folder."""


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """A work folder and what executes its tasks."""

    folder: Path
    pool: Executor
    shard_size: int
    tell: Callable[[str], None] = lambda _: None
    """Is told how many parts of a stage are finished already."""
    _stages: dict[str, list[str]] = field(default_factory=dict)
    _planned: list[str] = field(default_factory=list)

    def over(self, linker: Linker, *, planned: bool = True) -> Linker:
        """Return a linker that searches in shards and, if it has a transformer, embeds texts in slices.

        Its stages are ``planned`` as to come, unless told: a run that grows may need only some.
        """
        encoder, kinds = linker.encoder, ["mentions"] if linker.kb is None else ["entities", "mentions"]
        if isinstance(encoder, DualEncoder):
            encoder = replace(encoder, embed_all=self.embed_all)
        stages = ["embedding", "nearest"] if isinstance(encoder, DualEncoder) else ["nearest"]
        self._planned[:] = [f"{stage} {kind}" for stage in stages for kind in kinds] if planned else []
        return linker.configured(encoder=encoder, search_all=self.search_all)

    def embed_all(
        self, texts: Texts, slices: Sequence[Ids], pooling: RowPooling, *, what: str, progress: Progress
    ) -> Iterator[tuple[int, Floats]]:
        """Embed as `arbo.encoders.dual.embed_all` does, each slice as a task; the longest texts come first."""
        if not slices:
            return
        pool: Any = self.pool
        if hasattr(pool, "for_texts"):  # a cluster
            pool = pool.for_texts(embedding.memory_of(texts.tower))
        how: Any = {"elsewhere": not isinstance(pool, Serial), "device": getattr(pool, "device", None)}
        made = embedding.slices_of(self.folder, texts, slices, pooling, **how)
        self._finish(f"embedding {what}", made[::-1], progress, pool)
        for place, own in enumerate(made):
            yield place, own.part.arrays()["vectors"]

    def search_all(
        self,
        wanted: Iterable[Wanted],
        k: int,
        *,
        metric: Metric,
        search: SearchMethod,
        within: Limit,
        progress: Progress,
    ) -> Iterator[Neighbors]:
        """Search as `arbo.retrieval.domains.search_all` does, in shards.

        Searches that may miss neighbours, and those of token vectors, are made in this process.
        """
        how: Any = {"metric": metric, "within": within}
        grids: list[Grid | Wanted] = []
        for one in wanted:
            divided = k > 0 and _can_be_divided(one, search)
            grids.append(Grid.of(self.folder, one, k, size=self.shard_size, **how) if divided else one)
        cells = [cell for grid in grids if isinstance(grid, Grid) for cell in grid.cells]
        what = "mentions" if any(isinstance(grid, Grid) and grid.self_ids is not None for grid in grids) else "entities"
        self._finish(f"nearest {what}", cells, progress, self.pool)
        forget()
        for grid in grids:
            if isinstance(grid, Grid):
                yield grid.merged()
            else:
                yield from search_all([grid], k, search=search, progress=progress, **how)

    def _finish(self, stage: str, tasks: Sequence[Cell] | Sequence[Slice], progress: Progress, pool: Executor) -> None:
        """Make the parts that are not finished; each is made once, also if several tasks are equal."""
        if not tasks:
            return
        by_name = {task.part.name: task for task in tasks}
        self._stages[f"{len(self._stages) + 1}. {stage}"] = [*by_name]
        self.write()
        todo = [task for task in by_name.values() if not task.part.is_finished()]
        if taken := len(by_name) - len(todo):
            self.tell(f"{stage}: {taken:,} of {len(by_name):,} parts are finished already")
        calls = ((task.part.make, *task.call) for task in todo)
        for _ in progress(completed(pool, calls), len(todo)):
            pass

    def write(self, *, is_done: bool = False) -> None:
        """Write the manifest; when the job is done, no stage is to come."""
        planned = [] if is_done else self._planned
        known = {"format": FORMAT.name, "format_version": FORMAT.version, "stages": self._stages, "planned": planned}
        write_json(known, self.folder / MANIFEST)


def _can_be_divided(wanted: Wanted, search: SearchMethod) -> bool:
    """Return whether the search is exact, and that of one vector for each query; others are refused elsewhere."""
    queries, things, _ = wanted
    is_vectors = isinstance(queries, Vectors) and isinstance(things, (Vectors, Index))
    return is_vectors and is_exact(things, search) and np.array_equal(queries.owner, np.arange(queries.n))


@contextmanager
def opened(
    folder: PathLike,
    workers: int = 1,
    *,
    shard_size: int | None = None,
    pool: Executor | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Work]:
    """Open or create a work folder, whose tasks so many processes execute until the block ends.

    Args:
        folder: the folder; finished parts in it are used again if they fit.
        workers: number of processes of one thread each; with 1, this process executes the tasks.
        shard_size: number of distinct vectors in a shard; the result does not depend on it.
        pool: executes the tasks instead of such processes; it stays open.
        tell: is told how many parts an earlier job has finished.

    Raises:
        UsageError: the folder has other content or cannot be written, or a number is below 1.

    >>> import arbo, tempfile
    >>> documents, kb = arbo.load_sample()
    >>> with tempfile.TemporaryDirectory() as folder, opened(folder) as work:
    ...     result = work.over(arbo.Linker(kb)).link(documents)
    >>> result.link_table.equals(arbo.Linker(kb).link(documents).link_table)
    True
    """
    path, size = Path(folder).resolve(), SHARD_SIZE if shard_size is None else shard_size
    if workers < 1 or size < 1:
        raise UsageError(f"workers={workers} and shard_size={size} must be at least 1")
    if not (path / MANIFEST).exists() and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} exists and is not a work folder; choose another folder (--work)")
    if (path / MANIFEST).exists():
        read_work(path)
    else:
        Work(path, Serial(), size).write()
    for left in path.iterdir():
        with suppress(OSError):
            if left.name.startswith(_UNFINISHED) and time.time() - left.stat().st_mtime > _DAY:
                shutil.rmtree(left)
    with executor(workers) if pool is None else nullcontext(pool) as chosen:
        work = Work(path, chosen, size, tell)
        yield work
        work.write(is_done=True)


def memory_of(shard_size: int | None = None) -> int:
    """Return the bytes of memory that a search in shards of this size needs at most."""
    return _BYTES[0] + _BYTES[1] * (SHARD_SIZE if shard_size is None else shard_size)


def remove(folder: PathLike) -> None:
    """Remove parts and manifest of a work folder as far as possible, and the folder if nothing else is in it."""
    with suppress(OSError):
        for path in Path(folder).iterdir():
            if (path / PART).exists() or path.name.startswith(_UNFINISHED):
                shutil.rmtree(path, ignore_errors=True)
        (Path(folder) / MANIFEST).unlink()
        Path(folder).rmdir()


def read_work(folder: PathLike) -> dict[str, Any]:
    """Return the manifest of a work folder; raise UsageError if there is none, and DataError for an invalid one."""
    file = Path(folder) / MANIFEST
    if not file.exists():
        raise UsageError(f"{folder} is not a work folder: it has no {MANIFEST}; check the path")
    values = check_manifest(read_json(file, "the work folder"), FORMAT, file)
    for names in [*values["stages"].values(), values.setdefault("planned", [])]:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"the manifest has no valid stages; {FORMAT.mend}", file=str(file))
    return values


def progress_of(folder: PathLike) -> dict[str, dict[str, Any]]:
    """Return for each stage of a job how many parts it has, how many are finished, and what they took in seconds.

    ``seconds_left`` are those of the others in one process at the same speed; None if no part is finished. The number
    of parts of a stage that is still to come is None. For errors see `read_work`.
    """
    stages: dict[str, dict[str, Any]] = {}
    known = read_work(folder)
    for stage, names in known["stages"].items():
        done = [made for name in names if (made := read_manifest(Path(folder) / name))]
        seconds = sum(told for made in done if isinstance(told := made.get("seconds"), (int, float)))
        left = seconds / len(done) * (len(names) - len(done)) if done else None
        stages[stage] = {"parts": len(names), "finished": len(done), "seconds": seconds, "seconds_left": left}
    begun, planned = [stage.partition(". ")[2] for stage in stages], known["planned"]
    last = max((place for place, stage in enumerate(planned) if stage in begun), default=-1)
    for number, stage in enumerate(planned[last + 1 :], len(stages) + 1):
        stages[f"{number}. {stage}"] = {"parts": None, "finished": 0, "seconds": 0, "seconds_left": None}
    return stages
