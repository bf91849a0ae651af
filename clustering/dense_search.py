"""Exact nearest neighbours of dense vectors: faiss finds them, a fixed order of summation ranks them.

The scores of a matrix product change with the shape of the batch and the number of threads. So faiss finds candidates
with some to spare, which are scored again; and where a vector left out could still belong to the list, for all that
rounding allows, all vectors that could are scored again.
"""

import numba
import numpy as np
import numpy.typing as npt

from clustering.arrays import Ids, Weights
from clustering.dissimilarity import dissimilarities, dissimilarity
from clustering.search import Rows, Search
from clustering.shortlist import offer_all
from clustering.vectors import dot, lengths

Floats = npt.NDArray[np.float32]

_SPARE = 8
_CHUNK = 4096
_BLOCK = 1024


def dense_search(corpus: Rows, offset: float, k: int) -> Search:
    """Prepare the search for the ``k`` nearest things, k > 0.

    Costs one or, where many vectors are nearly as near, two matrix products; never more than a chunk of scores in
    memory, and at worst (all nearly equal) queries x rows exact products.
    """
    matrix: Floats = corpus.matrix
    length = lengths(matrix)
    fetched = min((2 if corpus.several else 1) * k + _SPARE, len(matrix))

    def fill(vectors: Floats, ids: Ids, dissimilarity: Floats) -> None:
        import faiss

        count = np.zeros(len(vectors), np.int64)
        error = rounding(vectors)
        scores, found = faiss.knn(vectors, matrix, fetched, metric=faiss.METRIC_INNER_PRODUCT)
        _rescore(
            vectors,
            matrix,
            found,
            corpus.start,
            corpus.by_row,
            corpus.several,
            offset,
            ids,
            dissimilarity,
            count,
        )
        if fetched == len(matrix):
            return
        left_out = dissimilarities(scores[:, -1] + error[:, 0] * length.max() + error[:, 1], offset)
        unsettled = np.flatnonzero(dissimilarity[:, -1] >= left_out)
        if len(unsettled) == 0:
            return
        rest = vectors[unsettled], error[unsettled]
        for begin in range(0, len(matrix), _BLOCK):
            block = slice(begin, begin + _BLOCK)
            _scan(
                rest[0] @ matrix[block].T,
                *rest,
                matrix[block],
                length[block],
                corpus.start[begin : begin + _BLOCK + 1],
                corpus.by_row,
                offset,
                unsettled,
                ids,
                dissimilarity,
                count,
            )

    return Search(
        fill, chunk=min(_CHUNK, max(1, _CHUNK * _BLOCK // fetched)), workers=1
    )  # faiss has its own threads


def rounding(vectors: Floats) -> Weights:
    """Error of a float32 product, whatever its order of summation (Higham 2002, section 3.1), with both sides' slack.

    (queries, 2): times the length of the other vector; and in any case, for what is too small for float32.
    """
    info, dim = np.finfo(np.float32), vectors.shape[1] + 2
    return np.stack([4 * info.eps * dim * lengths(vectors), np.full(len(vectors), dim * info.tiny)], axis=1)


@numba.njit(cache=True, nogil=True)
def _rescore(
    vectors: Floats,
    matrix: Floats,
    found: Ids,
    start: Ids,
    by_row: Ids,
    several: bool,
    offset: float,
    ids: Ids,
    dissimilarity_: Floats,
    count: Ids,
) -> None:
    """Offer the owners of the rows found."""
    for q in range(len(vectors)):
        for row in found[q]:
            value = dissimilarity(dot(vectors[q], matrix[row]), offset)
            things = by_row[start[row] : start[row + 1]]
            count[q] = offer_all(ids[q], dissimilarity_[q], count[q], things, value, several)


@numba.njit(cache=True, nogil=True)
def _scan(
    scores: Floats,
    vectors: Floats,
    error: Weights,
    block: Floats,
    length: Weights,
    start: Ids,
    by_row: Ids,
    offset: float,
    place: Ids,
    ids: Ids,
    dissimilarity_: Floats,
    count: Ids,
) -> None:
    """Offer the owners of the rows of a block whose scores, for all that rounding allows, are near enough."""
    for q in range(len(vectors)):
        at = place[q]
        for row in range(len(block)):
            if (
                dissimilarity(scores[q, row] + error[q, 0] * length[row] + error[q, 1], offset)
                > dissimilarity_[at, -1]
            ):
                continue
            value = dissimilarity(dot(vectors[q], block[row]), offset)
            things = by_row[start[row] : start[row + 1]]
            count[at] = offer_all(ids[at], dissimilarity_[at], count[at], things, value, True)
