"""Exact nearest neighbours of sparse vectors, found without reading most of the postings.

The features of a query are read from the rarest to the most frequent, and each posting adds to the partial score of its
row. By the Cauchy-Schwarz inequality, the features that are not read yet add at most the length of the unread part of
the query times the length of the row's *tail*, its part in features that are at least as frequent. Tails are stored for
each level of frequency. Once no unread row can reach the list, and few of the rows that were read can, these are scored
exactly, from the rows themselves, unless *sketches* of query and row refuse them, by the same inequality in each of 64
groups of features. Scores are sums in float64 in the order of the features, whatever was skipped.
"""

import os
from collections.abc import Callable
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .arrays import Floats, Ids, Weights
from .kernels import kernel
from .search import Lists, Search, offer, offer_all, refuses
from .vectors import Csr, Owners, csr, dissimilarity

Bytes: TypeAlias = npt.NDArray[np.uint8]  # lengths in 255ths of the longest row, rounded up

_DONE = np.float32(-1e30)  # the partial score of a row that has been scored exactly

_LEAST_SHARE = np.float32(1e-37)
"""The least partial score of a row that shares a feature with the query, also if the product is rounded to 0."""

_MOST_FEATURES = 128
"""Above this number of features, as in a sentence, a query without a limit is searched by all scores."""

GROUPS = 64  # number of groups of features; a feature belongs to the group of its remainder

_FINE = 1 << 15  # the unit of the lengths of a query's groups, so that the sum of products is an int32

ROWS_PER_PLACE = 1500
"""Below this number of rows for each place of a list without a limit, bounds take longer than they save."""


class Bounds(NamedTuple):
    """Bounds of the scores of rows whose values are not negative; by default empty, so that all scores are computed."""

    level: Ids = np.empty(0, np.int64)
    """(features,) the level of a feature's frequency, from 0; frequencies of a level differ by less than a factor 2."""
    tail: Bytes = np.empty((0, 0), np.uint8)
    """(levels, rows) the length of a row's part in features of at least this level; without levels, all is scored."""
    sketch: Bytes = np.empty((0, 0), np.uint8)
    """(rows, `GROUPS`) the length of a row's part in each group of features. The score of two rows is at most the sum
    of the products of these lengths."""

    @classmethod
    def of(cls, rows: Csr, postings: Csr, longest: float) -> Self:
        """Compute the levels of the features, and the tails and sketches of all rows."""
        doublings = np.frexp(np.maximum(np.diff(postings.indptr), 1).astype(np.float64))[1]
        level = (np.cumsum(np.bincount(doublings) > 0) - 1)[doublings]
        longest = longest or 1.0
        n = (len(rows.indptr) - 1) * GROUPS
        room = np.empty(n + GROUPS, np.uint8)
        begin = -room.ctypes.data % GROUPS  # so that each sketch is a line of a cache
        sketch = room[begin : begin + n].reshape(-1, GROUPS)
        _sketches(rows, longest, sketch)
        return cls(level, _tails(rows, level, int(level.max(initial=0)) + 1, longest), sketch)


class Corpus(NamedTuple):
    """The vectors to search, in all the forms that the search needs."""

    rows: Csr
    owners: Owners
    postings: Csr
    bounds: Bounds
    longest: float
    """The length of the longest row."""
    offset: float
    """See `clustering.vectors.offset_of`."""


Fill: TypeAlias = Callable[[Csr, Corpus, "Scratch", Lists], None]


class Query(NamedTuple):
    """The features of a query in ascending order with their weights, and the weight of every feature."""

    feature: Ids
    weight: Floats
    weight_of: Floats


class List(NamedTuple):
    """The list of a query and the largest dissimilarity that it may hold."""

    ids: Ids
    values: Floats
    limit: np.float32


class Scratch(NamedTuple):
    """Memory of a worker."""

    score: Floats  # (rows,) the partial score of each row; `_DONE` once it is scored exactly; all 0 between queries
    seen: Ids  # the rows with a score that is not 0
    able: Ids  # the rows that could reach a list
    all_scores: Weights
    weight_of: Floats  # (features,) the weight of every feature; all 0 between queries

    @classmethod
    def of(cls, n_rows: int, n_features: int) -> Self:
        """Allocate the memory of one worker; this takes time only when it is used."""
        seen, able = np.empty((2, n_rows), np.int32)
        return cls(np.zeros(n_rows, np.float32), seen, able, np.empty(n_rows), np.zeros(n_features, np.float32))


def sparse_search(corpus: Corpus, search: Fill) -> Search:
    """Prepare a search of chunks of queries."""
    spare = list[Scratch]()  # of workers between chunks

    def fill(vectors: sp.csr_array, lists: Lists) -> None:
        try:
            scratch = spare.pop()
        except IndexError:
            scratch = Scratch.of(len(corpus.rows.indptr) - 1, len(corpus.postings.indptr) - 1)
        search(csr(vectors), corpus, scratch, lists)
        spare.append(scratch)

    return Search(fill, chunk=128, workers=os.cpu_count() or 1)


