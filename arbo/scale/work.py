"""A work folder, in which the searches of a job are tasks for several processes.

The folder keeps finished parts, so that a job that was interrupted goes on when it is started again.
``arbo-work.json`` says which parts the job needs; see `progress_of`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from arbo.engine import Index, Metric, Neighbors, Progress, SearchMethod, Vectors, is_exact
from arbo.errors import DataError, UsageError
from arbo.files import Format, PathLike, check_manifest, write_json
from arbo.retrieval.domains import Wanted, search_all
from arbo.scale.executors import completed, executor
from arbo.scale.parts import MANIFEST as PART, read_manifest
from arbo.scale.search import Grid, forget
from arbo.settings import read_json

MANIFEST = "arbo-work.json"
FORMAT = Format("arbo-work", 1, {"stages": dict}, "a work folder", "choose another folder (--work)")
SHARD_SIZE = 1 << 19
"""Number of distinct vectors in a shard, unless told: with n-grams they take half a gigabyte when they are searched."""

_BYTES = 400_000_000, 4096
"""Memory that a task needs at most: in all, and for each vector of a shard."""
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
    _stages: dict[str, list[str]] = field(default_factory=dict)

    def search_all(
        self,
        wanted: Iterable[Wanted],
        k: int,
        *,
        metric: Metric,
        search: SearchMethod,
        within: float | None,
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
        self._finish([grid for grid in grids if isinstance(grid, Grid)], progress)
        for grid in grids:
            if isinstance(grid, Grid):
                yield grid.merged()
            else:
                yield from search_all([grid], k, search=search, progress=progress, **how)

    def _finish(self, grids: Sequence[Grid], progress: Progress) -> None:
        """Make the parts that are not finished; each is made once, also if several cells are equal."""
        if not grids:
            return
        parts = {cell.part.name: cell for grid in grids for cell in grid.cells}
        what = "entities" if all(grid.self_ids is None for grid in grids) else "mentions"
        self._stages[f"{len(self._stages) + 1}. nearest {what}"] = [*parts]
        write_json({"format": FORMAT.name, "format_version": FORMAT.version, "stages": self._stages}, self._manifest)
        todo = [cell for cell in parts.values() if not cell.part.is_finished()]
        calls = ((cell.part.make, *cell.call) for cell in todo)
        for _ in progress(completed(self.pool, calls), len(todo)):
            pass
        forget()

    @property
    def _manifest(self) -> Path:
        return self.folder / MANIFEST


def _can_be_divided(wanted: Wanted, search: SearchMethod) -> bool:
    """Return whether the search is exact, and that of one vector for each query; others are refused elsewhere."""
    queries, things, _ = wanted
    is_vectors = isinstance(queries, Vectors) and isinstance(things, (Vectors, Index))
    return is_vectors and is_exact(things, search) and np.array_equal(queries.owner, np.arange(queries.n))


@contextmanager
def opened(
    folder: PathLike, workers: int = 1, *, shard_size: int | None = None, pool: Executor | None = None
) -> Iterator[Work]:
    """Open or create a work folder, whose tasks so many processes execute until the block ends.

    Args:
        folder: the folder; finished parts in it are used again if they fit.
        workers: number of processes of one thread each; with 1, this process executes the tasks.
        shard_size: number of distinct vectors in a shard; the result does not depend on it.
        pool: executes the tasks instead of such processes; it stays open.

    Raises:
        UsageError: the folder has other content or cannot be written, or a number is below 1.

    >>> import arbo, tempfile
    >>> documents, kb = arbo.load_sample()
    >>> with tempfile.TemporaryDirectory() as folder, opened(folder) as work:
    ...     result = arbo.Linker(kb, search_all=work.search_all).link(documents)
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
        write_json({"format": FORMAT.name, "format_version": FORMAT.version, "stages": {}}, path / MANIFEST)
    for left in path.iterdir():
        with suppress(OSError):
            if left.name.startswith(_UNFINISHED) and time.time() - left.stat().st_mtime > _DAY:
                shutil.rmtree(left)
    if pool is not None:
        yield Work(path, pool, size)
        return
    with executor(workers) as own:
        yield Work(path, own, size)


def memory_of(shard_size: int | None = None) -> int:
    """Return the bytes of memory that a task on shards of this size needs at most."""
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
    for names in values["stages"].values():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"the manifest has no valid stages; {FORMAT.mend}", file=str(file))
    return values


def progress_of(folder: PathLike) -> dict[str, dict[str, Any]]:
    """Return for each stage of a job how many parts it has, how many are finished, and what they took in seconds.

    ``seconds_left`` are those of the others in one process at the same speed; None if no part is finished. A stage is
    listed once it begins. For errors see `read_work`.
    """
    stages = {}
    for stage, names in read_work(folder)["stages"].items():
        done = [made for name in names if (made := read_manifest(Path(folder) / name))]
        seconds = sum(told for made in done if isinstance(told := made.get("seconds"), (int, float)))
        left = seconds / len(done) * (len(names) - len(done)) if done else None
        stages[stage] = {"parts": len(names), "finished": len(done), "seconds": seconds, "seconds_left": left}
    return stages
