"""Exact nearest neighbours of many sparse vectors within a small dissimilarity, such as those of mentions in discovery.

The features of a vector are read from the rarest to the most frequent. Let ``f`` be the first feature that a query and
a row share. By the Cauchy-Schwarz inequality, their score is at most the product of the lengths of their parts from
``f`` on. So a row needs postings only for the features from which on its part is long enough, its *prefix* (Chaudhuri
et al. 2006; with lengths, Anastasiu and Karypis 2014), and a query reads the postings of its own prefix, the longest
parts first, until the product is too small. Sketches leave few of the rows found; these are scored exactly.
"""

from typing import NamedTuple, Self

import numpy as np

from .arrays import Floats, Ids, Weights
from .kernels import kernel
from .search import Lists
from .sparse_search import Corpus, List, Query, Scratch, least_score, most, query_of, score_row, sketch_of
from .vectors import Csr

MOST_WITHIN = 0.375
"""Above this dissimilarity, lists are rarely shorter than without a limit, and their own bounds are better."""

QUERIES_SHARE, FEW_ROWS = 2, 1 << 12
"""Prefixes are made if there is at least one query for two rows, as they take the time of some queries, and more than
4,096 rows: for fewer, loading the kernels takes longer."""

_ROUNDING = 1e-5
"""More than rounding changes in a score and its bounds, and what counts as 1 in `clustering.vectors.dissimilarity`."""


class Prefixes(NamedTuple):
    """The rows that have a feature in their prefix."""

    place: Ids
    """(features,) the place of each feature in the order of frequency."""
    start: Ids
    """``row[start[f] : start[f + 1]]`` are the rows with feature ``f`` in their prefix, the longest parts first."""
    row: Ids
    length: Floats
    """The length of the row's part from the feature on."""

    @classmethod
    def of(cls, rows: Csr, postings: Csr, least: float) -> Self:
        """Make the prefixes of rows of length 1 for scores of at least ``least``, less what rounding can change."""
        frequency = np.diff(postings.indptr)
        place = np.empty(len(frequency), np.int32)
        place[np.argsort(frequency, kind="stable")] = np.arange(len(frequency))
        length = _lengths(rows, place)
        kept = np.flatnonzero(length >= np.float32(least - 2 * _ROUNDING))
        feature, length = rows.indices[kept], length[kept]
        row = (np.searchsorted(rows.indptr, kept, side="right") - 1).astype(np.int32)
        order = np.lexsort((-length, feature))
        start = np.append(0, np.cumsum(np.bincount(feature, minlength=len(place))))
        return cls(place, start, row[order], length[order])


@kernel
def _lengths(rows: Csr, place: Ids) -> Floats:
    """Return the length of a row's part from each of its features on."""
    length = np.empty(len(rows.indices), np.float32)
    for row in range(len(rows.indptr) - 1):
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        order = np.argsort(place[rows.indices[part]])
        length[part][order] = _rests(rows.data[part][order])
    return length


@kernel
def _rests(value: Floats) -> Weights:
    """Return the length of a vector's part from each place on."""
    rest = np.empty(len(value), np.float64)
    square = 0.0
    for i in range(len(value) - 1, -1, -1):
        square += np.float64(value[i]) ** 2
        rest[i] = np.sqrt(square)
    return rest


@kernel
def search_prefixes(prefixes: Prefixes, queries: Csr, corpus: Corpus, scratch: Scratch, lists: Lists) -> None:
    """Fill the lists of the queries; no limit may be above the one for which the prefixes were made."""
    for q in range(len(queries.indptr) - 1):
        query, near = query_of(queries, q, scratch, lists)
        scratch.weight_of[query.feature] = query.weight
        _fill(prefixes, query, corpus, scratch, near)
        scratch.weight_of[query.feature] = 0


@kernel
def _fill(prefixes: Prefixes, query: Query, corpus: Corpus, scratch: Scratch, near: List) -> None:
    order = np.argsort(prefixes.place[query.feature])
    rest, seen, n_seen = _rests(query.weight[order]), scratch.seen, 0
    lengths, fine = sketch_of(query, corpus.longest)
    for at in range(len(order)):
        feature = query.feature[order[at]]
        for i in range(prefixes.start[feature], prefixes.start[feature + 1]):
            least = least_score(near, corpus.offset, _ROUNDING)
            if rest[at] * prefixes.length[i] < least:
                break
            row = prefixes.row[i]
            if scratch.score[row] == 0:
                scratch.score[row], seen[n_seen] = 1, row
                n_seen += 1
                if most(lengths, corpus.bounds.sketch[row]) * fine >= least:
                    score_row(query, corpus, row, near)
    scratch.score[seen[:n_seen]] = 0
