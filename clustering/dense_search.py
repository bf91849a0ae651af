"""Exact nearest neighbours of dense vectors: a matrix product proposes them, and exact scores rank them.

The scores of a matrix product depend on the shape of the batch and the number of threads. The product therefore
proposes more candidates than needed, which are scored again in a fixed order of summation. If another vector could
belong to the list within the rounding error, all products of the query are computed, and every vector that could is
scored again.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .arrays import Floats, Ids, Weights
from .kernels import in_parallel
from .search import Lists, Owners, Search, score_found
from .vectors import dissimilarities, lengths

_SPARE = 8
_CHUNK = 4096
_PRODUCTS = 1 << 20  # in memory at once, of each thread

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

    The cost is one matrix product, and another for a query with too many nearly equal neighbours, which are scored one
    by one. Memory is bounded in both cases.
    """
    fetched = min((2 if owners.several else 1) * k + _SPARE, len(matrix))

    def fill(vectors: Floats, lists: Lists) -> None:
        scores, found = scan(vectors, fetched)
        score_found(vectors, matrix, found, owners, offset, lists)
        if fetched == len(matrix):
            return
        rounding = product_rounding(vectors, longest)
        worst = np.minimum(lists.dissimilarity[:, -1], lists.limit)
        unsettled = np.flatnonzero(worst >= dissimilarities(scores[:, -1] + rounding, offset))

        def settle(queries: Ids) -> None:
            """Score every row that could belong to the list of a query, but for rounding."""
            lists.ids[queries], lists.dissimilarity[queries] = -1, np.inf
            for q, products in zip(queries, vectors[queries] @ matrix.T, strict=True):
                rows = np.flatnonzero(dissimilarities(products + rounding[q], offset) <= worst[q])
                one = slice(q, q + 1)
                score_found(vectors[one], matrix, rows[None], owners, offset, lists.at(one))

        step = max(1, _PRODUCTS // len(matrix))
        in_parallel(settle, [unsettled[begin : begin + step] for begin in range(0, len(unsettled), step)])

    # Chunks run one after the other, since a scan has its own threads. They are smaller for a very large k.
    return Search(fill, chunk=min(_CHUNK, max(1, 1024 * _CHUNK // fetched)), workers=1)


def product_rounding(vectors: Floats, longest: float) -> Weights:
    """Bound the rounding errors of float32 products with vectors up to a given length, for any order of summation.

    The bound is twice that of Higham (2002, section 3.1), with an allowance for products too small for float32.
    """
    float32, dim = np.finfo(np.float32), vectors.shape[1] + 2
    bound: Weights = dim * (float32.eps * lengths(vectors) * longest + float32.tiny)
    return bound