def alike_together(rows: Csr) -> Ids:
    """Return an order that puts most rows with the same strongest features together, which halves a search's time."""
    return np.lexsort(_strongest(rows, 3))


@kernel
def _strongest(rows: Csr, n: int) -> Ids:
    """Return the ``n`` features of each row with the largest values, the largest last, or -1; (n, rows)."""
    indptr, indices, data = rows
    strongest = np.full((n, len(indptr) - 1), -1, np.int32)
    value = np.empty(n, np.float32)
    for row in range(len(indptr) - 1):
        value[:] = -np.inf
        for i in range(indptr[row], indptr[row + 1]):
            place = 0
            while place < n and value[place] < data[i]:
                if place > 0:
                    value[place - 1], strongest[place - 1, row] = value[place], strongest[place, row]
                value[place], strongest[place, row] = data[i], indices[i]
                place += 1
    return strongest


@kernel
def _tails(rows: Csr, level: Ids, n_levels: int, longest: float) -> Bytes:
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
def group_lengths(feature: Ids, value: Floats) -> Weights:
    """Return the length of a vector's part in each group of features."""
    square = np.zeros(GROUPS, np.float64)
    for i in range(len(feature)):
        square[feature[i] % GROUPS] += np.float64(value[i]) ** 2
    return np.sqrt(square)


@kernel
def _sketches(rows: Csr, longest: float, sketch: Bytes) -> None:
    indptr, indices, data = rows
    for row in range(len(sketch)):
        part = slice(indptr[row], indptr[row + 1])
        length = group_lengths(indices[part], data[part]) / longest
        sketch[row] = np.minimum(np.ceil(255 * (1 + 1e-9) * length), 255).astype(np.uint8)


@kernel
def sketch_of(query: Query, longest: float) -> tuple[Ids, float]:
    """Return the lengths of a query's groups, and the unit of their product with the sketch of a row."""
    length = group_lengths(query.feature, query.weight)
    fine = max(length.max(), 1e-30) / _FINE
    return np.ceil(length / fine).astype(np.int32), fine * longest / 255


@kernel
def most(lengths: Ids, sketch: Bytes, row: int) -> np.int32:
    """Return the largest score that the sketches of a query and of a row allow, in their unit."""
    total = np.int32(0)
    for group in range(GROUPS):
        total += lengths[group] * np.int32(sketch[row, group])
    return total


@kernel
def query_of(queries: Csr, q: int, scratch: Scratch, lists: Lists) -> tuple[Query, List]:
    """Return a query and its list."""
    part = slice(queries.indptr[q], queries.indptr[q + 1])
    query = Query(queries.indices[part], queries.data[part], scratch.weight_of)
    return query, List(lists.ids[q], lists.dissimilarity[q], lists.limit[q])


@kernel
def search_bounded(queries: Csr, corpus: Corpus, scratch: Scratch, lists: Lists) -> None:
    """Fill the lists by bounds or, without bounds, by the scores of all rows."""
    for q in range(len(queries.indptr) - 1):
        query, near = query_of(queries, q, scratch, lists)
        is_done = False
        if len(corpus.bounds.tail) > 0 and (query.weight >= 0).all():
            scratch.weight_of[query.feature] = query.weight
            is_done = _near(query, corpus, scratch, near)
            scratch.weight_of[query.feature] = 0
        if not is_done:
            near.ids[:], near.values[:] = -1, np.inf
            _all(query, corpus, scratch.all_scores, near)


@kernel
def _near(query: Query, corpus: Corpus, scratch: Scratch, near: List) -> bool:
    """Fill a list by bounds; return False, and leave it, for a query so long that reading all postings is faster.

    Whenever about twice as many postings are read, the best rows so far are scored exactly. ``slack`` is what rounding
    can change: partial scores are sums of float32 in another order, and dissimilarities are float32.
    """
    start = corpus.postings.indptr
    count = start[query.feature + 1] - start[query.feature]
    order, n = np.argsort(count, kind="mergesort"), len(count)
    feature, weight = query.feature[order], query.weight[order]
    squares = weight.astype(np.float64) ** 2
    unread = np.append(np.sqrt(np.cumsum(squares[::-1])[::-1]), 0.0) * corpus.longest  # most that they can still add
    slack = 1.2e-7 * ((n + 8) * unread[0] + abs(corpus.offset))
    to_read = np.append(0, np.cumsum(count[order]))
    if n > _MOST_FEATURES and least_score(near, corpus.offset, slack) <= 0:
        return False
    n_seen, n_read = 0, 8 * len(near.ids)
    for at in range(n):
        n_seen = _read_postings(feature[at], weight[at], corpus.postings, scratch, n_seen)
        is_last = at + 1 == n
        if not is_last and to_read[at + 2] < 2 * n_read:
            continue
        n_read = to_read[at + 1]
        _score_best(query, corpus, scratch, n_seen, near)
        least = least_score(near, corpus.offset, slack)
        if not is_last and unread[at + 1] >= least:  # a row that was not seen can reach the list
            continue
        tail = corpus.bounds.tail[0 if is_last else corpus.bounds.level[feature[at + 1]]]
        n_able = _able(scratch, n_seen, tail, unread[at + 1], least)
        if is_last or n_able * len(corpus.rows.indices) < (to_read[n] - n_read) * len(tail):
            _score_able(query, corpus, scratch, n_able, tail, unread[at + 1], slack, near)
            break
    offer_unlike(corpus, scratch.score, near)
    scratch.score[scratch.seen[:n_seen]] = 0
    return True


