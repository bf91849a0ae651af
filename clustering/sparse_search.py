"""Exact nearest neighbours of sparse vectors, scored through the postings of the query's features."""

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import Floats, Ids
from .dissimilarity import dissimilarity
from .kernels import kernel
from .search import Rows, Search
from .shortlist import offer, offer_all, refuses


def sparse_search(corpus: Rows, offset: float) -> Search:
    """Prepare the search; each worker keeps one score for each row in memory."""
    postings = csr(sp.csr_array(corpus.matrix.T))

    def fill(vectors: sp.csr_array, ids: Ids, dissimilarity: Floats) -> None:
        _search(
            *csr(vectors),
            *postings,
            corpus.start,
            corpus.by_row,
            corpus.row,
            corpus.owner,
            corpus.several,
            offset,
            ids,
            dissimilarity,
        )

    return Search(fill, chunk=128, workers=os.cpu_count() or 1)


def csr(matrix: Any) -> tuple[Ids, Ids, Floats]:
    """Return row offsets, sorted column indices and values, without changing the matrix."""
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return matrix.indptr.astype(np.int64, copy=False), matrix.indices, matrix.data


@kernel
def _search(
    indptr: Ids,
    indices: Ids,
    data: Floats,
    post_start: Ids,
    post_row: Ids,
    post_value: Floats,
    start: Ids,
    by_row: Ids,
    pair_row: Ids,
    pair_owner: Ids,
    several: bool,
    offset: float,
    ids: Ids,
    dissimilarity_: Floats,
) -> None:
    """Sum scores in the order of the features; then offer the rows without common features."""
    nothing = dissimilarity(0.0, offset)
    score = np.zeros(len(start) - 1, np.float64)
    for q in range(len(indptr) - 1):
        for f in range(indptr[q], indptr[q + 1]):
            weight = np.float64(data[f])
            for i in range(post_start[indices[f]], post_start[indices[f] + 1]):
                score[post_row[i]] += weight * np.float64(post_value[i])
        places, values, taken = ids[q], dissimilarity_[q], 0
        for row in range(len(score)):
            if score[row] != 0:
                value = dissimilarity(score[row], offset)
                if value <= values[-1]:
                    taken = offer_all(places, values, taken, by_row, start[row], start[row + 1], value, several)
        for pair in range(len(pair_owner)):
            if refuses(places, values, taken, pair_owner[pair], nothing):
                break
            if score[pair_row[pair]] == 0:
                taken = offer(places, values, taken, pair_owner[pair], nothing, several)
        score[:] = 0
