"""Exact nearest neighbours of sparse vectors, scored through the postings of the query's features."""

import os

import numpy as np
import scipy.sparse as sp

from .kernels import kernel
from .search import Lists, Owners, Rows, Search, offer, offer_all, refuses
from .vectors import Csr, csr, dissimilarity


def sparse_search(corpus: Rows, offset: float) -> Search:
    """Prepare the search; each worker keeps one score for each row in memory."""
    postings = csr(sp.csr_array(corpus.matrix.T))

    def fill(vectors: sp.csr_array, lists: Lists) -> None:
        _search(csr(vectors), postings, corpus.owners, offset, lists)

    return Search(fill, chunk=128, workers=os.cpu_count() or 1)


@kernel
def _search(queries: Csr, postings: Csr, owners: Owners, offset: float, lists: Lists) -> None:
    """Sum scores in the order of the features; then offer the rows without common features."""
    nothing = dissimilarity(0.0, offset)
    score = np.zeros(len(owners.start) - 1, np.float64)
    row_of_pair, owner = owners.row, owners.owner
    indptr, indices, data = queries
    start, row_of, value_of = postings
    for q in range(len(indptr) - 1):
        for f in range(indptr[q], indptr[q + 1]):
            weight = np.float64(data[f])
            for i in range(start[indices[f]], start[indices[f] + 1]):
                score[row_of[i]] += weight * np.float64(value_of[i])
        ids, values, taken = lists.ids[q], lists.dissimilarity[q], 0
        for row in range(len(score)):
            if score[row] != 0:
                value = dissimilarity(score[row], offset)
                if value <= values[-1]:
                    taken = offer_all(ids, values, taken, owners, row, value, owners.several)
        for pair in range(len(owner)):
            if refuses(ids, values, taken, owner[pair], nothing):
                break
            if score[row_of_pair[pair]] == 0:
                taken = offer(ids, values, taken, owner[pair], nothing, owners.several)
        score[:] = 0
