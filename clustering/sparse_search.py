"""Exact nearest neighbours of sparse vectors, found without reading most of the postings.

The features of a query are read from the rarest to the most frequent, and each posting adds to the partial score of its
row. By the Cauchy-Schwarz inequality, the features that are not read yet add at most the length of this rest of the
query times the length of the row's *tail*, its part in features that are as frequent. Tails are stored for each level
of frequency. Once no unread row can reach the list, and few of the rows that were read can, these are scored exactly,
from the rows themselves. Scores are sums in the order of the features, in float64, whatever was skipped; so are ties.
"""

import os
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .arrays import Floats, Ids, Weights
from .kernels import kernel
from .search import Lists, Owners, Rows, Search, offer, offer_all, refuses
from .vectors import Csr, csr, dissimilarity, lengths

_DONE = np.float32(-1e30)
"""The partial score of a row that has been scored exactly."""

_ROWS_PER_PLACE = 512
"""Below this number of rows for each place of a list, bounds take longer than the scores that they spare."""


class _Corpus(NamedTuple):
    """The rows of a corpus and what bounds their scores."""

    rows: Csr
    postings: Csr
    owners: Owners
    level: Ids
    """(features,) the level of a feature's frequency, from 0; frequencies of a level differ by less than a factor 2."""
    tail: npt.NDArray[np.uint8]
    """(levels, rows) the length of a row's part in features of this level or above, in 255ths of ``longest``,
    rounded up."""
    longest: float
    bounded: bool
    """Whether bounds are used; otherwise all scores are computed, and there are no tails. Bounds are those of positive
    values, and too slow for few rows."""

    @classmethod
    def of(cls, corpus: Rows, k: int) -> Self:
        rows, postings = csr(corpus.matrix), csr(sp.csr_array(corpus.matrix.T))
        if corpus.matrix.shape[0] < _ROWS_PER_PLACE * k or (rows.data < 0).any():
            return cls(rows, postings, corpus.owners, np.empty(0, np.int64), np.empty((0, 0), np.uint8), 1.0, False)
        frequency = np.maximum(np.diff(postings.indptr), 1)
        _, level = np.unique(np.frexp(frequency.astype(np.float64))[1], return_inverse=True)
        longest = float(lengths(corpus.matrix).max(initial=0)) or 1.0
        tail = _tails(rows, level.astype(np.int64), int(level.max(initial=0)) + 1, longest)
        return cls(rows, postings, corpus.owners, level.astype(np.int64), tail, longest, True)


class _Query(NamedTuple):
    """The features of a query in ascending order with their weights, and the weight of every feature."""

    feature: Ids
    weight: Floats
    weight_of: Floats


class _Found(NamedTuple):
    """Memory for the rows that share a feature with a query, in order of discovery."""

    place: Ids
    """(rows,) the place of each row in the other two, or -1."""
    row: Ids
    score: Floats
    """The partial score of the row; `_DONE` once it is scored exactly."""


def sparse_search(corpus: Rows, offset: float, k: int) -> Search:
    """Prepare the search for lists of ``k`` places.

    Each worker keeps five numbers for each row and one for each feature in memory.
    """
    prepared = _Corpus.of(corpus, k)

    def fill(vectors: sp.csr_array, lists: Lists) -> None:
        _search(csr(vectors), prepared, offset, lists)

    return Search(fill, chunk=128, workers=os.cpu_count() or 1)


@kernel
def _tails(rows: Csr, level: Ids, n_levels: int, longest: float) -> npt.NDArray[np.uint8]:
    indptr, indices, data = rows
    tail = np.zeros((n_levels, len(indptr) - 1), np.uint8)
    square = np.empty(n_levels, np.float64)
    for row in range(len(indptr) - 1):
        square[:] = 0
        for i in range(indptr[row], indptr[row + 1]):
            square[level[indices[i]]] += np.float64(data[i]) ** 2
        total = 0.0
        for at in range(n_levels - 1, -1, -1):
            total += square[at]
            tail[at, row] = np.uint8(min(255.0, np.ceil(255 * (1 + 1e-9) * np.sqrt(total) / longest)))
    return tail


@kernel
def _search(queries: Csr, corpus: _Corpus, offset: float, lists: Lists) -> None:
    """Fill the lists; a list with room for rows without a common feature takes the scores of all rows."""
    n_rows, n_features = len(corpus.rows.indptr) - 1, len(corpus.postings.indptr) - 1
    found = _Found(np.full(n_rows, -1, np.int32), np.empty(n_rows, np.int32), np.empty(n_rows, np.float32))
    able, score, weight_of = np.empty(n_rows, np.int32), np.zeros(n_rows, np.float64), np.zeros(n_features, np.float32)
    for q in range(len(queries.indptr) - 1):
        part = slice(queries.indptr[q], queries.indptr[q + 1])
        query = _Query(queries.indices[part], queries.data[part], weight_of)
        ids, values, taken = lists.ids[q], lists.dissimilarity[q], 0
        if corpus.bounded and (query.weight >= 0).all():
            weight_of[query.feature] = query.weight
            taken = _near(query, corpus, offset, found, able, ids, values)
            weight_of[query.feature] = 0
        if taken < len(ids) or values[-1] >= dissimilarity(0.0, offset):
            ids[:], values[:] = -1, np.inf
            _all(query, corpus, offset, score, ids, values)


