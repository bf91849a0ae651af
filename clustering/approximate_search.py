"""Approximate nearest neighbours of dense vectors: an index proposes rows, the fixed order of summation ranks them.

What is found thus has the numbers that the exact search gives it. A list that comes out too short is filled by
looking at more rows, in the end at all. Threads cannot show: what would depend on them when an index is built is
done by one, and a search of faiss treats each query by itself.

The parameters are fixed, for a recall@8 of 0.97 or more on clustered vectors (`benchmarks/search.py`) and on names;
what they give elsewhere is to be measured.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeAlias

import numpy as np

from .arrays import Floats, Ids
from .dense_search import dense_search
from .dissimilarity import dissimilarity
from .kernels import kernel
from .search import Rows, Search, empty_lists, score_found
from .shortlist import offer
from .vectors import Vectors, dot, unit

Find: TypeAlias = Callable[[Floats, int], Ids]
"""``find(vectors, n)``: up to ``n`` different rows for each vector, then -1."""

_LEAST = 10_000
"""Distinct vectors below which comparing all is as quick as building an index."""
_SHARE = 64
"""An index is for lists at most this part of the corpus."""
_SPARE = 8
_CHUNK = 4096
_SEED = 0

_LINKS = 32
"""HNSW: neighbours of a vector in the graph. With 16, recall falls where vectors come in many small clusters."""
_BUILD_WIDTH = 100
"""HNSW: candidates while building. With fewer, links between small clusters are missing, and no search mends that."""
_SEARCH_WIDTH = 64
"""HNSW: candidates while searching, and never fewer than are asked for."""

_LISTS = 4
"""IVF: as many lists as this times the root of the number of vectors. With half as many, queries cost twice as much."""
_PROBES = 64
"""IVF: lists looked through for a query: a twentieth of 100,000 vectors, a sixtieth of a million."""
_TRAINING = 40
"""IVF: vectors drawn for each list to train the centroids, about the least that faiss advises."""


def approximate_search(corpus: Rows, offset: float, k: int, method: Literal["hnsw", "ivf"]) -> Search:
    """Build the index for the ``k`` nearest things, k > 0; the exact search where none pays.

    Inner products, each of two vectors: ``"hnsw"`` about O(log n) a vector to build and a query to search, ``"ivf"``
    O(sqrt(n)), of which building does its share as matrix products.
    """
    matrix: Floats = corpus.matrix
    exact = dense_search(corpus, offset, k)
    n_first = (2 if corpus.several else 1) * k + _SPARE
    if len(matrix) < max(_LEAST, _SHARE * n_first):
        return exact
    find = _hnsw(matrix) if method == "hnsw" else _ivf(matrix)
    n_wanted = min(k, len(np.unique(corpus.owner)))
    owned = np.searchsorted(corpus.owner, np.arange(corpus.owner[-1] + 2))

    def fill(vectors: Floats, ids: Ids, dissimilarity: Floats) -> None:
        left = np.arange(len(vectors))
        for n_found in (n_first, 4 * n_first, 16 * n_first):
            lists = empty_lists(len(left), k)
            some, count = vectors[left], np.zeros(len(left), np.int64)
            found = find(some, n_found)
            score_found(some, matrix, found, corpus.start, corpus.by_row, corpus.several, offset, *lists, count)
            if corpus.several:
                _score_things(some, matrix, corpus.row, owned, offset, *lists)
            ids[left], dissimilarity[left] = lists
            left = left[count < n_wanted]
            if len(left) == 0:
                return
        lists = empty_lists(len(left), k)
        exact.fill(vectors[left], *lists)
        ids[left], dissimilarity[left] = lists

    # As in the exact search: faiss has threads of its own, and chunks are smaller where k is very large.
    return Search(fill, chunk=min(_CHUNK, max(1, 64 * _CHUNK // n_first)), workers=1)


@kernel
def _score_things(
    vectors: Floats, matrix: Floats, row: Ids, owned: Ids, offset: float, ids: Ids, dissimilarity_: Floats
) -> None:
    """Score each listed thing by all its vectors, as the nearest may not have been found, and sort the lists again.

    The vectors of thing ``t`` are the rows ``row[owned[t] : owned[t + 1]]``.
    """
    for q in range(len(vectors)):
        things, taken = ids[q].copy(), 0
        ids[q], dissimilarity_[q] = -1, np.inf
        for thing in things[things >= 0]:
            for r in row[owned[thing] : owned[thing + 1]]:
                value = dissimilarity(dot(vectors[q], matrix[r]), offset)
                taken = offer(ids[q], dissimilarity_[q], taken, thing, value, True)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let faiss use one thread inside the block."""
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def _hnsw(matrix: Floats) -> Find:
    """Build the graph of Malkov and Yashunin (2018); faiss draws the levels with a fixed seed.

    Since 1.15.1 faiss builds one graph whatever the threads (the way of ParlayANN, Manohar et al. 2024); before, their
    race decided.
    """
    import faiss

    index: Any = faiss.IndexHNSWFlat(matrix.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BUILD_WIDTH
    with nullcontext() if hasattr(faiss, "hnsw_add_vertices_deterministic") else _one_thread():
        index.add(matrix)

    def find(vectors: Floats, n: int) -> Ids:
        index.hnsw.efSearch = max(_SEARCH_WIDTH, n)
        found: Ids = index.search(vectors, n)[1]
        return found

    return find


def _ivf(matrix: Floats) -> Find:
    """List the rows by the nearest of the centroids that spherical k-means finds in a sample.

    One thread adds up the centroids, as sums depend on how the work is shared. The lists of a query are found by exact
    search, so that they do not depend on its batch.
    """
    import faiss

    n_rows, dim = matrix.shape
    n_lists = round(_LISTS * n_rows**0.5)
    centroids = faiss.IndexFlatIP(dim)
    index: Any = faiss.IndexIVFFlat(centroids, dim, n_lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = _SEED
    index.cp.spherical = True
    index.cp.min_points_per_centroid = 1  # no warning on stderr where there are fewer than advised
    sample = np.random.default_rng(_SEED).choice(n_rows, min(n_rows, _TRAINING * n_lists), replace=False)
    with _one_thread():
        index.train(unit(matrix[sample]))
        index.add(matrix)
    index.nprobe = _PROBES
    every = np.arange(n_lists)
    lists = Rows.of(Vectors(centroids.reconstruct_n(0, n_lists), every, every, n_lists), "dot")
    nearest_lists = dense_search(lists, 0.0, _PROBES)

    def find(vectors: Floats, n: int) -> Ids:
        probes, dissimilarity = empty_lists(len(vectors), _PROBES)
        nearest_lists.fill(vectors, probes, dissimilarity)
        found: Ids = index.search_preassigned(vectors, n, probes.astype(np.int64), -dissimilarity)[1]
        return found

    return find
