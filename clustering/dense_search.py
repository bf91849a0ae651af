"""Exact nearest neighbours of dense vectors: a matrix product proposes them, and exact scores rank them.

The scores of a matrix product depend on the shape of the batch and the number of threads. The product therefore
proposes more candidates than needed, which are scored again in a fixed order of summation. If another vector could
belong to the list within the rounding error, the product proposes more, and at last every vector.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from .arrays import Floats, Ids, Weights
from .search import Lists, Search, score_found
from .vectors import Owners, dissimilarities, lengths

_SPARE = 16
_MORE = 16  # times as many rows are proposed to a query that needs more
_CHUNK = 4096

Scan: TypeAlias = Callable[[Floats, int], tuple[Floats, Ids]]
"""``scan(vectors, n)`` returns the ``n`` largest inner products of each vector with the rows of a matrix, or bounds of
these, and these rows; (vectors, n) each, the largest first. Products are float32, in any order of summation."""

Scanner: TypeAlias = Callable[[Floats], Scan]
"""Makes a scan from a matrix, which is copied once to the device that computes products."""


def faiss_scanner(matrix: Floats) -> Scan:
    """Return a scan that computes products with faiss."""
    import faiss

    return lambda vectors, n: faiss.knn(vectors, matrix, n, metric=faiss.METRIC_INNER_PRODUCT)


def dense_search(matrix: Floats, owners: Owners, longest: float, scan: Scan, offset: float, k: int) -> Search:
    """Prepare the exact search for the ``k`` nearest things, k > 0; ``longest`` is the length of the longest row.

    The cost is one matrix product. A query with too many nearly equal neighbours costs many times as much as another
    query. Memory is bounded in both cases.
    """
    fetched = min((3 if owners.several else 2) * k + _SPARE, len(matrix))

    def fill(vectors: Floats, lists: Lists, n: int = fetched) -> None:
        scores, found = scan(vectors, n)
        score_found(vectors, matrix, found, owners, offset, lists)
        if n == len(matrix):
            return
        left_out = dissimilarities(scores[:, -1] + product_rounding(vectors, longest), offset)
        unsettled = np.flatnonzero(np.minimum(lists.dissimilarity[:, -1], lists.limit) >= left_out)
        more = min(_MORE * n, len(matrix))
        step = max(1, 64 * _CHUNK // more)
        for some in (unsettled[begin : begin + step] for begin in range(0, len(unsettled), step)):
            lists.ids[some], lists.dissimilarity[some] = -1, np.inf
            again = Lists(lists.ids[some], lists.dissimilarity[some], lists.limit[some])
            fill(vectors[some], again, more)
            lists.ids[some], lists.dissimilarity[some] = again.ids, again.dissimilarity

    # Chunks run one after the other, since a scan has its own threads. They are smaller for a very large k.
    return Search(fill, chunk=min(_CHUNK, max(1, 1024 * _CHUNK // fetched)), workers=1)


def product_rounding(vectors: Floats, longest: float) -> Weights:
    """Bound the rounding errors of float32 products with vectors up to a given length, for any order of summation.

    The bound is twice that of Higham (2002, section 3.1), with an allowance for products too small for float32.
    """
    float32, dim = np.finfo(np.float32), vectors.shape[1] + 2
    return np.asarray(dim * (float32.eps * lengths(vectors) * longest + float32.tiny))
