"""Exact nearest neighbours of dense or sparse vectors, identical on every machine, for any batches and threads.

A thing (a mention or an entity) with several vectors is as near as its nearest vector. Ties go to the smaller id.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .arrays import Floats, Ids, Weights, pairs_of
from .dense_search import Scanner, faiss_scanner
from .index import Index
from .progress import Progress, in_parallel, silent
from .search import Lists
from .sparse_search import alike_together
from .vectors import METRICS, Metric, Vectors, csr, dense_products, dissimilarities, offset_of, sparse_products, unit

Limit: TypeAlias = float | npt.ArrayLike | None
"""The largest dissimilarity to list: one for all queries, or one for each; None for no limit."""

Searchable: TypeAlias = Vectors | Index  # vectors to search, or an index of them

_ROWS = 1 << 16  # queries whose lists are cut at once


class Neighbors(NamedTuple):
    """The nearest things of each query, nearest first."""

    ids: Ids  # (queries, k), padded with -1
    dissimilarity: Weights  # (queries, k) float32, padded with infinity

    @staticmethod
    def empty(n: int, k: int) -> "Neighbors":
        """Return lists of ``k`` empty places for ``n`` queries."""
        return Neighbors(np.full((n, k), -1, np.int32), np.full((n, k), np.inf, np.float32))

    def first(self, k: int) -> "Neighbors":
        """Return only the ``k`` nearest."""
        return Neighbors(self.ids[:, :k], self.dissimilarity[:, :k])

    def of_width(self, k: int) -> "Neighbors":
        """Return lists of ``k`` places: the nearest, and empty places if there are fewer."""
        ids, dissimilarity = self.first(k)
        if ids.shape[1] == k:
            return Neighbors(ids, dissimilarity)
        more = ((0, 0), (0, k - ids.shape[1]))
        return Neighbors(np.pad(ids, more, constant_values=-1), np.pad(dissimilarity, more, constant_values=np.inf))

    def of(self, queries: Ids) -> "Neighbors":
        """Return the lists of these queries."""
        return Neighbors(self.ids[queries], self.dissimilarity[queries])


def nearest(
    queries: Vectors,
    corpus: Searchable,
    k: int,
    *,
    metric: Metric = "cosine",
    scanner: Scanner = faiss_scanner,
    self_ids: Ids | None = None,
    within: Limit = None,
    progress: Progress = silent,
) -> Neighbors:
    """Return the ``k`` nearest things of the corpus for each query.

    If there are fewer than ``k`` neighbours, the rest of a list is -1, at infinite dissimilarity. Queries that share a
    row of the matrix, as equal dense vectors do, are searched once. Besides the result, a few scores and copies of the
    corpus (one for cosine, one if sparse) are in memory.

    Raise ValueError if vectors differ in dimension or kind, a query does not have exactly one vector, the metric is
    unknown, or an index has another metric.

    Args:
        queries: things with one vector each.
        corpus: things with one or several vectors each; a thing without a vector is never a neighbour. Give their
            `Index` to search them more than once.
        k: number of neighbours; may exceed the size of the corpus.
        metric: ``"cosine"`` (dissimilarity ``1 - cosine``, and 1 for a zero vector) or ``"dot"`` (minus the inner
            product).
        scanner: computes the matrix products of a search of dense vectors; it does not affect the result.
        self_ids: (queries,) the id of each query in the corpus, which is left out of the query's list, or -1 for a
            query that is not in the corpus; None if no query is in the corpus.
        within: the largest dissimilarity to list: a number, or one for each query. The result is that of a search
            without a limit, less the neighbours beyond it, and may be found sooner.
        progress: see `Progress`; the items are chunks of queries.

    >>> points = Vectors.of([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> nearest(points, points, 1, self_ids=np.arange(3)).ids.ravel().tolist()
    [1, 0, 1]
    """
    index = corpus if isinstance(corpus, Index) else Index.of(corpus, metric)
    _check(queries, index, metric)

    def fill(rows: Ids, lists: Lists) -> None:
        if len(index.owners.owner) == 0:
            return
        method = index.search(lists.ids.shape[1], scanner, within=float(lists.limit.max()), n_queries=len(rows))
        order = np.arange(len(rows))
        if index.is_sparse and len(rows) > method.chunk:
            order = alike_together(csr(queries.matrix[rows]))

        def fill_chunk(begin: int) -> None:
            chunk = order[begin : begin + method.chunk]
            part, vectors = Lists(*Neighbors(*lists[:2]).of(chunk), lists.limit[chunk]), queries.matrix[rows[chunk]]
            method.fill(unit(vectors, metric), part)
            lists.ids[chunk], lists.dissimilarity[chunk] = part[:2]

        in_parallel(fill_chunk, range(0, len(rows), method.chunk), workers=method.workers, progress=progress)

    return lists_of(queries.row, k, index.n, self_ids, within, fill)


def merged(parts: Sequence[Neighbors], k: int) -> Neighbors:
    """Return the ``k`` nearest of all lists of each query; no thing may be in two parts, which come in any order.

    >>> parts = [Neighbors(np.array([[i]]), np.array([[0.5]], np.float32)) for i in (7, 2)]
    >>> merged(parts, 1).ids.tolist()
    [[2]]
    """
    ids, dissimilarity = (np.concatenate(lists, axis=1) for lists in zip(*parts, strict=True))
    order = np.lexsort((ids, dissimilarity))[:, :k]
    return Neighbors(np.take_along_axis(ids, order, axis=1), np.take_along_axis(dissimilarity, order, axis=1))


def pair_dissimilarity(
    queries: Vectors, corpus: Searchable, query: Ids, thing: Ids, *, metric: Metric = "cosine"
) -> Floats:
    """Return the dissimilarity of each pair of query ``query[i]`` and thing ``thing[i]`` of the corpus; (pairs,).

    It is the same as in `nearest`, and infinity for a thing without vectors. Raise ValueError as `nearest` does.
    """
    if isinstance(corpus, Vectors):
        used, thing = np.unique(thing, return_inverse=True)
        corpus = Index.of(corpus.taken(used), metric)
    _check(queries, corpus, metric)
    place, pair = pairs_of(corpus.owners.owner, thing)
    used_a, row_a = np.unique(queries.row[query[pair]], return_inverse=True)
    row_b, b = corpus.owners.row[place], cast(Any, corpus.matrix)
    a: Any = unit(queries.matrix[used_a], metric)
    product = sparse_products(csr(a), b, row_a, row_b) if corpus.is_sparse else dense_products(a, b, row_a, row_b)
    best = np.full(len(query), np.inf, np.float32)
    np.minimum.at(best, pair, dissimilarities(product, offset_of(metric)))
    return best


def lists_of(
    row: Ids, k: int, n_things: int, self_ids: Ids | None, within: Limit, fill: Callable[[Ids, Lists], None]
) -> Neighbors:
    """Return the nearest things of each query, as ``fill`` finds them; queries with the same row are searched once.

    ``fill(rows, lists)`` fills the empty lists of distinct rows, which are shorter than ``k`` if there are fewer
    things. With ``self_ids``, they have a further place for the query itself, which is removed; so is all that lies
    beyond the limit ``within``.
    """
    rows, place = np.unique(row, return_inverse=True)
    with np.errstate(over="ignore"):
        limit = np.full(len(row), np.inf if within is None else within, np.float32)
    most = np.full(len(rows), -np.inf, np.float32)
    np.maximum.at(most, place, limit)
    lists = Lists(*Neighbors.empty(len(rows), min(k, n_things) + (self_ids is not None)), most)
    if k > 0 and len(rows) > 0:
        fill(rows, lists)
    found = Neighbors.empty(len(row), k)
    for some in (slice(begin, begin + _ROWS) for begin in range(0, len(row), _ROWS)):
        ids, dissimilarity = lists.ids[place[some]], lists.dissimilarity[place[some]]
        beyond = dissimilarity > limit[some, None]
        ids[beyond], dissimilarity[beyond] = -1, np.inf
        if self_ids is not None:
            ids, dissimilarity = _without_self(ids, dissimilarity, np.asarray(self_ids)[some])
        found.ids[some, : ids.shape[1]], found.dissimilarity[some, : ids.shape[1]] = ids, dissimilarity
    return found


def _without_self(ids: Ids, dissimilarity: Floats, self_ids: Ids) -> tuple[Ids, Floats]:
    """Remove each query's own id from its list, or the last place if it is not in the list."""
    is_self = (ids == self_ids[:, None]) & (ids >= 0)
    is_self[~is_self.any(axis=1), -1] = True
    shape = len(ids), ids.shape[1] - 1
    return ids[~is_self].reshape(shape), dissimilarity[~is_self].reshape(shape)


def _check(queries: Vectors, corpus: Index, metric: Metric) -> None:
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(METRICS)}")
    if metric != corpus.metric:
        raise ValueError(f"metric={metric!r}, but the index was made for {corpus.metric!r}; make one per metric")
    if sp.issparse(queries.matrix) != corpus.is_sparse:
        raise ValueError("queries and corpus must both be dense or both be sparse; convert one of them")
    if queries.matrix.shape[1] != corpus.dim:
        dims = f"queries have {queries.matrix.shape[1]} dimensions, but the corpus has {corpus.dim}"
        raise ValueError(f"{dims}; use the same encoder for both")
    if not np.array_equal(queries.owner, np.arange(queries.n)):
        raise ValueError(f"each of the {queries.n} queries must have exactly one vector")
