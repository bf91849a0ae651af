"""A work folder, in which a job reads documents, embeds texts, searches and partitions as tasks for processes.

The folder keeps finished parts, so that a job that was interrupted goes on when it is started again.
A record for each job, ``arbo-work-HASH.json``, says which parts it needs; see `progress_of`.
"""

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.data.inputs import names_of
from arbo.data.records import Reading, reading
from arbo.data.tables import Tables
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.encoder import Encoder
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.pooling import RowPooling
from arbo.engine import (
    Bins,
    Floats,
    Ids,
    Index,
    Limit,
    Metric,
    Neighbors,
    Partition,
    Progress,
    SearchMethod,
    Vectors,
    is_exact,
    joined,
    partition,
)
from arbo.errors import DataError, UsageError
from arbo.files import Format, PathLike, check_manifest, discard, real, unwritable_work, write_json
from arbo.linker import Linker
from arbo.progress import Announce, Rest, quiet
from arbo.retrieval.groups import Search, search_all
from arbo.retrieval.retrieval import Retrieval
from arbo.scale import embedding, reading as documents
from arbo.scale.components import tasks_of, too_large
from arbo.scale.executors import Serial, completed, executor
from arbo.scale.parts import MANIFEST as PART, Task, read_manifest
from arbo.scale.search import Grid, forget
from arbo.settings import read_json

_MEND = "give the command of the job again, which writes it anew, or delete this file"
FORMAT = Format("arbo-work", 1, {"stages": dict}, "a record of a job", _MEND)
_NAME = re.compile(r"arbo-work(-[0-9a-f]{16})?\.json")
"""Matches the name of a record; that of an earlier version of arbo may have no hash."""
_BEGIN = re.compile(rb'\s*\{\s*"format": "arbo-work"')
"""Matches the beginning of a record, also if the rest is damaged."""
SHARD_SIZE = 1 << 19
"""Number of distinct vectors in a shard, unless told: with n-grams they take half a gigabyte when they are searched."""

