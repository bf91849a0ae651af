"""Figures: scores of a system with their uncertainty.

A score is NaN for 0/0; the value of the figure is then 0, as everywhere in this package. How a score varies, and
whether two systems differ, is estimated by sampling documents, since the mentions of a document are not independent.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from .arrays import BoolArray, Brief, FloatArray, IntArray
from .ratio import nan_to_zero

# Maps counts, (..., columns), of one or more systems or samples to their scores, (...).
Ratio: TypeAlias = Callable[[FloatArray], FloatArray]

_BLOCK = 1 << 20  # number of weights in memory at once: 8 MB as float64


@dataclass(frozen=True, slots=True)
class Resampling:
    """Settings of intervals and tests; reports print them."""

    n_resamples: int = 1000  # number of bootstrap samples of a score whose counts can be added
    n_permutations: int = 10_000  # number of random exchanges; if there are no more than this in all, each is used once
    n_half_samples: int = 500  # number of half-samples of the documents; each counts half the mentions
    level: float = 0.95  # confidence level of intervals, between 0 and 1
    seed: int = 0  # seed of all random draws


class Interval(NamedTuple):
    """The confidence interval of a score."""

    low: float
    high: float


class Comparison(NamedTuple):
    """The comparison of two systems on the same documents."""

    difference: float  # the score of this system minus the score of the other, above 0 if this system is better
    p_value: float  # two-sided: the probability of a difference at least as large by chance


class Figure(Brief, ABC):
    """A score of a system (higher is better) with its uncertainty."""

    score: float  # of all documents together; NaN for 0/0
    n_documents: int

    @property
    def value(self) -> float:
        """The score of all documents together; 0 if it is not defined."""
        return self.score if self.is_defined else 0.0

    @property
    def is_defined(self) -> bool:
        """Whether the score is defined, that is, not 0/0."""
        return not math.isnan(self.score)

    @abstractmethod
    def interval(self, how: Resampling) -> Interval | None:
        """Return the confidence interval; None with fewer than 2 documents, or for an undefined score."""

    @abstractmethod
    def against(self, other: Self, how: Resampling) -> Comparison | None:
        """Compare with another system; None with fewer than 2 documents, ValueError for other documents."""

    @abstractmethod
    def method(self, how: Resampling) -> dict[str, str]:
        """Describe how the ``interval`` and the ``test`` of `against` are computed, ready for JSON."""


@dataclass(frozen=True, eq=False, repr=False)
class Summed(Figure):
    """A score of counts that can be added over documents: accuracy, recall, F1, CoNLL F1.

    The interval is a percentile `bootstrap` over documents, and the comparison is `approximate_randomisation`. Both
    assume that documents are independent draws. With few documents, the interval is too narrow. ``counts`` has the
    shape (documents, columns). ``ratio``, such as `proportion`, maps counts of shape (..., columns) to scores of shape
    (...), NaN for an undefined one. Raise ValueError if ``counts`` does not have two axes, or a count is not finite.

    >>> from eval import proportion
    >>> accuracy = Summed(np.array([[3, 4], [1, 2], [5, 5]]), proportion)
    >>> round(accuracy.value, 4), accuracy.interval(Resampling())
    (0.8182, Interval(low=0.5, high=1.0))
    >>> right, wrong = Summed(np.array([[1, 1]] * 6), proportion), Summed(np.array([[0, 1]] * 6), proportion)
    >>> right.against(wrong, Resampling())
    Comparison(difference=1.0, p_value=0.03125)
    """

    counts: FloatArray
    ratio: Ratio
    score: float = field(init=False)
    n_documents: int = field(init=False)

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts, np.float64)
        if counts.ndim != 2:
            raise ValueError(f"counts has shape {counts.shape}, not (documents, columns)")
        if not np.isfinite(counts).all():
            i, j = np.argwhere(~np.isfinite(counts))[0]
            raise ValueError(f"counts[{i}, {j}] is {counts[i, j]}; counts must be finite")
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "score", float(self.ratio(counts.sum(axis=0))))
        object.__setattr__(self, "n_documents", len(counts))

    def interval(self, how: Resampling) -> Interval | None:
        """Return the percentiles of the samples whose score is defined."""
        if self.n_documents < 2 or not self.is_defined:
            return None
        scores = bootstrap(self.counts, self.ratio, how)
        is_defined = ~np.isnan(scores)
        return _percentiles(scores[is_defined], how.level) if is_defined.any() else None

    def against(self, other: Self, how: Resampling) -> Comparison | None:
        """Compare by `approximate_randomisation`."""
        if self.counts.shape != other.counts.shape:
            wrong = f"counts has shape {self.counts.shape}, but in the other system {other.counts.shape}"
            raise ValueError(f"{wrong}; give both for the same documents and columns in the same order")
        if self.n_documents < 2:
            return None
        return approximate_randomisation(self.counts, other.counts, lambda sums: nan_to_zero(self.ratio(sums)), how)

    def method(self, how: Resampling) -> dict[str, str]:
        """Describe how interval and comparison are computed."""
        n = self.n_documents
        is_exact = has_all_exchanges(n, how)
        exchanges = f"all 2^{n} exchanges" if is_exact else f"{how.n_permutations:,} random exchanges"
        # An exchange and its mirror image are equally extreme.
        too_few = ", too few for p < 0.05" if is_exact and 2 / 2**n >= 0.05 else ""
        documents = f"{n:,} document{'s' * (n != 1)}"
        samples = f"{how.n_resamples:,} bootstrap samples of {documents}"
        return {"interval": samples, "test": f"{exchanges} of {documents}{too_few}"}


def _percentiles(scores: FloatArray, level: float) -> Interval:
    return Interval(*np.quantile(scores, [(1 - level) / 2, (1 + level) / 2]).tolist())


@dataclass(frozen=True, eq=False, repr=False)
class OfClusters(Figure):
    """A score of clusters across documents, whose counts cannot be added over documents.

    A bootstrap sample would contain some documents twice, and a mention would corefer with its copy. Therefore halves
    of the documents are drawn without replacement. The interval is the value plus the quantiles of the deviations of
    the half-samples' scores from their mean, capped at 1. The comparison uses the same halves for both systems; its
    p-value is the share of the deviations of the difference that are at least as large as the difference,
    ``(1 + #{|deviation| >= |difference|}) / (1 + n_half_samples)``, with a tolerance of 1e-12. In simulations, 95 %
    intervals contained the expected score for 88 % to 95 % of the collections of 20 to 100 documents. With few
    documents, or if one entity fills most of them, they are less reliable. `eval.cluster_lines` makes such figures.
    """

    labels_true: IntArray  # (mentions,) true cluster
    document: IntArray  # (mentions,) document, from 0 without gaps
    n_documents: int  # number of documents with a mention
    score: float  # score of all mentions, at most 1; NaN for 0/0
    half_scores: Callable[[Resampling], FloatArray]  # scores of the half-samples, from `half_samples`; 0 for 0/0

    def interval(self, how: Resampling) -> Interval | None:
        """Return the percentiles of the deviations around the score."""
        if self.n_documents < 2 or not self.is_defined:
            return None
        deviations = half_sample_deviations(self.half_scores(how), self.n_documents)
        low, high = _percentiles(self.value + deviations, how.level)
        return Interval(low, max(self.value, min(1.0, high)))

    def against(self, other: Self, how: Resampling) -> Comparison | None:
        """Compare by the scores of the same halves."""
        for name in ("labels_true", "document"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                advice = "give both the same mentions, true clusters and documents in the same order"
                raise ValueError(f"{name} differs between the systems; {advice}")
        if self.n_documents < 2:
            return None
        difference = self.value - other.value
        deviations = half_sample_deviations(self.half_scores(how) - other.half_scores(how), self.n_documents)
        as_extreme = int((np.abs(deviations) >= abs(difference) - 1e-12).sum())
        return Comparison(difference, (1 + as_extreme) / (1 + how.n_half_samples))

    def method(self, how: Resampling) -> dict[str, str]:
        """Describe how interval and comparison are computed."""
        n = self.n_documents
        halves = f"{how.n_half_samples:,} random halves of {n:,} document{'s' * (n != 1)}"
        return {"interval": halves, "test": halves}


def bootstrap(counts: FloatArray, ratio: Ratio, how: Resampling) -> FloatArray:
    """Return the scores of samples of the documents, drawn with replacement and as large as the collection.

    ``counts`` has the shape (documents, columns), and ``ratio`` computes a score from their sums. The result has the
    shape (n_resamples,). O(n_resamples x documents) time, bounded memory. Source: Efron 1979, Bootstrap methods:
    another look at the jackknife, Annals of Statistics 7.
    """
    n, rng = len(counts), np.random.default_rng(how.seed)

    def sums(n_samples: int) -> FloatArray:
        drawn = rng.integers(n, size=(n_samples, n)) + n * np.arange(n_samples)[:, None]
        return np.bincount(drawn.ravel(), minlength=n_samples * n).reshape(n_samples, n) @ counts

    return np.concatenate([ratio(sums(size)) for size in _blocks(how.n_resamples, n)])


def approximate_randomisation(counts: FloatArray, other: FloatArray, ratio: Ratio, how: Resampling) -> Comparison:
    """Compare two systems by exchanging their counts, document by document, as if they were the same system.

    Each exchange of some documents gives a difference ``d*``. If ``d`` is the observed difference, the p-value is the
    share of exchanges with ``|d*| >= |d|``. If there are at most `n_permutations` exchanges, all ``2^documents`` are
    used. Otherwise `n_permutations` random ones are used, and the observed difference counts as one more:
    ``(1 + #{|d*| >= |d|}) / (1 + n_permutations)``. A ``|d*|`` at most 1e-12 below ``|d|`` counts as equal, as sums are
    rounded. Arguments, time and memory are as in `bootstrap`. Source: Noreen 1989, Computer-intensive methods for
    testing hypotheses; Yeh 2000, More accurate tests for the statistical significance of result differences,
    https://aclanthology.org/C00-2137.

    If one system is right in all of four documents and the other in none, 2 of 16 exchanges are as extreme:

    >>> one, other = np.array([[1.0, 1.0]] * 4), np.array([[0.0, 1.0]] * 4)
    >>> approximate_randomisation(one, other, lambda sums: sums[..., 0] / sums[..., 1], Resampling())
    Comparison(difference=1.0, p_value=0.125)
    """
    n, rng = len(counts), np.random.default_rng(how.seed)
    ours, theirs, gain = counts.sum(axis=0), other.sum(axis=0), other - counts
    observed = float(ratio(ours) - ratio(theirs))
    is_exact = has_all_exchanges(n, how)
    n_exchanges = 2**n if is_exact else how.n_permutations
    as_extreme = first = 0
    for size in _blocks(n_exchanges, n):
        if is_exact:
            numbers = np.arange(first, first + size, dtype=np.uint64)[:, None]
        else:  # each exchange starts a new word, so that results do not depend on blocks
            numbers = rng.integers(2**64 - 1, size=(size, -(-n // 64)), dtype=np.uint64, endpoint=True)
        exchanged = np.unpackbits(numbers.view(np.uint8), axis=1, count=n, bitorder="little").astype(np.float64)
        moved = exchanged @ gain
        difference = ratio(ours + moved) - ratio(theirs - moved)
        as_extreme += int((np.abs(difference) >= abs(observed) - 1e-12).sum())
        first += size
    return Comparison(observed, as_extreme / n_exchanges if is_exact else (1 + as_extreme) / (1 + n_exchanges))


def has_all_exchanges(n_documents: int, how: Resampling) -> bool:
    """Return whether approximate randomisation uses all ``2^n_documents`` exchanges, and is exact."""
    return n_documents < how.n_permutations.bit_length()


def _blocks(n_rows: int, n_columns: int) -> Iterator[int]:
    """Yield the sizes of the blocks of rows in memory at once."""
    step = max(1, _BLOCK // max(1, n_columns))
    return (min(step, n_rows - first) for first in range(0, n_rows, step))


def half_samples(n_documents: int, how: Resampling) -> BoolArray:
    """Return random samples of half the documents, rounded down, as masks of shape (samples, documents)."""
    rng = np.random.default_rng(how.seed)
    halves = np.zeros((how.n_half_samples, n_documents), np.bool_)
    for half in halves:
        half[rng.permutation(n_documents)[: n_documents // 2]] = True
    return halves


def half_sample_deviations(scores: FloatArray, n_documents: int) -> FloatArray:
    """Estimate the deviations of a score of all documents from its mean, from scores of half-samples.

    The mean of m of n documents, drawn without replacement, has the variance ``s^2 / m (1 - m / n)``; for a half this
    is ``s^2 / n``, that of the mean of all n documents over collections; for odd n, deviations are scaled by
    ``sqrt(m / (n - m))``. Source: McCarthy 1969, Pseudo-replication: half samples, Review of the International
    Statistical Institute 37; Wu 1990, On the asymptotic properties of the jackknife histogram, Annals of Statistics 18.
    """
    n_drawn = n_documents // 2
    return (scores - float(scores.mean())) * math.sqrt(n_drawn / (n_documents - n_drawn))
