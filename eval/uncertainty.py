"""Uncertainty: how a score varies with the sample of documents, and whether two systems differ.

Documents are the unit of sampling, since the mentions of a document are not independent.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from .arrays import BoolArray, FloatArray

# Maps counts, (..., columns), of one or more systems or samples to their scores, (...).
Ratio: TypeAlias = Callable[[FloatArray], FloatArray]

_BLOCK = 1 << 20  # number of weights in memory at once: 8 MB as float64


@dataclass(frozen=True, slots=True)
class Resampling:
    """Settings of intervals and tests; reports print them.

    Raise ValueError if a number of samples is below 1, the seed is negative, or the level is not between 0 and 1, and
    TypeError if a number of samples or the seed is not an integer.
    """

    n_resamples: int = 1000  # number of bootstrap samples of a score whose counts can be added
    n_permutations: int = 10_000  # number of random exchanges; if there are no more than this in all, each is used once
    n_half_samples: int = 500  # number of half-samples of the documents; each counts half the mentions
    level: float = 0.95  # confidence level of intervals, between 0 and 1
    seed: int = 0  # seed of all random draws

    def __post_init__(self) -> None:
        for name, least in (("n_resamples", 1), ("n_permutations", 1), ("n_half_samples", 1), ("seed", 0)):
            if not isinstance(getattr(self, name), int):
                raise TypeError(f"{name}={getattr(self, name)!r} must be an integer")
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")
        if not 0 < self.level < 1:
            raise ValueError(f"level={self.level} is not between 0 and 1; write 0.95 for 95 %")


class Interval(NamedTuple):
    """The confidence interval of a score."""

    low: float
    high: float


class Comparison(NamedTuple):
    """The comparison of two systems on the same documents."""

    difference: float  # the score of this system minus the score of the other, above 0 if this system is better
    p_value: float  # two-sided: the probability of a difference at least as large by chance


def bootstrap(counts: FloatArray, ratio: Ratio, how: Resampling) -> FloatArray:
    """Return the scores of samples of the documents, drawn with replacement and as large as the collection.

    ``counts`` has the shape (documents, columns), and ``ratio`` computes a score from their sums. The result has the
    shape (n_resamples,). A sample is a vector of weights that says how often each document is drawn; many vectors times
    the counts are one matrix product. O(n_resamples x documents) time, bounded memory. Samples are drawn one after the
    other, so the result does not depend on the size of a block. Source: Efron 1979, Bootstrap methods: another look at
    the jackknife, Annals of Statistics 7.

    >>> counts = np.array([[1.0, 1.0], [0.0, 1.0]])
    >>> sorted(set(bootstrap(counts, lambda sums: sums[..., 0] / sums[..., 1], Resampling()).tolist()))
    [0.0, 0.5, 1.0]
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
    ``(1 + #{|d*| >= |d|}) / (1 + n_permutations)``. Counts are added in a different order for each exchange, so a
    ``|d*|`` at most 1e-12 below ``|d|`` counts as equal. The counts of both systems have the shape (documents,
    columns), and ``ratio`` computes a score from their sums. O(n_permutations x documents) time, bounded memory.

    Source: Noreen 1989, Computer-intensive methods for testing hypotheses; Yeh 2000, More accurate tests for the
    statistical significance of result differences, https://aclanthology.org/C00-2137.

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
    is ``s^2 / n``, the variance of the mean of all n documents over collections. So the deviations of the half-samples
    from their mean are those of the full score; for odd n they are scaled by ``sqrt(m / (n - m))``.

    Source: McCarthy 1969, Pseudo-replication: half samples, Review of the International Statistical Institute 37; Wu
    1990, On the asymptotic properties of the jackknife histogram, Annals of Statistics 18.
    """
    n_drawn = n_documents // 2
    return (scores - float(scores.mean())) * math.sqrt(n_drawn / (n_documents - n_drawn))
