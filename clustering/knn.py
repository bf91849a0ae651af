"""Exact nearest neighbours, dense or sparse: the same on every machine, whatever the batches and threads.

A thing with several vectors is as near as its nearest vector. Ties are broken by the smaller id. Approximate search
is there for those who ask for it by name; `measured_recall` says what it misses.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypedDict

import numpy as np
import scipy.sparse as sp

from .approximate_search import approximate_search
from .arrays import Floats, Ids, Weights, pairs_of
from .dense_search import Scanner, dense_search, faiss_scanner
from .dissimilarity import dense_products, dissimilarities, offset_of, sparse_products
from .progress import Progress, silent
from .search import Rows, Search, SearchMethod, check_choices, empty_lists
from .sparse_search import csr, sparse_search
from .vectors import Matrix, Metric, Vectors, lengths, unit


class SearchOptions(TypedDict, total=False):
    """The options of `nearest`, to be passed on."""

    metric: Metric
    search: SearchMethod
    scanner: Scanner
    self_ids: Ids | None
    progress: Progress


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
    search: SearchMethod = "exact",
    scanner: Scanner = faiss_scanner,
    self_ids: Ids | None = None,
    progress: Progress = silent,
) -> Neighbors:
    """Find the ``k`` nearest things of the corpus for each query.

    Queries that share a vector are answered once. Dense vectors give what the same vectors in sparse form give. Memory
    beyond the result: a copy of the corpus for cosine, and a few scores.

    Approximate search may miss neighbours: report `measured_recall` with what it finds. Its lists are as long as the
    exact ones, with the same dissimilarities, and depend neither on threads nor on the batch, but on the machine and
    the version of faiss. Below 10,000 distinct vectors, or where k is not small beside their number, no index pays, and
    the search is exact. Memory: one more copy of the corpus and, for ``"hnsw"``, some 270 bytes a vector.

    Args:
        queries: things with one vector each.
        corpus: things with one or several vectors each; a thing without any is nobody's neighbour.
        k: how many; more than there are is allowed.
        metric: ``"cosine"`` (dissimilarity ``1 - cosine``, and 1 where a vector is zero) or ``"dot"`` (minus the inner
            product).
        search: ``"exact"``; ``"hnsw"``, a graph of near vectors (Malkov and Yashunin 2018), slow to build and quick to
            search; or ``"ivf"``, lists around centroids, the other way round.
        scanner: what makes the matrix products of an exact search of dense vectors; it changes no result.
        self_ids: (queries,) the id of each query in the corpus, -1 for one that is not in it: a thing is not its own
            neighbour. Left out where queries and corpus are different things.
        progress: see `Progress`; the items are chunks of queries.

    Raises:
        ValueError: vectors of different dimensions or kinds, queries with no or several vectors, inner products beyond
            float32, or an approximate search of sparse vectors.

    >>> points = Vectors.of([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> nearest(points, points, 1, self_ids=np.arange(3)).ids.ravel().tolist()
    [1, 0, 1]

    """
    _check(queries, corpus, metric, search)
    check_wanted(k, self_ids, queries.n)

    def fill(rows: Ids, ids: Ids, dissimilarity: Floats) -> None:
        if len(corpus.row) == 0:
            return
        found = _prepared(corpus, metric, search, ids.shape[1], scanner)

        def fill_chunk(begin: int) -> None:
            chunk = slice(begin, begin + found.chunk)
            vectors = queries.matrix[rows[chunk]]
            found.fill(unit(vectors) if metric == "cosine" else vectors, ids[chunk], dissimilarity[chunk])

        in_threads(fill_chunk, range(0, len(rows), found.chunk), found.workers, progress)

    return lists_of(queries.row, k, corpus.n, self_ids, fill)


def measured_recall(
    found: Neighbors,
    queries: Vectors,
    corpus: Vectors,
    *,
    metric: Metric = "cosine",
    self_ids: Ids | None = None,
    sample: int = 1000,
    seed: int = 0,
) -> float:
    """Return the share of the exact neighbours that a search found in a sample of queries; 1 if there are none.

    recall@k, k being the length of the lists. What is as near as the farthest exact neighbour counts as found: of
    equally near things any will do. Costs an exact search for the sample.

    The arguments are those of `nearest`, and what it found; ``sample`` queries are drawn without replacement, all if
    there are no more.
    """
    if len(found.ids) != queries.n:
        raise ValueError(f"lists of {len(found.ids)} queries, but {queries.n} queries")

    def exact(drawn: Ids, own: Ids | None) -> Neighbors:
        return nearest(queries.taken(drawn), corpus, found.ids.shape[1], metric=metric, self_ids=own)

    return sampled_recall(found, self_ids, sample, seed, exact)


def sampled_recall(
    found: Neighbors,
    self_ids: Ids | None,
    sample: int,
    seed: int,
    exact: Callable[[Ids, Ids | None], Neighbors],
) -> float:
    """Measure the recall of a search; ``exact(drawn, own)`` searches some queries, with their own ids, exactly."""
    n = len(found.ids)
    drawn = np.sort(np.random.default_rng(seed).choice(n, min(sample, n), replace=False))
    own = None if self_ids is None else np.asarray(self_ids)[drawn]
    return share_found(found.dissimilarity[drawn], exact(drawn, own).dissimilarity)


def share_found(found: Floats, exact: Floats) -> float:
    """Return the share of the exact neighbours that are found, both given by dissimilarity; see `measured_recall`."""
    there = np.isfinite(exact)
    farthest = np.max(exact, axis=1, where=there, initial=-np.inf, keepdims=True)
    n_there = int(there.sum())
    return int((found <= farthest).sum()) / n_there if n_there else 1.0


def pair_dissimilarity(
    queries: Vectors, corpus: Vectors, query: Ids, thing: Ids, *, metric: Metric = "cosine"
) -> Floats:
    """Return the dissimilarity of query ``query[i]`` and thing ``thing[i]`` of the corpus; (pairs,).

    Equal to what `nearest` finds; infinite for a thing without vectors.
    """
    _check(queries, corpus, metric)
    query, thing = checked_pairs(query, thing, queries.n, corpus.n)
    vector, pair = pairs_of(corpus.owner, thing)
    used_a, row_a = np.unique(queries.row[query[pair]], return_inverse=True)
    used_b, row_b = np.unique(corpus.row[vector], return_inverse=True)
    a: Any = queries.matrix[used_a]
    b: Any = corpus.matrix[used_b]
    if metric == "cosine":
        a, b = unit(a), unit(b)
    if sp.issparse(a):
        product = sparse_products(*csr(a), *csr(b), row_a, row_b)
    else:
        product = dense_products(a, b, row_a, row_b)
    best = np.full(len(query), np.inf, np.float32)
    np.minimum.at(best, pair, dissimilarities(product, offset_of(metric)))
    return best


def checked_pairs(query: Ids, thing: Ids, n_queries: int, n_things: int) -> tuple[Ids, Ids]:
    """Return two lists of ids, or raise ValueError."""
    query, thing = (np.asarray(index, None if np.size(index) else np.int64) for index in (query, thing))
    if query.shape != thing.shape or query.ndim != 1:
        raise ValueError(f"query {query.shape} and thing {thing.shape} must be lists of one length")
    for name, index, n in (("query", query, n_queries), ("thing", thing, n_things)):
        if len(index) and index.dtype.kind not in "iu":
            raise ValueError(f"{name} must be integers, not {index.dtype}")
        if len(index) and not 0 <= index.min() <= index.max() < n:
            raise ValueError(f"{name} must lie in 0 .. {n - 1}, found {index.min()} .. {index.max()}")
    return query, thing


def lists_of(
    row: Ids, k: int, n_things: int, self_ids: Ids | None, fill: Callable[[Ids, Ids, Floats], None]
) -> Neighbors:
    """Give each query the list of its row; queries that share a row are answered once.

    ``fill(rows, ids, dissimilarity)`` fills the lists of distinct rows, which are empty, and not as long as ``k`` where
    there are fewer things. With ``self_ids`` they have one place more, for the query itself, which is taken out.
    """
    rows, place = np.unique(row, return_inverse=True)
    ids, dissimilarity = empty_lists(len(rows), min(k, n_things) + (self_ids is not None))
    if k > 0 and len(rows) > 0:
        fill(rows, ids, dissimilarity)
    ids, dissimilarity = ids[place], dissimilarity[place]
    if self_ids is not None:
        ids, dissimilarity = _without_self(ids, dissimilarity, np.asarray(self_ids))
    if ids.shape[1] < k:
        missing = ((0, 0), (0, k - ids.shape[1]))
        ids = np.pad(ids, missing, constant_values=-1)
        dissimilarity = np.pad(dissimilarity, missing, constant_values=np.inf)
    return Neighbors(ids, dissimilarity)


def _without_self(ids: Ids, dissimilarity: Floats, self_ids: Ids) -> tuple[Ids, Floats]:
    """Drop each query's own id wherever it stands in its list, else the last place."""
    own = (ids == self_ids[:, None]) & (ids >= 0)
    own[~own.any(axis=1), -1] = True
    shape = len(ids), ids.shape[1] - 1
    return ids[~own].reshape(shape), dissimilarity[~own].reshape(shape)


def in_threads(fill: Callable[[int], None], begins: range, workers: int, progress: Progress = silent) -> None:
    """Call ``fill`` with each number in threads; when interrupted, end now and not when all is filled."""
    with ThreadPoolExecutor(workers) as pool:
        try:
            for _ in progress(pool.map(fill, begins), len(begins)):
                pass
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _prepared(corpus: Vectors, metric: Metric, search: SearchMethod, k: int, scanner: Scanner) -> Search:
    """Prepare the search of a corpus for lists of ``k`` places."""
    rows, offset = Rows.of(corpus, metric), offset_of(metric)
    if sp.issparse(corpus.matrix):
        return sparse_search(rows, offset)
    return dense_search(rows, offset, k, scanner) if search == "exact" else approximate_search(rows, offset, k, search)


def check_wanted(k: int, self_ids: Ids | None, n_queries: int) -> None:
    """Raise ValueError for a negative ``k``, or ids of another number of queries."""
    if k < 0:
        raise ValueError(f"k={k} must not be negative")
    if self_ids is not None and np.shape(self_ids) != (n_queries,):
        raise ValueError(f"{n_queries} queries, but self_ids of shape {np.shape(self_ids)}")


def check_queries(matrix: Matrix, corpus: Matrix, owner: Ids, n_queries: int, each: str) -> None:
    """Raise ValueError where dimensions differ, or a query does not have exactly one vector or text (``each``)."""
    if matrix.shape[1] != corpus.shape[1]:
        raise ValueError(
            f"queries have {matrix.shape[1]} dimensions, the corpus has {corpus.shape[1]}: "
            "were they made by the same encoder?"
        )
    if not np.array_equal(owner, np.arange(n_queries)):
        raise ValueError(f"each of the {n_queries} queries must have exactly one {each}")


def _check(queries: Vectors, corpus: Vectors, metric: Metric, search: SearchMethod = "exact") -> None:
    check_choices(metric, search)
    if sp.issparse(queries.matrix) != sp.issparse(corpus.matrix):
        raise ValueError("queries and corpus must both be dense or both be sparse")
    if search != "exact" and sp.issparse(corpus.matrix):
        raise ValueError(f"search={search!r} needs dense vectors; of sparse vectors there is exact search alone")
    check_queries(queries.matrix, corpus.matrix, queries.owner, queries.n, "vector")
    if metric == "dot":
        largest = lengths(queries.matrix).max(initial=0) * lengths(corpus.matrix).max(initial=0)
        if largest > np.finfo(np.float32).max / 2:
            raise ValueError(f"inner products may reach {largest:.2g}, beyond float32: scale the vectors down")
