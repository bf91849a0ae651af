"""All things within a distance of each query, dense or sparse, by the exact search of `clustering.knn`."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .arrays import Floats, Ids
from .dense_search import Scanner, faiss_scanner
from .index import Index
from .knn import Limit, Neighbors, limits, nearest
from .progress import Progress, silent
from .vectors import Metric, Vectors

_FIRST = 16  # places of a list at first; four times as many after each search that fills it
_PLACES = 1 << 20  # places of the lists in memory at once


class Neighborhoods(NamedTuple):
    """The things within a distance of each query: those of query ``q`` are at ``indptr[q] : indptr[q + 1]``."""

    indptr: Ids  # (queries + 1,)
    ids: Ids  # nearest first; ties by id
    dissimilarity: Floats


def neighborhoods(
    queries: Vectors,
    corpus: Vectors | Index,
    within: Limit,
    *,
    metric: Metric = "cosine",
    scanner: Scanner = faiss_scanner,
    self_ids: Ids | None = None,
    progress: Progress = silent,
) -> Neighborhoods:
    """Return all things at most as dissimilar as ``within``, which is one limit, or one for each query.

    The other arguments and the errors are those of `clustering.knn.nearest`.

    >>> points = Vectors.of([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> neighborhoods(points, points, 0.1).ids.tolist()
    [0, 1, 1, 0, 2]
    """
    index = corpus if isinstance(corpus, Index) else Index.of(corpus, metric)
    limit = limits(within, queries.n)

    def search(some: Ids, k: int) -> Neighbors:
        own = None if self_ids is None else np.asarray(self_ids)[some]
        return nearest(
            queries.taken(some),
            index,
            k,
            metric=metric,
            scanner=scanner,
            self_ids=own,
            within=limit[some],
            progress=progress,
        )

    return _complete(search, queries.n, index.n)


def _complete(search: Callable[[Ids, int], Neighbors], n_queries: int, n_things: int) -> Neighborhoods:
    """Search the queries again for longer lists, until no list is full."""
    left, k, parts = np.arange(n_queries), min(_FIRST, n_things), []
    while len(left) > 0 and k > 0:
        full = []
        for some in np.array_split(left, -(-len(left) * k // _PLACES)):
            found = search(some, k)
            is_full = (found.ids[:, -1] >= 0) & (k < n_things)
            full.append(some[is_full])
            done, place = np.nonzero((found.ids >= 0) & ~is_full[:, None])
            parts.append((some[done], found.ids[done, place], found.dissimilarity[done, place]))
        left, k = np.concatenate(full), min(4 * k, n_things)
    if not parts:
        return Neighborhoods(np.zeros(n_queries + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    query, ids, dissimilarity = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(query, kind="stable")
    indptr = np.append(0, np.cumsum(np.bincount(query, minlength=n_queries)))
    return Neighborhoods(indptr, ids[order], dissimilarity[order])