PARTITION = "partition"
"""The stage that only a job with mentions for more than one bin has; whether it comes is known only then."""
_BYTES = 200_000_000, 1500
"""Memory that a search needs at most: in all, and for each vector of a shard."""
_UNFINISHED = ".arbo-partial-", ".arbo-old-"
"""Begin the names of folders and files that nobody has finished, see `arbo.files.beside`."""
_DAY = 24 * 60 * 60
"""Seconds after which no process can still write them."""


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """A work folder and what executes its tasks."""

    folder: Path
    pool: Executor
    shard_size: int
    job: str = ""
    """The name of the job, such as the run folder that it writes."""
    tell: Callable[[str], None] = lambda _: None
    """Is told how many parts of a stage are finished already."""
    announce: Announce = quiet
    """Shows the progress of reading; a linker shows its own."""
    per_bin: int = 8
    """Most mentions in a bin of the partition, for each vector of a shard: they take about as much memory."""
    _stages: dict[str, list[str]] = field(default_factory=dict)
    _planned: list[str] = field(default_factory=list)

    def read(self, files: Sequence[Path]) -> tuple[Tables, dict[str, int]] | None:
        """Read documents of JSON lines in pieces; return None if all are one piece, or have to be read as a whole."""
        try:
            pieces = documents.pieces_of(files)
        except OSError:  # which the reader tells, with the file
            return None
        if len(pieces) < 2:
            return None
        tasks = documents.tasks_of(self.folder, pieces)
        try:
            self._finish("documents", tasks, self.announce("reading documents"), self.pool)
        except DataError:  # which the reader tells, with the line of the file
            self._stages.popitem()
            self.write()
            self.tell("documents: this process reads them all, since a worker could not")
            return None
        return documents.joined([task.part for task in tasks])

    def over(self, linker: Linker, *, planned: bool = True) -> Linker:
        """Return a linker that searches in shards, partitions in bins and, if it has a transformer, embeds in slices.

        Vectors of n-grams are in files of the folder, as `new` makes them.

        Its stages are ``planned`` as to come, unless told: a run that grows may need only some.
        """
        encoder, kinds = linker.encoder, ["mentions"] if linker.kb is None else ["entities", "mentions"]
        if isinstance(encoder, DualEncoder):
            encoder = replace(encoder, embed_all=self.embed_all)
        elif isinstance(encoder, NgramEncoder):
            encoder = replace(encoder, new=self.new)
        stages = ["embedding", "nearest"] if isinstance(encoder, DualEncoder) else ["nearest"]
        self._planned[:] = [*(f"{stage} {kind}" for stage in stages for kind in kinds), PARTITION] if planned else []
        self.write()
        return linker.configured(encoder=encoder, search_all=self.search_all, partition=self.partition)

    def embed_all(
        self, texts: Texts, slices: Sequence[Ids], pooling: RowPooling, *, what: str, progress: Progress
    ) -> Iterator[tuple[int, Floats]]:
        """Embed as `arbo.encoders.dual.embed_all` does, each slice as a task; the longest texts come first."""
        if not slices:
            return
        pool: Any = self.pool
        if hasattr(pool, "for_texts"):  # a cluster
            pool = pool.for_texts(embedding.tower_memory(texts.tower))
        how: Any = {"elsewhere": not isinstance(pool, Serial), "device": getattr(pool, "device", None)}
        made = embedding.tasks_of(self.folder, texts, slices, pooling, **how)
        self._finish(f"embedding {what}", made[::-1], progress, pool)
        for place, own in enumerate(made):
            yield place, own.part.arrays()["vectors"]

    def search_all(
        self,
        searches: Iterable[Search],
        k: int,
        *,
        metric: Metric,
        search: SearchMethod,
        within: Limit,
        progress: Progress,
    ) -> Iterator[Neighbors]:
        """Search as `arbo.retrieval.groups.search_all` does, in shards.

        Searches that may miss neighbours, and those of token vectors, are made in this process.
        """
        how: Any = {"metric": metric, "within": within}
        grids: list[Grid | Search] = []
        for one in searches:
            divided = k > 0 and _can_be_divided(one, search)
            grids.append(Grid.of(self.folder, one, k, size=self.shard_size, **how) if divided else one)
        tasks = [task for grid in grids if isinstance(grid, Grid) for own in grid.tasks for task in own]
        what = "mentions" if any(isinstance(grid, Grid) and grid.self_ids is not None for grid in grids) else "entities"
        self._finish(f"nearest {what}", tasks, progress, self.pool)
        forget()
        for grid in grids:
            if isinstance(grid, Grid):
                yield grid.merged(self.new if len(grids) == 1 else np.empty)  # several lists are joined in memory
            else:
                yield from search_all([grid], k, search=search, progress=progress, **how)

    def partition(self, found: Retrieval, k: int, announce: Announce, **how: Any) -> Partition:
        """Partition as `arbo.linking.procedure.in_memory` does, but in bins, if there are mentions for more than one.

        A larger component is told before, with names of its mentions.
        """
        lists = found.listed(k, how["decisions"])
        if lists.n_mentions > (size := self.per_bin * self.shard_size):
            bins = Bins.of(lists, size, **how)
            for told in too_large(bins, size, search_memory(self.shard_size), names_of(found.inputs), how):
                self.tell(told)
            made = tasks_of(self.folder, bins, how) if bins.n_bins > 1 else []
            del bins
            if made:
                self._finish(PARTITION, [task for *_, task in made], announce("partition"), self.pool)
                return joined(
                    lists.without_edges, lambda: ((own, of, task.part.arrays()) for own, of, task in made), self.new
                )
        return partition(lists.graph(), **how)

    def new(self, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Return an array in a file of the folder, which ends with the array; raise UsageError if that fails."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.truncate(size)
                if hasattr(os, "posix_fallocate"):  # else a full disk would end the process later
                    os.posix_fallocate(file.fileno(), 0, size)
                return np.asarray(np.memmap(file, dtype, "r+", shape=shape))
        except OSError as error:
            raise unwritable_work(self.folder, error) from error

    def _finish(self, stage: str, tasks: Sequence[Task], progress: Progress, pool: Executor) -> None:
        """Make the parts that are not finished; each is made once, also if several tasks are equal."""
        if not tasks:
            return
        by_name = {task.part.name: task for task in tasks}
        self._stages[f"{len(self._stages) + 1}. {stage}"] = [*by_name]
        self.write()
        todo = [task for task in by_name.values() if not task.part.is_finished()]
        if taken := len(by_name) - len(todo):
            self.tell(f"{stage}: {taken:,} of {len(by_name):,} parts are finished already")
        calls = (task.submitted() for task in todo)
        for _ in progress(Rest(completed(pool, calls), len(todo)), len(by_name)):
            pass

    def has_parts(self) -> bool:
        """Return whether a part of the job is finished."""
        names = chain.from_iterable(self._stages.values())
        return any((self.folder / name / PART).exists() for name in names)

    def write(self, *, is_done: bool = False) -> None:
        """Write the record of the job; when it is done, no stage is to come."""
        known = {**FORMAT.head(), "job": self.job, "stages": self._stages}
        known |= {"workers": getattr(self.pool, "_max_workers", 1)}
        name = f"arbo-work-{hashlib.sha256(os.fsencode(self.job)).hexdigest()[:16]}.json"
        write_json({**known, "planned": [] if is_done else self._planned, "done": is_done}, self.folder / name)


def _can_be_divided(asked: Search, search: SearchMethod) -> bool:
    """Return whether the search is exact, and that of one vector for each query; others are refused elsewhere."""
    queries, things, _ = asked
    is_vectors = isinstance(queries, Vectors) and isinstance(things, (Vectors, Index))
    return is_vectors and is_exact(things, search) and np.array_equal(queries.owner, np.arange(queries.n))


@contextmanager
def opened(
    folder: PathLike,
    workers: int = 1,
    *,
    shard_size: int | None = None,
    pool: Executor | None = None,
    job: str = "",
    tell: Callable[[str], None] = lambda _: None,
    announce: Announce = quiet,
) -> Iterator[Work]:
    """Open or create a work folder, whose tasks so many processes execute until the block ends.

    Many documents that its thread reads in the block are on the disk of the folder, and not in memory; JSON lines are
    read in pieces, as tasks.

    Args:
        folder: the folder; finished parts in it are used again if they fit.
        workers: number of processes of one thread each; with 1, this process executes the tasks.
        shard_size: number of distinct vectors in a shard; the result does not depend on it.
        pool: executes the tasks instead of such processes; it stays open.
        job: tells jobs apart that share the folder; a job replaces the record of an earlier one of this name.
        tell: is told how many parts an earlier job has finished.
        announce: shows the progress of reading documents; a linker shows its own.

    Raises:
        UsageError: the folder has other content or cannot be written, a number is below 1, or ``pool`` cannot
            ``submit``.

    >>> import arbo, tempfile
    >>> documents, kb = arbo.load_sample()
    >>> with tempfile.TemporaryDirectory() as folder, opened(folder) as work:
    ...     result = work.over(arbo.Linker(kb)).link(documents)
    >>> result.link_table.equals(arbo.Linker(kb).link(documents).link_table)
    True
    """
    path, size = real(folder), SHARD_SIZE if shard_size is None else shard_size
    if workers < 1 or size < 1:
        raise UsageError(f"workers={workers} and shard_size={size} must be at least 1")
    if pool is not None and not callable(getattr(pool, "submit", None)):
        raise UsageError(f"pool={pool!r} has no method submit; a number of processes is workers=...")
    if not any(map(_is_record, _named(path))):
        if path.exists() and not (path.is_dir() and all(own.name.startswith(_UNFINISHED) for own in path.iterdir())):
            raise UsageError(f"{path} exists and is not a work folder; choose another folder (--work)")
        Work(path, Serial(), size, job).write()
    for left in path.iterdir():
        with suppress(OSError):
            if left.name.startswith(_UNFINISHED) and time.time() - left.stat().st_mtime > _DAY:
                discard(left)
    before = reading.get()
    try:
        with executor(workers) if pool is None else nullcontext(pool) as chosen:
            work = Work(path, chosen, size, job, tell, announce)
            reading.set(Reading(lambda part: part.mapped(path), work.read))
            yield work
            work.write(is_done=True)
    finally:
        reading.set(before)


def search_memory(shard_size: int | None = None) -> int:
    """Return the bytes of memory that a search in shards of this size needs at most."""
    return _BYTES[0] + _BYTES[1] * (SHARD_SIZE if shard_size is None else shard_size)


def worker_memory(encoder: Encoder, shard_size: int | None = None) -> int:
    """Return the bytes of memory that a worker needs at most, to search or to embed."""
    towers = (encoder.mention_tower, encoder.entity_tower) if isinstance(encoder, DualEncoder) else ()
    return max([search_memory(shard_size), *map(embedding.tower_memory, towers)])


def remove(folder: PathLike) -> None:
    """Remove parts and records of a work folder as far as possible, and the folder if nothing else is in it."""
    with suppress(OSError):
        for path in Path(folder).iterdir():
            if (path / PART).exists() or path.name.startswith(_UNFINISHED):
                discard(path)
        for file in filter(_is_record, _named(Path(folder))):
            file.unlink()
        Path(folder).rmdir()


def _named(folder: Path) -> list[Path]:
    """Return the files of a folder that are records of jobs by their names."""
    return [file for file in folder.glob("arbo-work*.json") if _NAME.fullmatch(file.name) and file.is_file()]


def _is_record(file: Path) -> bool:
    """Return whether the content of a file is that of a record, perhaps a damaged one."""
    with file.open("rb") as stream:
        return _BEGIN.match(stream.read(100)) is not None


def _jobs(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the records of a work folder by the names of their jobs, sorted; without one, by that of its file."""
    files = _named(folder)
    records = [(check_manifest(read_json(file, "the record", FORMAT.mend), FORMAT, file), file) for file in files]
    if not records:
        there = "is not a work folder" if folder.exists() else "does not exist"
        raise UsageError(
            f"{folder} {there}; check the path: a work folder that --work did not name is removed when its run is "
            "written"
        )
    for values, file in records:
        for names in [*values["stages"].values(), values.setdefault("planned", [])]:
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise DataError(f"the record has no valid stages; {FORMAT.mend}", file=str(file))
    by_name = {str(values.get("job") or file.name): values for values, file in records}
    return dict(sorted(by_name.items()))


def progress_of(folder: PathLike) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each job, and each of its stages, how many parts there are and are finished, and what they took.

    ``seconds_left`` are those of the others at the same speed with the ``workers`` of the job; None if no part is
    finished. The number of parts of a stage that is or may be still to come is None. A job without a name is called by
    the file of its record. Raise UsageError if the folder is not a work folder, and DataError for a damaged
    record.
    """
    return {name: dict(_stages_of(job, Path(folder))) for name, job in _jobs(Path(folder)).items()}


def done_in(folder: PathLike) -> set[str]:
    """Return the names of the jobs in a work folder that are done; raise the errors of `progress_of`."""
    return {name for name, job in _jobs(Path(folder)).items() if job.get("done") is True}


def _stages_of(job: dict[str, Any], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    begun, planned = job["stages"], job["planned"]
    workers = n if type(n := job.get("workers")) is int and n > 0 else 1
    for stage, names in begun.items():
        done = [made for name in names if (made := read_manifest(folder / name))]
        seconds = sum(told for made in done if isinstance(told := made.get("seconds"), (int, float)))
        left = seconds / len(done) * ceil((len(names) - len(done)) / workers) if done else None
        told = {"parts": len(names), "finished": len(done), "seconds": seconds}
        yield stage, {**told, "seconds_left": left, "workers": workers}
    known = {stage.partition(". ")[2] for stage in begun}
    last = max((place for place, stage in enumerate(planned) if stage in known), default=-1)
    for number, stage in enumerate(planned[last + 1 :], len(begun) + 1):
        told = {"parts": None, "finished": 0, "seconds": 0}
        yield f"{number}. {stage}", {**told, "seconds_left": None, "workers": workers}