@kernel
def _read_postings(feature: int, weight: np.float32, postings: Csr, scratch: Scratch, n_seen: int) -> int:
    """Add a feature to the partial scores of the rows that have it; return the number of rows seen."""
    score, seen = scratch.score, scratch.seen
    for i in range(postings.indptr[feature], postings.indptr[feature + 1]):
        row, share = postings.indices[i], weight * postings.data[i]
        if score[row] == 0 and n_seen < len(seen):  # a damaged index may have values below 0, which cancel others
            seen[n_seen] = row
            n_seen += 1
            share = max(share, _LEAST_SHARE)
        score[row] += share
    return n_seen


@kernel
def _score_able(
    query: Query, corpus: Corpus, scratch: Scratch, n_able: int, tail: Bytes, rest: float, slack: float, near: List
) -> None:
    """Score the rows in ``able`` exactly, unless the list, which grows, or their sketches refuse them."""
    lengths, fine = sketch_of(query, corpus.longest)
    for row in scratch.able[:n_able]:
        least = least_score(near, corpus.offset, slack)
        is_able = scratch.score[row] + rest / 255 * tail[row] >= least
        if is_able and most(lengths, corpus.bounds.sketch, row) * fine >= least:
            score_row(query, corpus, row, near)


@kernel
def _able(scratch: Scratch, n_seen: int, tail: Bytes, rest: float, least: float) -> int:
    """Write the rows seen that can still reach the least score to ``able``; return their number."""
    score, n_able, scale, least_partial = scratch.score, 0, rest / 255, max(least - rest, np.float64(_DONE) / 2)
    for row in scratch.seen[:n_seen]:
        if score[row] >= least_partial and score[row] + scale * tail[row] >= least:
            scratch.able[n_able] = row
            n_able += 1
    return n_able


@kernel
def offer_unlike(corpus: Corpus, score: Weights, near: List) -> None:
    """Offer the things of rows with the score 0, which share no feature with the query, until no more can be taken."""
    owners, nothing = corpus.owners, dissimilarity(0.0, corpus.offset)
    if nothing > near.limit:
        return
    for pair in range(len(owners.owner)):
        if refuses(near.ids, near.values, owners.owner[pair], nothing):
            break
        if score[owners.row[pair]] == 0:
            offer(near.ids, near.values, owners.owner[pair], nothing, owners.several)


@kernel
def least_score(near: List, offset: float, slack: float) -> float:
    """Return the score that a row must reach to be listed, less what rounding can change."""
    return offset - np.float64(min(near.values[-1], near.limit)) - slack


@kernel
def _score_best(query: Query, corpus: Corpus, scratch: Scratch, n_seen: int, near: List) -> None:
    """Score the rows with the largest partial scores exactly, as many as the list has places, or fewer."""
    score, most, n, least = scratch.score, len(near.ids), 0, np.float32(0)
    best, best_score = np.empty(most, np.int32), np.empty(most, np.float32)
    for row in scratch.seen[:n_seen]:
        partial = score[row]
        if partial > least:
            place = min(n, most - 1)
            n = place + 1
            while place > 0 and best_score[place - 1] < partial:
                best[place], best_score[place] = best[place - 1], best_score[place - 1]
                place -= 1
            best[place], best_score[place] = row, partial
            if n == most:
                least = best_score[-1]
    for row in best[:n]:
        score_row(query, corpus, row, near)
        score[row] = _DONE


@kernel
def score_row(query: Query, corpus: Corpus, row: int, near: List) -> None:
    """Offer the owners of a row at its exact dissimilarity."""
    indptr, indices, data = corpus.rows
    score = 0.0
    for i in range(indptr[row], indptr[row + 1]):
        score += np.float64(query.weight_of[indices[i]]) * np.float64(data[i])
    value, owners = dissimilarity(score, corpus.offset), corpus.owners
    if value <= min(near.limit, near.values[-1]):  # most are farther, and their owners need not be read
        offer_all(near.ids, near.values, owners, row, value, owners.several)


@kernel
def _all(query: Query, corpus: Corpus, score: Weights, near: List) -> None:
    """Fill a list by the scores of all rows; then offer the rows without common features."""
    start, row_of, value_of = corpus.postings
    owners, ids, values = corpus.owners, near.ids, near.values
    score[:] = 0
    for at in range(len(query.feature)):
        feature, weight = query.feature[at], np.float64(query.weight[at])
        for i in range(start[feature], start[feature + 1]):
            score[row_of[i]] += weight * np.float64(value_of[i])
    for row in range(len(score)):
        if score[row] != 0:
            value = dissimilarity(score[row], corpus.offset)
            if value <= min(values[-1], near.limit):
                offer_all(ids, values, owners, row, value, owners.several)
    offer_unlike(corpus, score, near)
