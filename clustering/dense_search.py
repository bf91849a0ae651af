"""Exact nearest neighbours of dense vectors: a matrix product proposes them, and exact scores rank them.

The scores of a matrix product depend on the shape of the batch and the number of threads. The product therefore
proposes more candidates than needed, which are scored again in a fixed order of summation. If another vector could
belong to the list within the rounding error, every vector is scored again.
"""

import os
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .arrays import Floats, Ids, Weights
from .kernels import kernel
from .progress import in_parallel
from .search import Lists, Search, offer_all, score_found
from .vectors import Owners, dissimilarities, dissimilarity, lengths

_SPARE = 8
_CHUNK = 4096
_BLOCK = 256

Scan: TypeAlias = Callable[[Floats, int], tuple[Floats, Ids]]
"""``scan(vectors, n)`` returns the ``n`` largest inner products of each vector with the rows of a matrix, and these
rows; (vectors, n) each, the largest first. Products are float32; their order of summation is free."""

Scanner: TypeAlias = Callable[[Floats], Scan]
"""Makes a scan from a matrix, which is copied once to the device that computes products."""


def faiss_scanner(matrix: Floats) -> Scan:
    """Return a scan that computes products with faiss."""
    import faiss

    return lambda vectors, n: faiss.knn(vectors, matrix, n, metric=faiss.METRIC_INNER_PRODUCT)


def dense_search(matrix: Floats, owners: Owners, longest: float, scan: Scan, offset: float, k: int) -> Search:
    """Prepare the exact search for the ``k`` nearest things, k > 0; ``longest`` is the length of the longest row.

    The cost is one matrix product. A query with too many nearly equal neighbours costs about five times as much as
    another query. Memory is bounded in both cases.
    """
    fetched = min((2 if owners.several else 1) * k + _SPARE, len(matrix))

    def fill(vectors: Floats, lists: Lists) -> None:
        scores, found = scan(vectors, fetched)
        score_found(vectors, matrix, found, owners, offset, lists)
        if fetched == len(matrix):
            return
        left_out = dissimilarities(scores[:, -1] + product_rounding(vectors, longest), offset)
        unsettled = np.flatnonzero(np.minimum(lists.dissimilarity[:, -1], lists.limit) >= left_out)

        def settle(queries: Ids) -> None:
            for begin in range(0, len(matrix), _BLOCK):
                columns = np.ascontiguousarray(matrix[begin : begin + _BLOCK].T)
                _score_all(queries, vectors, columns, begin, owners, offset, lists)

        if len(unsettled) > 0:
            in_parallel(settle, np.array_split(unsettled, min(os.cpu_count() or 1, len(unsettled))))

    # Chunks run one after the other, since a scan has its own threads. They are smaller for a very large k.
    return Search(fill, chunk=min(_CHUNK, max(1, 1024 * _CHUNK // fetched)), workers=1)


def product_rounding(vectors: Floats, longest: float) -> Weights:
    """Bound the rounding errors of float32 products with vectors up to a given length, for any order of summation.

    The bound is twice that of Higham (2002, section 3.1), with an allowance for products too small for float32.
    """
    float32, dim = np.finfo(np.float32), vectors.shape[1] + 2
    bound: Weights = dim * (float32.eps * lengths(vectors) * longest + float32.tiny)
    return bound


@kernel
def _score_all(
    queries: Ids, vectors: Floats, columns: Floats, first: int, owners: Owners, offset: float, lists: Lists
) -> None:
    """Offer the owners of all rows of a block, given as columns, so that a CPU can score several at a time."""
    score = np.empty(columns.shape[1], np.float64)
    for q in queries:
        score[:] = 0
        for j in range(columns.shape[0]):
            weight = np.float64(vectors[q, j])
            for i in range(len(score)):
                score[i] += weight * np.float64(columns[j, i])
        ids, values = lists.ids[q], lists.dissimilarity[q]
        for i in range(len(score)):
            value = dissimilarity(score[i], offset)
            if value <= values[-1]:
                offer_all(ids, values, owners, first + i, value, True)
