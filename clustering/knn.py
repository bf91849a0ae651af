"""Exact nearest neighbours, dense (faiss) or sparse, the same on every machine, batch size and number of threads.

A thing with several vectors is as near as its nearest vector. Ties are broken by the smaller id. Scores of a matrix
product change with the shape of the batch; so candidates are fetched with some to spare, scored again in one fixed
order of summation, and fetched again, twice as many, until no vector left out can be nearer than the last one kept.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from clustering.arrays import Ids, Weights
from clustering.vectors import Metric, Vectors

Floats = npt.NDArray[np.float32]
T = TypeVar("T")


class Progress(Protocol):
    """Passes items on and shows how many of ``total`` are done."""

    def __call__(self, items: Iterable[T], total: int) -> Iterable[T]:
        """Wrap ``items``."""


def silent(items: Iterable[T], total: int) -> Iterable[T]:
    """Show nothing."""
    return items


_SPARE = 8


class Neighbors(NamedTuple):
    """The nearest things of each query, nearest first."""

    ids: Ids
    """(queries, k); -1 where there are fewer than k."""
    dissimilarity: Weights
    """(queries, k) float32; infinite where there are fewer than k."""

    def first(self, k: int) -> "Neighbors":
        """Return the ``k`` nearest alone."""
        return Neighbors(self.ids[:, :k], self.dissimilarity[:, :k])


def nearest(
    queries: Vectors,
    corpus: Vectors,
    k: int,
    *,
    metric: Metric = "cosine",
    self_ids: Ids | None = None,
    progress: Progress = silent,
) -> Neighbors:
    """Find the ``k`` nearest things of the corpus for each query.

    Args:
        queries: things with one vector each.
        corpus: things with one or several vectors each.
        k: how many; more than there are is allowed.
        metric: ``"cosine"`` (dissimilarity ``1 - cosine``) or ``"dot"`` (minus the inner product).
        self_ids: (queries,) the id of each query in the corpus: it is not its own neighbour. Left out where the
            queries are other things than the corpus.
        progress: see `Progress`; the items are chunks of queries.

    Raises:
        ValueError: vectors of different dimensions or kinds, or queries with no or several vectors.

    >>> points = Vectors.of([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> nearest(points, points, 1, self_ids=np.arange(3)).ids.ravel().tolist()
    [1, 0, 1]
    """
    _check(queries, corpus, k, metric)
    if metric == "cosine":
        same = corpus is queries
        queries = queries.normalized()
        corpus = queries if same else corpus.normalized()
    fetched = min(k + (self_ids is not None), corpus.n)
    distinct, row_of_query = np.unique(queries.row, return_inverse=True)
    ids = np.full((len(distinct), fetched), -1, np.int32)
    dissimilarity = np.full((len(distinct), fetched), np.inf, np.float32)
    if ids.size > 0 and len(corpus.row) > 0:
        offset = _offset(metric)
        search = _sparse_search(corpus) if sp.issparse(corpus.matrix) else _dense_search(corpus)

        def fill(begin: int) -> None:
            chunk = slice(begin, begin + search.chunk)
            search.run(queries.matrix[distinct[chunk]], offset, ids[chunk], dissimilarity[chunk])

        begins = range(0, len(distinct), search.chunk)
        with ThreadPoolExecutor(search.workers) as pool:
            for _ in progress(pool.map(fill, begins), len(begins)):
                pass
    ids, dissimilarity = ids[row_of_query], dissimilarity[row_of_query]
    if self_ids is not None:
        ids, dissimilarity = _without(ids, dissimilarity, np.asarray(self_ids), min(k, fetched))
    return _padded(ids, dissimilarity, k)


def pair_dissimilarity(
    queries: Vectors, corpus: Vectors, query: Ids, thing: Ids, *, metric: Metric = "cosine"
) -> Floats:
    """Dissimilarity of query ``query[i]`` and thing ``thing[i]`` of the corpus, by its nearest vector; (pairs,)."""
    _check(queries, corpus, 1, metric)
    if metric == "cosine":
        queries, corpus = queries.normalized(), corpus.normalized()
    first = np.searchsorted(corpus.owner, thing)
    count = np.searchsorted(corpus.owner, thing, side="right") - first
    pair = np.repeat(np.arange(len(query)), count)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
    rows = queries.row[np.asarray(query)[pair]], corpus.row[place]
    if sp.issparse(corpus.matrix):
        product = _sparse_products(*_csr(queries.matrix), *_csr(corpus.matrix), *rows)
    else:
        product = _dense_products(queries.matrix, corpus.matrix, *rows)
    best = np.full(len(query), np.inf)
    np.minimum.at(best, pair, _dissimilarities(product, _offset(metric)))
    return best.astype(np.float32)


class _Search(NamedTuple):
    """Fills the lists of a chunk of query vectors: ``run(rows, offset, ids, dissimilarity)``."""

    run: Callable[[Any, float, Ids, Floats], None]
    chunk: int
    workers: int


def _dense_search(corpus: Vectors) -> _Search:
    import faiss

    matrix = corpus.matrix
    by_row = np.argsort(corpus.row, kind="stable")
    start = np.searchsorted(corpus.row[by_row], np.arange(len(matrix) + 1)).astype(np.int64)
    owner = corpus.owner[by_row]
    longest = float(np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64).max(initial=0)))

    def search(rows: Floats, offset: float, ids: Ids, dissimilarity: Floats) -> None:
        # The error of a float32 product, whatever its order of summation (Higham 2002, section 3.1), on both sides.
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
        error = 4 * np.finfo(np.float32).eps * (matrix.shape[1] + 2) * lengths * longest
        open_rows = np.arange(len(rows))
        fetch = ids.shape[1] + _SPARE
        while len(open_rows) > 0:
            fetch = min(fetch, len(matrix))
            scores, found = faiss.knn(rows[open_rows], matrix, fetch, metric=faiss.METRIC_INNER_PRODUCT)
            left_out = offset - scores[:, -1] - error[open_rows] if fetch < len(matrix) else np.full(len(found), np.inf)
            settled = _rescore(
                rows[open_rows], matrix, found, start, owner, offset, left_out, open_rows, ids, dissimilarity
            )
            open_rows = open_rows[~settled]
            fetch *= 2

    return _Search(search, chunk=4096, workers=1)  # faiss brings its own threads


def _sparse_search(corpus: Vectors) -> _Search:
    postings = _csr(sp.csr_array(corpus.matrix.T))
    n_rows = corpus.matrix.shape[0]

    def search(rows: sp.csr_array, offset: float, ids: Ids, dissimilarity: Floats) -> None:
        _sparse_nearest(*_csr(rows), *postings, n_rows, corpus.row, corpus.owner, corpus.n, offset, ids, dissimilarity)

    return _Search(search, chunk=128, workers=os.cpu_count() or 1)


def _csr(matrix: Any) -> tuple[Ids, Ids, Floats]:
    matrix.sort_indices()
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data


def _offset(metric: Metric) -> float:
    """Dissimilarity is the offset minus the product."""
    return 1.0 if metric == "cosine" else 0.0


@numba.njit(cache=True, nogil=True)
def _dissimilarity(product: float, offset: float) -> float:
    """Offset minus product; a cosine that differs from 1 by no more than the rounding of unit vectors is 1."""
    w = offset - product
    return 0.0 if offset == 1.0 and abs(w) < 1e-6 else w


@numba.njit(cache=True, nogil=True)
def _dissimilarities(product: Weights, offset: float) -> Weights:
    values = np.empty(len(product), np.float64)
    for p in range(len(product)):
        values[p] = _dissimilarity(product[p], offset)
    return values


@numba.njit(cache=True, nogil=True)
def _insert(ids: Ids, dissimilarity: Floats, thing: int, w: float) -> None:
    """Put a thing into a list sorted by (dissimilarity, id), once, if there is room or it is nearer than the last."""
    last = len(ids) - 1
    value = np.float32(w)
    if dissimilarity[last] < value or (dissimilarity[last] == value and 0 <= ids[last] <= thing):
        return
    place = last
    for i in range(len(ids)):
        if ids[i] == thing:
            if dissimilarity[i] <= value:
                return
            place = i
            break
    while place > 0 and (
        ids[place - 1] < 0
        or dissimilarity[place - 1] > value
        or (dissimilarity[place - 1] == value and ids[place - 1] > thing)
    ):
        ids[place], dissimilarity[place] = ids[place - 1], dissimilarity[place - 1]
        place -= 1
    ids[place], dissimilarity[place] = thing, value


@numba.njit(cache=True, nogil=True)
def _dot(a: Floats, b: Floats) -> float:
    total = 0.0
    for j in range(len(a)):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@numba.njit(cache=True, nogil=True)
def _rescore(
    rows: Floats,
    matrix: Floats,
    found: Ids,
    start: Ids,
    owner: Ids,
    offset: float,
    left_out: Weights,
    place: Ids,
    ids: Ids,
    dissimilarity: Floats,
) -> npt.NDArray[np.bool_]:
    """Fill the lists at ``place`` from the rows found; say which lists no row that was left out can change."""
    settled = np.zeros(len(rows), np.bool_)
    for q in range(len(rows)):
        list_ids, list_dissimilarity = ids[place[q]], dissimilarity[place[q]]
        list_ids[:] = -1
        list_dissimilarity[:] = np.inf
        for row in found[q]:
            w = _dissimilarity(_dot(rows[q], matrix[row]), offset)
            for i in range(start[row], start[row + 1]):
                _insert(list_ids, list_dissimilarity, owner[i], w)
        settled[q] = left_out[q] == np.inf or list_dissimilarity[-1] < left_out[q]
    return settled


@numba.njit(cache=True, nogil=True)
def _sparse_nearest(
    indptr: Ids,
    indices: Ids,
    data: Floats,
    post_start: Ids,
    post_row: Ids,
    post_value: Floats,
    n_rows: int,
    row: Ids,
    owner: Ids,
    n: int,
    offset: float,
    ids: Ids,
    dissimilarity: Floats,
) -> None:
    """Score every row through the postings of the query's features, in the order of the features."""
    score = np.empty(n_rows, np.float64)
    for q in range(len(indptr) - 1):
        score[:] = 0
        for f in range(indptr[q], indptr[q + 1]):
            for i in range(post_start[indices[f]], post_start[indices[f] + 1]):
                score[post_row[i]] += np.float64(data[f]) * np.float64(post_value[i])
        best = -np.inf
        for i in range(len(owner)):
            best = max(best, score[row[i]])
            if i + 1 == len(owner) or owner[i + 1] != owner[i]:
                _insert(ids[q], dissimilarity[q], owner[i], _dissimilarity(best, offset))
                best = -np.inf


@numba.njit(cache=True, nogil=True)
def _sparse_products(
    indptr_a: Ids,
    indices_a: Ids,
    data_a: Floats,
    indptr_b: Ids,
    indices_b: Ids,
    data_b: Floats,
    rows_a: Ids,
    rows_b: Ids,
) -> Weights:
    product = np.zeros(len(rows_a), np.float64)
    for p in range(len(rows_a)):
        i, j = indptr_a[rows_a[p]], indptr_b[rows_b[p]]
        while i < indptr_a[rows_a[p] + 1] and j < indptr_b[rows_b[p] + 1]:
            if indices_a[i] == indices_b[j]:
                product[p] += np.float64(data_a[i]) * np.float64(data_b[j])
            step = indices_a[i] - indices_b[j]
            i += step <= 0
            j += step >= 0
    return product


@numba.njit(cache=True, nogil=True)
def _dense_products(a: Floats, b: Floats, rows_a: Ids, rows_b: Ids) -> Weights:
    product = np.empty(len(rows_a), np.float64)
    for p in range(len(rows_a)):
        product[p] = _dot(a[rows_a[p]], b[rows_b[p]])
    return product


def _without(ids: Ids, dissimilarity: Floats, self_ids: Ids, k: int) -> tuple[Ids, Floats]:
    """Drop each query's own id wherever it stands in its list, else the last place."""
    own = ids == self_ids[:, None]
    own[~own.any(axis=1), -1] = True
    kept = ~own
    shape = len(ids), ids.shape[1] - 1
    return ids[kept].reshape(shape)[:, :k], dissimilarity[kept].reshape(shape)[:, :k]


def _padded(ids: Ids, dissimilarity: Floats, k: int) -> Neighbors:
    missing = k - ids.shape[1]
    if missing > 0:
        ids = np.pad(ids, ((0, 0), (0, missing)), constant_values=-1)
        dissimilarity = np.pad(dissimilarity, ((0, 0), (0, missing)), constant_values=np.inf)
    return Neighbors(ids, dissimilarity)


def _check(queries: Vectors, corpus: Vectors, k: int, metric: str) -> None:
    if k < 0:
        raise ValueError(f"k={k} must not be negative")
    if metric not in ("cosine", "dot"):
        raise ValueError(f"metric={metric!r} is neither 'cosine' nor 'dot'")
    if sp.issparse(queries.matrix) != sp.issparse(corpus.matrix):
        raise ValueError("queries and corpus must both be dense or both be sparse")
    if queries.matrix.shape[1] != corpus.matrix.shape[1]:
        raise ValueError(
            f"queries have {queries.matrix.shape[1]} dimensions, the corpus has {corpus.matrix.shape[1]}: "
            "were they made by the same encoder?"
        )
    if not np.array_equal(queries.owner, np.arange(queries.n)):
        raise ValueError(f"each of the {queries.n} queries must have exactly one vector")
