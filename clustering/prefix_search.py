"""Exact nearest neighbours of many sparse vectors that are short or near, such as those of mentions in discovery.

The features of a vector are read from the rarest to the most frequent. Let ``f`` be the first feature that a query and
a row share. By the Cauchy-Schwarz inequality, their score is at most the product of the lengths of their parts from
``f`` on. So a row needs postings only for the features from which on its part is long enough, its *prefix* (Chaudhuri
et al. 2006; with lengths, Anastasiu and Karypis 2014), and a query reads the postings of its own prefix, the longest
parts first, until the product is too small. Sketches leave few of the rows found; these are scored exactly.
"""

from typing import NamedTuple, Self

import numpy as np

from .arrays import Floats, Ids
from .kernels import kernel
from .search import Lists
from .sparse_search import Corpus, List, Query, Scratch, least_score, most, offer_unlike, query_of, score_row, sketch_of
from .vectors import Csr

MOST_WITHIN, MOST_FEATURES = 0.375, 12
"""Above this dissimilarity, if vectors have more features on average, the bounds of all rows are better: prefixes took
0.7 of their time for names with 11 features, 1.05 with 20 and 1.9 with 31, and for random letters 1.1 with 11."""

QUERIES_SHARE, FEW_ROWS = 2, 1 << 12
"""Prefixes are made if there is at least one query for two rows, as they take the time of some queries, and more than
4,096 rows: for fewer, loading the kernels takes longer."""

_TOGETHER = 32  # rows whose sketches are read at once
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
    def of(cls, postings: Csr, n_rows: int, least: float) -> Self:
        """Make the prefixes of rows of length 1 for scores of at least ``least``, less what rounding can change."""
        order = np.argsort(np.diff(postings.indptr), kind="stable")
        least_kept = np.float32(least - 2 * _ROUNDING)
        return cls(np.argsort(order).astype(np.int32), *_prefixes(postings, order, n_rows, least_kept))


@kernel
def _prefixes(postings: Csr, order: Ids, n_rows: int, least: np.float32) -> tuple[Ids, Ids, Floats]:
    """Return the fields of `Prefixes` after ``place``; ``order`` has the features from the rarest on."""
    first, rows, value = postings
    square, length, start = np.zeros(n_rows), np.empty(len(rows), np.float32), np.zeros(len(first), np.int64)
    for feature in order[::-1]:
        for i in range(first[feature], first[feature + 1]):
            square[rows[i]] += np.float64(value[i]) ** 2
            length[i] = np.sqrt(square[rows[i]])
            start[feature + 1] += length[i] >= least
    start = np.cumsum(start)
    row, kept = np.empty(start[-1], np.int32), np.empty(start[-1], np.float32)
    for feature in range(len(order)):
        part, to = slice(first[feature], first[feature + 1]), slice(start[feature], start[feature + 1])
        some = np.flatnonzero(length[part] >= least)
        some = some[np.argsort(-length[part][some])]
        row[to], kept[to] = rows[part][some], length[part][some]
    return start, row, kept


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
    """Fill a list; of some rows, what is needed next is read at once before, as waiting for memory takes the time."""
    order = np.argsort(prefixes.place[query.feature])
    rest = np.sqrt(np.cumsum(query.weight[order][::-1].astype(np.float64) ** 2)[::-1])
    (indptr, indices, data), sketch, owner = corpus.rows, corpus.bounds.sketch, corpus.owners.start
    seen, n_seen, read = scratch.seen, 0, 0.0
    lengths, fine = sketch_of(query, corpus.longest)
    for at in range(len(order)):
        feature = query.feature[order[at]]
        place, end, stop = prefixes.start[feature], prefixes.start[feature + 1], prefixes.start[feature]
        while place == stop < end:
            least, first, n_able = least_score(near, corpus.offset, _ROUNDING), n_seen, 0
            stop = min(place + _TOGETHER, end)
            while place < stop and rest[at] * prefixes.length[place] >= least:
                row = prefixes.row[place]
                if scratch.score[row] == 0:
                    scratch.score[row], seen[n_seen] = 1, row
                    n_seen += 1
                    read += sketch[row, 0]
                place += 1
            for row in seen[first:n_seen]:
                if most(lengths, sketch, row) * fine >= least:
                    scratch.able[n_able] = row
                    n_able += 1
                    if indptr[row] < len(data):  # unless the index is damaged
                        read += indices[indptr[row]] + data[indptr[row]] + owner[row]
            for row in scratch.able[:n_able]:
                if most(lengths, sketch, row) * fine >= least_score(near, corpus.offset, _ROUNDING):
                    score_row(query, corpus, row, near)
    scratch.all_scores[0] = read  # or the compiler leaves these sums out
    offer_unlike(corpus, scratch.score, near)
    scratch.score[seen[:n_seen]] = 0
