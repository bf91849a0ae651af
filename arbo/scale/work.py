"""A work folder, in which a job embeds texts, searches and partitions the graph as tasks for several processes.

The folder keeps finished parts, so that a job that was interrupted goes on when it is started again. The file
``arbo-work.json`` marks the folder.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.data.records import kept_tables
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.pooling import RowPooling
from arbo.engine import (
    Bin,
    Bins,
    Decisions,
    Edges,
    Floats,
    Graph,
    Ids,
    Index,
    Limit,
    Metric,
    Neighbors,
    Partition,
    Progress,
    SearchMethod,
    Vectors,
    described,
    is_exact,
    joined,
    partition,
)
from arbo.errors import UsageError
from arbo.files import Format, PathLike, discard, real, unwritable_work, write_json
from arbo.linker import Linker
from arbo.progress import Announce, Rest
from arbo.retrieval.groups import Search, search_all
from arbo.retrieval.retrieval import Retrieval
from arbo.scale import embedding
from arbo.scale.executors import Serial, completed, executor
from arbo.scale.parts import MANIFEST as PART, Arrays, Part, Task
from arbo.scale.search import Grid, forget

FORMAT = Format("arbo-work", 2, {}, "the marker of a work folder", "choose another folder (--work)")
MARKER = "arbo-work.json"
SHARD_SIZE = 1 << 19
"""Default number of distinct vectors in a shard: with n-grams, a search of them takes half a gigabyte."""
_BYTES = 200_000_000, 1500
"""Memory that a search needs at most: in all, and for each vector of a shard."""
_UNFINISHED = ".arbo-partial-", ".arbo-old-"
"""Begin the names of folders and files that nobody has finished, see `arbo.files.beside`."""
_BIN_BYTES = 100, 70
"""Memory that a partition needs at most, for each mention, and for each edge."""


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """A work folder and what executes its tasks."""

    folder: Path
    pool: Executor
    shard_size: int
    tell: Callable[[str], None] = lambda _: None
    """Receives messages, such as how many parts of a stage are finished already."""
    per_bin: int = 8
    """Most mentions in a bin of the partition, for each vector of a shard: they take about as much memory."""

    def over(self, linker: Linker) -> Linker:
        """Return a linker that searches in shards, partitions in bins and, if it has a transformer, embeds in slices.

        Vectors of n-grams are in files of the folder, as `new` makes them.
        """
        encoder = linker.encoder
        if isinstance(encoder, DualEncoder):
            encoder = replace(encoder, embed_all=self.embed_all)
        elif isinstance(encoder, NgramEncoder):
            encoder = replace(encoder, new=self.new)
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
        for place, task in enumerate(made):
            yield place, task.part.arrays()["vectors"]

    def search_all(
        self,
        searches: Iterable[Search],
        k: int,
        *,
        metric: Metric,
        search: SearchMethod,
        within: Limit = None,
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
        tasks = [task for grid in grids if isinstance(grid, Grid) for row in grid.tasks for task in row]
        what = "mentions" if any(isinstance(grid, Grid) and grid.self_ids is not None for grid in grids) else "entities"
        self._finish(f"nearest {what}", tasks, progress, self.pool)
        forget()
        for grid in grids:
            if isinstance(grid, Grid):
                yield grid.merged(self.new if len(grids) == 1 else np.empty)  # several lists are joined in memory
            else:
                yield from search_all([grid], k, search=search, progress=progress, **how)

    def partition(self, retrieval: Retrieval, k: int, announce: Announce, **how: Any) -> Partition:
        """Partition as `arbo.linker.partition_here` does, but in bins, if there are mentions for more than one.

        A component that is larger than a bin is reported first.
        """
        lists = retrieval.listed(k, how["decisions"])
        if lists.n_mentions > (size := self.per_bin * self.shard_size):
            bins = Bins.of(lists, size, **how)
            if (largest := np.diff(bins.begin)).max() > size:
                self.tell(_too_large(bins, int(largest.argmax()), size))
            made = self._tasks_of(bins, how) if bins.n_bins > 1 else []
            del bins
            if made:
                self._finish("partition", [task for *_, task in made], announce("partition"), self.pool)
                return joined(
                    lists.without_edges,
                    lambda: ((mentions, of, task.part.arrays()) for mentions, of, task in made),
                    self.new,
                )
        return partition(lists.graph(), **how)

    def _tasks_of(self, bins: Bins, how: dict[str, Any]) -> list[tuple[Ids, Ids, Task]]:
        """Write the bins, and plan their partitions; return the mentions and the entities of each, and its task.

        ``how`` are arguments of `partition`.
        """
        how = {name: value for name, value in how.items() if name != "decisions"}
        known = json.loads(json.dumps(how))  # as a part has it when it is read again

        def task(one: Bin) -> Task:
            graph = Part.with_arrays(self.folder, "graph", _arrays(one))
            return Task(
                Part.of(self.folder, "partition", graph=graph.name, **known), lambda: (_partitioned, graph.folder, how)
            )

        return [(one.mentions, one.entities, task(one)) for one in map(bins.taken, range(bins.n_bins))]

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
        todo = [task for task in by_name.values() if not task.part.is_finished()]
        if taken := len(by_name) - len(todo):
            self.tell(f"{stage}: {taken:,} of {len(by_name):,} parts are finished already")
        calls = (task.submitted() for task in todo)
        for _ in progress(Rest(completed(pool, calls), len(todo)), len(by_name)):
            pass

    def has_parts(self) -> bool:
        """Return whether the folder has a finished part."""
        return any(self.folder.glob(f"*/{PART}"))


def _can_be_divided(one: Search, search: SearchMethod) -> bool:
    """Return whether the search is exact, and that of one vector for each query; others are refused elsewhere."""
    queries, things, _ = one
    is_vectors = isinstance(queries, Vectors) and isinstance(things, (Vectors, Index))
    return is_vectors and is_exact(things, search) and np.array_equal(queries.owner, np.arange(queries.n))


def _partitioned(folder: Path, how: dict[str, Any]) -> Arrays:
    """Partition a bin for `joined`; the first argument is the folder of its part."""
    arrays = Part(folder, {}).arrays()
    edges = Edges(*(arrays[name] for name in Edges._fields))
    decisions = Decisions(*(arrays[name] for name in Decisions._fields)) if "root" in arrays else None
    return described(partition(Graph(*edges, *arrays["counts"].tolist()), **how, decisions=decisions))


def _arrays(one: Bin) -> Arrays:
    graph, decisions = one.graph, one.decisions
    counts = np.array([graph.n_entities, graph.n_nodes])
    edges = {"source": graph.source, "target": graph.target, "weight": graph.weight, "counts": counts}
    return edges if decisions is None else edges | decisions._asdict()


def _too_large(bins: Bins, which: int, size: int) -> str:
    """Describe a bin, which is a component of more mentions than ``size``."""
    n_mentions = bins.begin[which + 1] - bins.begin[which]
    needed = (_BIN_BYTES[0] * n_mentions + _BIN_BYTES[1] * bins.n_edges(which)) / 1e9
    return (
        f"partition: the largest group of connected mentions has {n_mentions:,}, more than a bin of {size:,}; it is "
        f"partitioned at once in about {needed:.2f} GB; a lower --mention-threshold may split it, a smaller "
        "--shard-size does not"
    )


@contextmanager
def opened(
    folder: PathLike,
    workers: int = 1,
    *,
    shard_size: int | None = None,
    pool: Executor | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Work]:
    """Open or create a work folder, whose tasks ``workers`` processes execute until the block ends.

    If this thread reads many documents in the block, they are kept on the disk of the folder instead of in memory.

    Args:
        folder: the folder; finished parts in it are used again if they fit.
        workers: number of processes of one thread each; with 1, this process executes the tasks.
        shard_size: number of distinct vectors in a shard; the result does not depend on it.
        pool: executes the tasks instead of such processes; it stays open.
        tell: receives messages, such as how many parts an earlier job has finished.

    Raises:
        UsageError: the folder has other content or cannot be written, or a number is below 1.

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
    if not (path / MARKER).is_file():
        if path.exists() and not (
            path.is_dir() and all(entry.name.startswith(_UNFINISHED) for entry in path.iterdir())
        ):
            raise UsageError(f"{path} exists and is not a work folder; choose another folder (--work)")
        write_json(FORMAT.head(), path / MARKER)
    with executor(workers) if pool is None else nullcontext(pool) as chosen:
        token = kept_tables.set(lambda part: part.mapped(path))
        try:
            yield Work(path, chosen, size, tell)
        finally:
            kept_tables.reset(token)


def search_memory(shard_size: int | None = None) -> int:
    """Return the bytes of memory that a search in shards of this size needs at most."""
    return _BYTES[0] + _BYTES[1] * (SHARD_SIZE if shard_size is None else shard_size)


def remove(folder: PathLike) -> None:
    """Remove the parts of a work folder as far as possible, and the folder if nothing else is in it."""
    with suppress(OSError):
        for path in Path(folder).iterdir():
            if (path / PART).exists() or path.name.startswith(_UNFINISHED):
                discard(path)
        (Path(folder) / MARKER).unlink(missing_ok=True)
        Path(folder).rmdir()
