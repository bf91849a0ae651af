"""Parts of all searches, dense and sparse, exact and approximate."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from .arrays import Floats, Ids
from .dissimilarity import dissimilarity
from .kernels import kernel
from .methods import SEARCH_METHODS as SEARCH_METHODS, SearchMethod as SearchMethod
from .shortlist import offer_all
from .vectors import METRICS, Metric, Vectors, dot, unit


def check_choices(metric: str, search: str) -> None:
    """Raise ValueError for an unknown metric or search method."""
    if metric not in METRICS:
        raise ValueError(f"metric={metric!r} is not one of {', '.join(METRICS)}")
    if search not in SEARCH_METHODS:
        raise ValueError(f"search={search!r} is not one of {', '.join(SEARCH_METHODS)}")


def empty_lists(n: int, k: int) -> tuple[Ids, Floats]:
    """Return shortlists of ``n`` queries with ``k`` empty places each: -1 and infinity."""
    return np.full((n, k), -1, np.int32), np.full((n, k), np.inf, np.float32)


class Search(NamedTuple):
    """A function that fills the shortlists of a chunk of queries, and the sizes of chunks."""

    fill: Callable[[Any, Ids, Floats], None]
    """``fill(vectors, ids, dissimilarity)``; the lists are (queries, k), empty: -1 and infinity."""
    chunk: int
    """Number of queries in a chunk."""
    workers: int
    """Number of chunks at the same time."""


class Rows(NamedTuple):
    """The vectors of a corpus, prepared for comparison, and their owners."""

    matrix: Any
    """(rows, dim) distinct vectors; of length 1 for cosine."""
    row: Ids
    """Pair ``i`` means that ``row[i]`` belongs to ``owner[i]``; in the order of owners."""
    owner: Ids
    start: Ids
    """``by_row[start[r] : start[r + 1]]`` are the owners of row ``r``, in order."""
    by_row: Ids
    several: bool
    """Whether any thing has several vectors."""

    @classmethod
    def of(cls, corpus: Vectors, metric: Metric) -> Self:
        """Prepare the vectors in use; the matrix is copied only to scale it."""
        used, row = np.unique(corpus.row, return_inverse=True)
        matrix = corpus.matrix if len(used) == corpus.matrix.shape[0] else corpus.matrix[used]
        start = np.zeros(len(used) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(used)), out=start[1:])
        return cls(
            unit(matrix) if metric == "cosine" else matrix,
            row,
            corpus.owner,
            start,
            corpus.owner[np.argsort(row, kind="stable")],
            bool((corpus.owner[1:] == corpus.owner[:-1]).any()),
        )


@kernel
def score_found(
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
    """Offer each query the owners of its found rows (distinct, or -1), and update ``count``, its neighbours."""
    for q in range(len(vectors)):
        places, values, taken = ids[q], dissimilarity_[q], count[q]
        for row in found[q]:
            if row >= 0:
                value = dissimilarity(dot(vectors[q], matrix[row]), offset)
                taken = offer_all(places, values, taken, by_row, start[row], start[row + 1], value, several)
        count[q] = taken
