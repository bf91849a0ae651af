"""A work folder, in which a job embeds texts and searches as tasks for several processes.

The folder keeps finished parts, so that an interrupted job goes on when it is started again. A vector depends, by
rounding, on the texts of its batch: tasks embed the slices in which one process embeds them.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arbo.encoders.encoder_config import Pooling
from arbo.encoders.templates import TokenRow
from arbo.engine import Floats, Ids, Neighbors, Progress
from arbo.errors import UsageError
from arbo.files import PathLike, discard, real
from arbo.retrieval.groups import Search, search_all
from arbo.scale.executors import completed, executor
from arbo.scale.parts import MANIFEST as PART, Arrays, Part, Task
from arbo.scale.search import in_shards, shard_index

if TYPE_CHECKING:  # workers do without them
    from arbo.encoders.dual import Texts
    from arbo.encoders.tower import Tower

SHARD_SIZE = 1 << 19
"""Default number of distinct vectors in a shard: with n-grams, a search of them takes half a gigabyte."""
_BYTES = 200_000_000, 1500  # memory that a search needs at most: in all, and for each vector of a shard
_UNFINISHED = ".arbo-partial-", ".arbo-old-"
"""Begin the names of folders and files that nobody has finished, see `arbo.files.beside`."""


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """A work folder and what executes its tasks, for `Linker(over=...)`."""

    folder: Path
    pool: Executor | None
    shard_size: int
    tell: Callable[[str], None] = lambda _: None  # receives messages, such as how many parts are finished already

    def embed_all(
        self, texts: "Texts", slices: Sequence[Ids], pooling: Pooling, *, what: str, progress: Progress
    ) -> Iterator[tuple[int, Floats]]:
        """Embed as `arbo.encoders.dual.embed_all` does, each slice as a task; the longest texts come first."""
        if not slices:
            return
        pool: Any = self.pool
        tower = texts.tower
        if hasattr(pool, "for_texts"):  # a cluster
            weights = sum(weight.numel() for module in tower.modules for weight in module.parameters())
            pool = pool.for_texts(4 * weights + 1_000_000_000)  # torch and the batches need memory too
        device = getattr(pool, "device", str(tower.model.device))  # on whose kind vectors depend, not on its number
        precision = str(tower.model.dtype).removeprefix("torch.")
        source: Any = tower
        if pool is not None:
            stored = Part.of(self.folder, "tower", weights=tower.fingerprint, precision=precision)
            stored.written(tower.save)
            source = stored.folder, device, precision
        same = {"model": texts.identity(pooling), "device": device.partition(":")[0]}
        hashes = [hashlib.sha256(texts.keys[chosen].tobytes()).hexdigest() for chosen in slices]
        parts = [Part.of(self.folder, "embedding", **same, texts=digest) for digest in hashes]

        def call(chosen: Ids) -> tuple[Any, ...]:
            packed: Any = partial(array, "i")  # four bytes a token, as many tasks may wait
            rows = [row._replace(ids=packed(row.ids)) for row in texts.spell(chosen)]
            return embed, source, rows, pooling

        tasks = [(part, partial(call, chosen)) for part, chosen in zip(parts, slices, strict=True)]
        self._finish(f"embedding {what}", tasks[::-1], progress, pool)
        yield from enumerate(part.arrays()["vectors"] for part in parts)

    def search_all(self, searches: Iterable[Search], k: int, *, progress: Progress, **how: Any) -> Iterator[Neighbors]:
        """Search as `arbo.retrieval.groups.search_all` does, in shards."""
        searches = [*searches]
        if not k or any(not np.array_equal(one.queries.owner, np.arange(one.queries.n)) for one in searches):
            yield from search_all(searches, k, progress=progress, **how)  # refuses several vectors of a query
            return
        planned = [in_shards(self.folder, one, k, size=self.shard_size, **how) for one in searches]
        what = "mentions" if any(one.self_ids is not None for one in searches) else "entities"
        self._finish(f"nearest {what}", [task for some, _ in planned for task in some], progress, self.pool)
        shard_index.cache_clear()
        yield from (merged() for _, merged in planned)

    def _finish(self, stage: str, tasks: Sequence[Task], progress: Progress, pool: Executor | None) -> None:
        """Make the parts that are not finished; each is made once, also if several tasks are equal."""
        calls_of = dict(tasks)
        todo = [part for part in calls_of if not part.is_finished()]
        if taken := len(calls_of) - len(todo):
            self.tell(f"{stage}: {taken:,} of {len(calls_of):,} parts are finished already")
        for _ in progress(completed(pool, ((part.make, *calls_of[part]()) for part in todo)), len(todo)):
            pass


def embed(source: Any, rows: list[TokenRow], pooling: Pooling) -> Arrays:
    """Return the vectors of texts by a tower, or by that of a folder, a device and a precision."""
    return {"vectors": (_tower_in(*source) if isinstance(source, tuple) else source).embed(rows, pooling)}


@lru_cache(2)  # one for mentions, one for entities
def _tower_in(folder: Path, device: str, precision: Any) -> "Tower":
    from arbo.encoders.tower import Tower

    return Tower.load(folder, device=device, precision=precision)


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

    Args:
        folder: the folder; finished parts in it are used again if they fit.
        workers: number of processes of one thread each; with 1, this process executes the tasks.
        shard_size: number of distinct vectors in a shard; the result does not depend on it.
        pool: executes the tasks instead of such processes; it stays open.
        tell: receives messages, such as how many parts an earlier job has finished.

    Raises:
        UsageError: a number is below 1; and when a part is finished, if the folder cannot be written.

    >>> import arbo, tempfile
    >>> documents, kb = arbo.load_sample()
    >>> with tempfile.TemporaryDirectory() as folder, opened(folder) as work:
    ...     result = arbo.Linker(kb, over=work).link(documents)
    >>> result.link_table.equals(arbo.Linker(kb).link(documents).link_table)
    True
    """
    size = SHARD_SIZE if shard_size is None else shard_size
    if workers < 1 or size < 1:
        raise UsageError(f"workers={workers} and shard_size={size} must be at least 1")
    with executor(workers) if pool is None else nullcontext(pool) as chosen:
        yield Work(real(folder), chosen, size, tell)


def search_memory(shard_size: int | None = None) -> int:
    """Return the bytes of memory that a search in shards of this size needs at most."""
    return _BYTES[0] + _BYTES[1] * (SHARD_SIZE if shard_size is None else shard_size)


def remove(folder: PathLike) -> None:
    """Remove the parts of a work folder as far as possible, and the folder if nothing else is in it."""
    with suppress(OSError):
        for path in Path(folder).iterdir():
            if (path / PART).exists() or path.name.startswith(_UNFINISHED):
                discard(path)
        Path(folder).rmdir()
