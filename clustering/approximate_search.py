"""Approximate nearest neighbours of dense vectors: a graph proposes rows (HNSW), and exact scores rank them.

So neighbours have the same dissimilarities as in the exact search. If a list is too short, more rows are searched, and
finally all rows. Results do not depend on the number of threads, see `hnsw`; faiss searches each query independently.

The parameters are fixed. They give a recall@8 of 0.97 or more on clustered vectors (`benchmarks/search.py`) and on
names; measure the recall on other data.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from .arrays import Floats, Ids
from .kernels import kernel
from .search import Lists, Owners, Search, empty_lists, offer, score_found
from .vectors import dissimilarity, dot

Find: TypeAlias = Callable[[Floats, int], Ids]
"""``find(vectors, n)`` returns up to ``n`` different rows for each vector, padded with -1."""

_LEAST = 10_000  # number of distinct vectors below which exact search is as fast as building an index
_SHARE = 64  # an index is used for lists up to this share of the corpus
_SPARE = 8
_CHUNK = 4096

_LINKS = 32  # neighbours of a vector in the graph. With 16, recall falls for vectors in many small clusters.
_BUILD_WIDTH = 100  # number of candidates while building. With fewer, links between small clusters are missing.
_SEARCH_WIDTH = 64  # minimum number of candidates while searching


def approximate_search(
    matrix: Floats, owners: Owners, graph: Callable[[], Find], exact: Search, offset: float, k: int
) -> Search:
    """Return the search of the graph for the ``k`` nearest things (k > 0), or the exact one if that is faster.

    The number of inner products is about O(log n), for each vector when building and for each query when searching.
    """
    n_first = (2 if owners.several else 1) * k + _SPARE
    if len(matrix) < max(_LEAST, _SHARE * n_first):
        return exact
    find = graph()
    n_wanted = min(k, len(np.unique(owners.owner)))
    owned = np.searchsorted(owners.owner, np.arange(owners.owner[-1] + 2))

    def fill(vectors: Floats, lists: Lists) -> None:
        left = np.arange(len(vectors))
        for n_found in (n_first, 4 * n_first, 16 * n_first):
            some_lists = empty_lists(lists.limit[left], k)
            some, count = vectors[left], np.zeros(len(left), np.int64)
            score_found(some, matrix, find(some, n_found), owners, offset, some_lists, count)
            if owners.several:
                _score_things(some, matrix, owners.row, owned, offset, some_lists)
            lists.ids[left], lists.dissimilarity[left] = some_lists[:2]
            left = left[count < n_wanted]
            if len(left) == 0:
                return
        some_lists = empty_lists(lists.limit[left], k)
        exact.fill(vectors[left], some_lists)
        lists.ids[left], lists.dissimilarity[left] = some_lists[:2]

    # As in the exact search, faiss has its own threads, and chunks are smaller for a very large k.
    return Search(fill, chunk=min(_CHUNK, max(1, 64 * _CHUNK // n_first)), workers=1)


@kernel
def _score_things(vectors: Floats, matrix: Floats, row: Ids, owned: Ids, offset: float, lists: Lists) -> None:
    """Score each listed thing by all its vectors, since the search may miss the nearest, and sort the lists again.

    The vectors of thing ``t`` are the rows ``row[owned[t] : owned[t + 1]]``.
    """
    for q in range(len(vectors)):
        ids, values, taken = lists.ids[q], lists.dissimilarity[q], 0
        things = ids[ids >= 0]
        ids[:], values[:] = -1, np.inf
        for thing in things:
            for r in row[owned[thing] : owned[thing + 1]]:
                value = dissimilarity(dot(vectors[q], matrix[r]), offset)
                taken = offer(ids, values, taken, thing, value, True)


def hnsw(matrix: Floats) -> Find:
    """Build the graph of Malkov and Yashunin (2018), and return its search; faiss draws the levels with a fixed seed.

    Since version 1.15.1, faiss builds the same graph with any number of threads (as in ParlayANN, Manohar et al. 2024);
    before, the graph depended on their timing.
    """
    import faiss

    index: Any = faiss.IndexHNSWFlat(matrix.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BUILD_WIDTH
    threads = faiss.omp_get_max_threads()
    try:
        if not hasattr(faiss, "hnsw_add_vertices_deterministic"):
            faiss.omp_set_num_threads(1)
        index.add(matrix)
    finally:
        faiss.omp_set_num_threads(threads)

    def find(vectors: Floats, n: int) -> Ids:
        index.hnsw.efSearch = max(_SEARCH_WIDTH, n)
        found: Ids = index.search(vectors, n)[1]
        return found

    return find
