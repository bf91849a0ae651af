"""The search as a grid of tasks: parts of the distinct query vectors by shards of things.

A task is a search by `clustering.knn.nearest`. The lists of a query's tasks are merged by (dissimilarity, id), and a
thing is in one shard only, so that the result is that of a single search.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from arbo.engine import Ids, Index, Limit, Metric, Neighbors, Vectors, lists_of, merged, nearest, renumbered
from arbo.retrieval.groups import Search, best_scanner
from arbo.scale.parts import Arrays, Part, Task

_QUERIES = 1 << 14  # most queries of a task


def in_shards(
    work: Path, one: Search, k: int, *, metric: Metric, within: Limit = None, size: int
) -> tuple[list[Task], Callable[[], Neighbors]]:
    """Write the vectors in shards of ``size`` distinct vectors, and plan the search; see `nearest`.

    Return the tasks, and a function that returns the lists of all queries once every part is finished.
    """
    queries: Any
    things: Any
    queries, things, self_ids = one
    scaled = isinstance(things, Index) and metric == "cosine"
    others = things.vectors if isinstance(things, Index) else things
    rows, shards = np.unique(queries.row), _shards(others, size)
    width, most = min(k, others.n) + (self_ids is not None), min(size, _QUERIES)
    chunks = [rows[begin : begin + most] for begin in range(0, len(rows), most)]
    vectors = [Part.with_arrays(work, "vectors", _arrays(queries.matrix, chunk)) for chunk in chunks]
    limit = None if within is None else float(np.max(within, initial=-np.inf))  # lists are cut when they are merged
    how = {"k": width, "metric": metric, "within": limit}

    def task(part: Part, shared: Part) -> Task:
        made = Part.of(work, "search", queries=part.folder.name, things=[shared.folder.name, scaled], **how)
        return made, lambda: (search, part.folder, shared.folder, scaled, how)

    places = [Part.with_arrays(work, "things", _things(others.taken(shard))) for shard in shards]
    tasks = [[task(part, shared) for part in vectors] for shared in places]

    def fill(rows: Ids, lists: Any) -> None:
        begin = 0
        for column in zip(*tasks, strict=True):
            pairs = zip(column, shards, strict=True)
            parts = [renumbered(Neighbors(**part.arrays()), shard) for (part, _), shard in pairs]
            end = begin + len(parts[0].ids)
            lists.ids[begin:end], lists.dissimilarity[begin:end] = merged(parts, lists.ids.shape[1])
            begin = end

    return list(chain(*tasks)), partial(lists_of, queries.row, k, others.n, self_ids, within, fill)


def search(queries: Path, things: Path, scaled: bool, how: dict[str, Any]) -> Arrays:
    """Return the lists of some queries in a shard of things; the arguments are the folders of parts."""
    matrix = _matrix(Part(queries).arrays())
    rows = np.arange(matrix.shape[0], dtype=np.int32)
    vectors = Vectors(matrix, rows, rows, len(rows))
    on: dict[str, Any] = {"scanner": best_scanner()} if parent_process() is None else {}  # a pool would share the GPU
    return nearest(vectors, shard_index(things, how["metric"], scaled), **on, **how)._asdict()


@lru_cache(1)  # tasks with the same things follow each other
def shard_index(things: Path, metric: Metric, scaled: bool) -> Index:
    """Return the things of a part, ready to be searched; the last one stays in memory."""
    arrays = Part(things).arrays()
    row, owner, n = (arrays[name] for name in ("row", "owner", "n"))
    return Index.of(Vectors(_matrix(arrays), row, owner, int(n)), metric, scaled=scaled)


def _shards(things: Vectors, size: int) -> list[Ids]:
    """Divide things, by their distinct first vectors, into shards of about ``size`` vectors; ids ascend in each."""
    owner, first, n = np.unique(things.owner, return_index=True, return_counts=True)
    group = np.unique(things.row[first], return_inverse=True)[1]
    vectors = 1 + np.bincount(group, n - 1)  # of the things that have a first vector
    shard = ((np.cumsum(vectors) - 1) // size).astype(np.int64)[group]
    order = np.argsort(shard, kind="stable")
    return [ids for ids in np.split(owner[order], np.flatnonzero(np.diff(shard[order])) + 1) if len(ids)]


def _arrays(matrix: Any, rows: Ids | None = None) -> Arrays:
    chosen = matrix if rows is None or len(rows) == matrix.shape[0] else matrix[rows]
    if not sp.issparse(chosen):
        return {"matrix": np.ascontiguousarray(chosen)}
    return {"start": chosen.indptr, "feature": chosen.indices, "value": chosen.data, "width": np.array(chosen.shape[1])}


def _things(things: Vectors) -> Arrays:
    return _arrays(things.matrix) | {"row": things.row, "owner": things.owner, "n": np.array(things.n)}


def _matrix(arrays: Arrays) -> Any:
    if "matrix" in arrays:
        return arrays["matrix"]
    start = arrays["start"]
    return sp.csr_array((arrays["value"], arrays["feature"], start), (len(start) - 1, int(arrays["width"])))
