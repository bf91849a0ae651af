"""Late interaction: compare things token by token, matching each token of the query with its best counterpart.

The score is the sum of maxima, SOM (Zhang and Stratos 2021; equation 6 of Cai et al. 2023; the MaxSim of ColBERT,
Khattab and Zaharia 2020)::

    f(q, t) = sum over the tokens a of q of max over the tokens b of t of <a, b>

The sum is over the tokens of the query (in entity linking, the mention), so ``f`` is not symmetric. It grows with their
number, so it can only rank the things of one query. To compare queries of different lengths, dissimilarities use the
mean ``f / n``, where ``n`` is the number of the query's tokens.

Scores have a fixed order of summation, so they are the same on every machine, for any batches and threads. A search
scores all things, or only candidates that pooled vectors propose; `clustering.comparison.measured_recall` measures how
many neighbours the candidates contain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .arrays import Floats, Ids, Weights, pairs_of, ranges
from .dense_search import Scanner, faiss_scanner
from .index import is_below, is_start
from .kernels import in_parallel, kernel
from .knn import Limit, Neighbors, check_products, check_queries, check_wanted, checked_pairs, lists_of, merged, nearest
from .progress import Progress, silent
from .search import Lists, check_metric
from .vectors import Metric, Vectors, dissimilarities, lengths, offset_of, unit

_PAIRS = 1 << 16  # number of pairs of a query and a thing in memory at once
_SHARE = 256  # number of pairs that a thread scores at a time


@dataclass(frozen=True, eq=False, slots=True)
class TokenMatrices:
    """``n`` things, their texts, and the token vectors of the texts; things can share a text.

    A thing is a mention or an entity. Text ``r`` has the tokens ``matrix[indptr[r] : indptr[r + 1]]``, possibly none.
    Text ``row[i]`` belongs to thing ``owner[i]``, in the order of owners, as in `Vectors`.
    """

    matrix: Floats  # (tokens, dim) float32, finite
    indptr: Ids  # (texts + 1,) int64
    row: Ids
    owner: Ids
    n: int

    def __len__(self) -> int:
        return self.n

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Make token matrices from the `arrays` of others; the token vectors are neither copied nor read.

        Raise KeyError if an array is missing, and ValueError if the arrays do not fit together.
        """
        matrix, indptr, row, owner = parts = tuple(arrays[name] for name in ("matrix", "indptr", "row", "owner"))
        n, kinds = int(arrays["n"]), [(part.ndim, part.dtype.kind) for part in parts]
        if (
            kinds != [(2, "f"), (1, "i"), (1, "i"), (1, "i")]
            or not is_start(indptr, len(indptr) - 1, len(matrix))
            or len(row) != len(owner)
            or not (is_below(row, len(indptr) - 1) and is_below(owner, n) and (np.diff(owner) >= 0).all())
        ):
            raise ValueError("the parts of the token vectors are of other sizes or types")
        return cls(matrix, indptr, row, owner, n)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all parts as named arrays, from which `from_arrays` makes equal token matrices."""
        return {name: getattr(self, name) for name in ("matrix", "indptr", "row", "owner")} | {"n": np.array(self.n)}

    def check(self) -> None:
        """Read all token vectors; raise ValueError if one is not finite."""
        if not np.isfinite(self.matrix).all():
            raise ValueError("a vector has a value that is not finite")

    def taken(self, things: Ids) -> Self:
        """Return only these things with their texts, renumbered in this order."""
        if np.array_equal(things, np.arange(self.n)):
            return self
        pair, owner = pairs_of(self.owner, things)
        used, row = np.unique(self.row[pair], return_inverse=True)
        count = np.diff(self.indptr)[used]
        matrix = self.matrix[ranges(self.indptr[used], count)]
        return type(self)(matrix, np.concatenate([[0], np.cumsum(count)]), row.astype(np.int32), owner, len(things))

    def normalized(self) -> Self:
        """Return a copy with token vectors of length 1; zero vectors are kept."""
        return type(self)(unit(self.matrix), self.indptr, self.row, self.owner, self.n)

    def pooled(self) -> Vectors:
        """Return the mean of the token vectors of each text; zeros for a text without tokens.

        The inner product of two means is the mean inner product of their tokens, the score *Pooling Mean* of Cai
        et al. 2023 (equation 5).
        """
        means = Vectors.of(_means(self.matrix, self.indptr))
        return Vectors(means.matrix, means.row[self.row], self.owner, self.n)


def late_dissimilarity(
    queries: TokenMatrices, corpus: TokenMatrices, query: Ids, thing: Ids, *, metric: Metric = "cosine"
) -> Floats:
    """Return the dissimilarity, in float32, of each pair of query ``query[i]`` and thing ``thing[i]`` of the corpus.

    It is 1 (for cosine, with all tokens `normalized`) or 0 (for the inner product) minus the mean over the query's
    tokens of their maxima, which is that of the best text of the thing; the mean is 0 for a text without tokens. It is
    infinity for a thing without texts. Raise ValueError if dimensions differ, a query does not have exactly one text,
    pairs are out of range, or scores are too large for float32.

    >>> text = TokenMatrices(np.float32([[3, 4]]), np.array([0, 1]), np.array([0]), np.array([0]), 1)
    >>> [late_dissimilarity(text, text, [0], [0], metric=metric).tolist() for metric in ("cosine", "dot")]
    [[0.0], [-25.0]]
    """
    _check(queries, corpus, metric)
    query, thing = checked_pairs(query, thing, queries.n, corpus.n)
    queries, query = _used(queries, query)
    corpus, thing = _used(corpus, thing)
    return _dissimilarity(*_comparable(queries, corpus, metric), query, thing, metric)


def late_nearest(
    queries: TokenMatrices,
    corpus: TokenMatrices,
    k: int,
    *,
    n_candidates: int | None,
    metric: Metric = "cosine",
    scanner: Scanner = faiss_scanner,
    self_ids: Ids | None = None,
    within: Limit = None,
    progress: Progress = silent,
) -> Neighbors:
    """Return the ``k`` nearest things of the corpus for each query, in two stages; see `clustering.knn.nearest`.

    The first stage proposes the ``n_candidates`` things nearest by `TokenMatrices.pooled` (one more with ``self_ids``);
    ``scanner`` applies to it. If ``n_candidates`` is None, or at least the size of the corpus, all things
    are scored, which is exact. The second stage compares the things token by token, see `late_dissimilarity`;
    ``progress`` counts its chunks of queries. The errors are those of `late_dissimilarity` and of the first stage.

    >>> tokens = np.float32([[1, 0], [0, 1], [0.6, 0.8], [0.8, 0.6]])
    >>> texts = TokenMatrices(tokens, np.array([0, 2, 3, 4]), np.arange(3), np.arange(3), 3)
    >>> late_nearest(texts, texts, 1, n_candidates=None, self_ids=np.arange(3)).ids.ravel().tolist()
    [1, 2, 1]
    """
    _check(queries, corpus, metric)
    check_wanted(k, self_ids, queries.n)
    queries, corpus = _comparable(queries, corpus, metric)

    def fill(rows: Ids, lists: Lists) -> None:
        distinct = replace(queries, row=rows, owner=np.arange(len(rows), dtype=np.int32), n=len(rows))
        candidates: Ids = np.broadcast_to(np.arange(corpus.n, dtype=np.int32), (len(rows), corpus.n))
        if n_candidates is not None and n_candidates < corpus.n:
            width = n_candidates + (self_ids is not None)
            pooled = distinct.pooled(), corpus.pooled()
            candidates = nearest(*pooled, width, metric=metric, scanner=scanner).ids
        step = max(1, _PAIRS // max(1, candidates.shape[1]))
        begins = range(0, len(rows), step)
        for begin in progress(begins, len(begins)):
            chunk = slice(begin, begin + step)
            best = _best(distinct, corpus, begin, candidates[chunk], lists.ids.shape[1], metric)
            taken = chunk, slice(best.ids.shape[1])
            lists.ids[taken], lists.dissimilarity[taken] = best

    return lists_of(queries.row, k, corpus.n, self_ids, within, fill)


def _used(things: TokenMatrices, places: Ids) -> tuple[TokenMatrices, Ids]:
    """Return the distinct requested things, and the index of each request among them."""
    used, place = np.unique(places, return_inverse=True)
    return things.taken(used), place


def _comparable(queries: TokenMatrices, corpus: TokenMatrices, metric: Metric) -> tuple[TokenMatrices, TokenMatrices]:
    """Return the tokens, scaled so that inner products are similarities."""
    if metric == "dot":
        return queries, corpus
    scaled = corpus.normalized()
    return (scaled if queries is corpus else queries.normalized()), scaled


def _best(
    queries: TokenMatrices, corpus: TokenMatrices, begin: int, candidates: Ids, k: int, metric: Metric
) -> Neighbors:
    """Return the best ``k`` candidates of some queries, ignoring -1; (queries, at most k)."""
    is_there = candidates >= 0
    dissimilarity = np.full(candidates.shape, np.inf, np.float32)
    query = begin + np.nonzero(is_there)[0]
    dissimilarity[is_there] = _dissimilarity(queries, corpus, query, candidates[is_there], metric)
    ids = np.where(np.isfinite(dissimilarity), candidates, -1)
    return merged([Neighbors(ids, dissimilarity)], k)


def _dissimilarity(queries: TokenMatrices, corpus: TokenMatrices, query: Ids, thing: Ids, metric: Metric) -> Floats:
    n_tokens = np.diff(queries.indptr)[queries.row[query]]
    return dissimilarities(_scores(queries, corpus, query, thing) / np.maximum(n_tokens, 1), offset_of(metric))


def _scores(queries: TokenMatrices, corpus: TokenMatrices, query: Ids, thing: Ids) -> Floats:
    """Return the sum of maxima of each pair, in float32; minus infinity for a thing without texts.

    Sums are in float64, in the order of dimensions, then of the query's tokens. Besides the result, the tokens of one
    query per thread are in memory. Scoring is fastest if the pairs of a query are adjacent.
    """
    score = np.empty(len(query), np.float32)
    text = queries.row[query]
    query_tokens, corpus_tokens = (_Tokens(things.matrix, things.indptr) for things in (queries, corpus))
    first, end = (np.searchsorted(corpus.owner, thing, side) for side in ("left", "right"))

    def fill(begin: int) -> None:
        some = slice(begin, begin + _SHARE)
        _score_pairs(query_tokens, text[some], corpus_tokens, corpus.row, first[some], end[some], score[some])

    in_parallel(fill, range(0, len(query), _SHARE))
    return score


class _Tokens(NamedTuple):
    matrix: Floats
    indptr: Ids


@kernel
def _score_pairs(
    queries: _Tokens, query_text: Ids, corpus: _Tokens, row: Ids, first: Ids, end: Ids, score: Floats
) -> None:
    """Score the text of a query with the texts of a thing, ``row[first[p] : end[p]]``, for each pair ``p``."""
    last, columns = -1, _columns(queries.matrix[:0])
    for p in range(len(score)):
        if query_text[p] != last:
            last = query_text[p]
            columns = _columns(queries.matrix[queries.indptr[last] : queries.indptr[last + 1]])
        score[p] = -np.inf
        for text in row[first[p] : end[p]]:
            tokens = corpus.matrix[corpus.indptr[text] : corpus.indptr[text + 1]]
            score[p] = max(score[p], np.float32(_sum_of_max(columns, tokens)))


@kernel
def _columns(tokens: Floats) -> Weights:
    """Turn token vectors into columns, so that a CPU can multiply several at a time."""
    columns = np.empty((tokens.shape[1], tokens.shape[0]), np.float64)
    for i in range(tokens.shape[0]):
        for j in range(tokens.shape[1]):
            columns[j, i] = tokens[i, j]
    return columns


@kernel
def _sum_of_max(columns: Weights, tokens: Floats) -> float:
    """Score one text, whose tokens are columns, with another; products are summed as `clustering.vectors.dot` does."""
    if len(tokens) == 0:
        return 0.0
    product = np.empty(columns.shape[1], np.float64)
    best = np.full(columns.shape[1], -np.inf)
    for token in tokens:
        product[:] = 0
        for j in range(len(token)):
            weight = np.float64(token[j])
            for i in range(len(product)):
                product[i] += columns[j, i] * weight
        for i in range(len(product)):
            best[i] = max(best[i], product[i])
    total = 0.0
    for value in best:
        total += value
    return total


@kernel
def _means(matrix: Floats, indptr: Ids) -> Floats:
    mean = np.zeros((len(indptr) - 1, matrix.shape[1]), np.float32)
    total = np.empty(matrix.shape[1], np.float64)
    for r in range(len(mean)):
        total[:] = 0
        for token in matrix[indptr[r] : indptr[r + 1]]:
            total += token
        mean[r] = total / max(1, indptr[r + 1] - indptr[r])
    return mean


def _check(queries: TokenMatrices, corpus: TokenMatrices, metric: Metric) -> None:
    check_metric(metric)
    check_queries(queries.matrix, corpus.matrix.shape[1], queries.owner, queries.n, "text")
    longest = lengths(corpus.matrix).max(initial=0)
    check_products(queries.matrix, longest, metric, most=int(np.diff(queries.indptr).max(initial=0)))