@kernel
def _near(query: _Query, corpus: _Corpus, offset: float, found: _Found, able: Ids, ids: Ids, values: Floats) -> int:
    """Fill a list with the nearest rows that share a feature; return how many are listed.

    ``limit`` is the score that a row must reach, less what rounding can change: partial scores are sums of float32 in
    another order, and dissimilarities are float32.
    """
    start, row_of, value_of = corpus.postings
    count = start[query.feature + 1] - start[query.feature]
    order, n = np.argsort(count, kind="mergesort"), len(count)
    feature, weight, count = query.feature[order], query.weight[order], count[order]
    rest = np.append(np.sqrt(np.cumsum((weight.astype(np.float64) ** 2)[::-1])[::-1]), 0.0) * corpus.longest
    slack = 1.2e-7 * ((n + 8) * rest[0] + abs(offset))
    n_found, taken, read, checked, unread, limit = 0, 0, 0, 8 * len(ids), count.sum(), -np.inf
    for at in range(n):
        for i in range(start[feature[at]], start[feature[at] + 1]):
            place = found.place[row_of[i]]
            if place < 0:
                place = found.place[row_of[i]] = n_found
                found.row[place], found.score[place] = row_of[i], 0
                n_found += 1
            found.score[place] += weight[at] * value_of[i]
        read, unread = read + count[at], unread - count[at]
        is_last = at + 1 == n
        if not is_last and read + count[at + 1] < 2 * checked:
            continue
        checked = read
        taken = _score_best(query, corpus, offset, found, n_found, limit, ids, values, taken)
        if taken == len(ids):
            limit = offset - np.float64(values[-1]) - slack
        if is_last or rest[at + 1] < limit:
            tail, scale = corpus.tail[0 if is_last else corpus.level[feature[at + 1]]], rest[at + 1] / 255
            n_able, least = 0, max(limit - rest[at + 1], np.float64(_DONE) / 2)
            for place in range(n_found):
                score = found.score[place]
                if score >= least and score + scale * tail[found.row[place]] >= limit:
                    able[n_able] = place
                    n_able += 1
            if is_last or n_able * len(corpus.rows.indices) < unread * len(tail):
                for place in able[:n_able]:
                    row = found.row[place]
                    if taken < len(ids) or found.score[place] + scale * tail[row] + values[-1] >= offset - slack:
                        taken = _score(query, corpus, offset, row, ids, values, taken)
                break
    for row in found.row[:n_found]:
        found.place[row] = -1
    return taken


@kernel
def _score_best(
    query: _Query,
    corpus: _Corpus,
    offset: float,
    found: _Found,
    n_found: int,
    least: float,
    ids: Ids,
    values: Floats,
    taken: int,
) -> int:
    """Score the rows with the largest partial scores above ``least`` exactly, as many as the list has places."""
    most, n, least = len(ids), 0, max(least, np.float64(_DONE) / 2)
    best = np.empty(most, np.int32)
    for at in range(n_found):
        score = found.score[at]
        if score > least:
            place = min(n, most - 1)
            n = place + 1
            while place > 0 and found.score[best[place - 1]] < score:
                best[place] = best[place - 1]
                place -= 1
            best[place] = at
            if n == most:
                least = np.float64(found.score[best[-1]])
    for at in best[:n]:
        taken = _score(query, corpus, offset, found.row[at], ids, values, taken)
        found.score[at] = _DONE
    return taken


@kernel
def _score(query: _Query, corpus: _Corpus, offset: float, row: int, ids: Ids, values: Floats, taken: int) -> int:
    """Offer the owners of a row at its exact dissimilarity; return the number of places taken."""
    indptr, indices, data = corpus.rows
    score = 0.0
    for i in range(indptr[row], indptr[row + 1]):
        weight = query.weight_of[indices[i]]
        if weight != 0:
            score += np.float64(weight) * np.float64(data[i])
    owners = corpus.owners
    return offer_all(ids, values, taken, owners, row, dissimilarity(score, offset), owners.several)


@kernel
def _all(query: _Query, corpus: _Corpus, offset: float, score: Weights, ids: Ids, values: Floats) -> None:
    """Fill a list by the scores of all rows; then offer the rows without common features."""
    start, row_of, value_of = corpus.postings
    owners, nothing = corpus.owners, dissimilarity(0.0, offset)
    score[:] = 0
    for at in range(len(query.feature)):
        feature, weight = query.feature[at], np.float64(query.weight[at])
        for i in range(start[feature], start[feature + 1]):
            score[row_of[i]] += weight * np.float64(value_of[i])
    taken = 0
    for row in range(len(score)):
        if score[row] != 0:
            value = dissimilarity(score[row], offset)
            if value <= values[-1]:
                taken = offer_all(ids, values, taken, owners, row, value, owners.several)
    for pair in range(len(owners.owner)):
        if refuses(ids, values, taken, owners.owner[pair], nothing):
            break
        if score[owners.row[pair]] == 0:
            taken = offer(ids, values, taken, owners.owner[pair], nothing, owners.several)
