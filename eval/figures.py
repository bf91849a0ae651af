"""Figures: scores of a system with their uncertainty.

The score of a figure is a function that returns NaN for 0/0. The value of the figure is then 0, as everywhere in this
package, but `is_defined` distinguishes it from a score of 0.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from . import uncertainty
from .arrays import Brief, FloatArray, IntArray
from .contingency import Contingency
from .ratio import nan_to_zero, proportion
from .uncertainty import Comparison, Interval, Ratio, Resampling


class Method(NamedTuple):
    """The description of how the interval and the test of a figure are computed."""

    interval: str
    test: str


class Figure(ABC):
    """A score of a system (higher is better) with its uncertainty."""

    score: float
    """The score of all documents together; NaN for 0/0."""

    @property
    @abstractmethod
    def n_documents(self) -> int:
        """Number of documents."""

    @property
    def value(self) -> float:
        """The score of all documents together; 0 if it is not defined."""
        return self.score if self.is_defined else 0.0

    @property
    def is_defined(self) -> bool:
        """Whether the score is defined, that is, not 0/0."""
        return not math.isnan(self.score)

    def interval(self, how: Resampling) -> Interval | None:
        """Return the confidence interval; None with fewer than 2 documents, or for an undefined score."""
        return self._interval(how) if self.n_documents >= 2 and self.is_defined else None

    def against(self, other: Self, how: Resampling) -> Comparison | None:
        """Compare with another system on the same documents in the same order; None with fewer than 2 documents.

        Raise ValueError if the systems differ in the shape of their counts (`Summed`), or in the documents or true
        clusters of their mentions (`OfClusters`).

        >>> right, wrong = Summed(np.array([[1, 1]] * 6), proportion), Summed(np.array([[0, 1]] * 6), proportion)
        >>> right.against(wrong, Resampling())
        Comparison(difference=1.0, p_value=0.03125)
        """
        self._check_comparable(other)
        return self._comparison(other, how) if self.n_documents >= 2 else None

    @abstractmethod
    def method(self, how: Resampling) -> Method:
        """Describe how interval and comparison are computed."""

    @abstractmethod
    def _interval(self, how: Resampling) -> Interval | None: ...

    @abstractmethod
    def _check_comparable(self, other: Self) -> None: ...

    @abstractmethod
    def _comparison(self, other: Self, how: Resampling) -> Comparison: ...


@dataclass(frozen=True, eq=False, repr=False)
class Summed(Brief, Figure):
    """A score of counts that can be added over documents: accuracy, recall, F1, CoNLL F1.

    The interval is a percentile bootstrap over documents, and the comparison is approximate randomisation; see
    `eval.uncertainty`. Both assume that documents are independent draws. With few documents, the interval is too
    narrow. ``counts`` has the shape (documents, columns). ``ratio``, such as `proportion`, maps counts of shape
    (..., columns) to scores of shape (...), where NaN means that a score is not defined. Raise ValueError if ``counts``
    does not have two axes, a count is not finite, or a numerator of `proportion` exceeds its denominator.

    >>> accuracy = Summed(np.array([[3, 4], [1, 2], [5, 5]]), proportion)
    >>> round(accuracy.value, 4), accuracy.interval(Resampling())
    (0.8182, Interval(low=0.5, high=1.0))
    """

    counts: FloatArray
    ratio: Ratio
    score: float = field(init=False)

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts, np.float64)
        if counts.ndim != 2:
            raise ValueError(f"counts has shape {counts.shape}, not (documents, columns)")
        if not np.isfinite(counts).all():
            i, j = np.argwhere(~np.isfinite(counts))[0]
            raise ValueError(f"counts[{i}, {j}] is {counts[i, j]}; counts must be finite")
        if self.ratio is proportion:
            above = np.flatnonzero(counts[:, 0] > counts[:, 1] * (1 + 1e-9))  # sums of fractions are rounded
            if len(above):
                i = int(above[0])
                wrong = f"counts[{i}] has the numerator {counts[i, 0]:g} and the smaller denominator {counts[i, 1]:g}"
                raise ValueError(f"{wrong}; give each numerator before its denominator")
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "score", float(self.ratio(counts.sum(axis=0))))

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return len(self.counts)

    def _interval(self, how: Resampling) -> Interval | None:
        scores = uncertainty.bootstrap(self.counts, self.ratio, how)
        is_defined = ~np.isnan(scores)  # scores of 0/0 are left out
        return _percentiles(scores[is_defined], how.level) if is_defined.any() else None

    def _check_comparable(self, other: Self) -> None:
        if self.counts.shape != other.counts.shape:
            wrong = f"counts has shape {self.counts.shape}, but in the other system {other.counts.shape}"
            raise ValueError(f"{wrong}; give both for the same documents and columns in the same order")

    def _comparison(self, other: Self, how: Resampling) -> Comparison:
        return uncertainty.approximate_randomisation(
            self.counts, other.counts, lambda sums: nan_to_zero(self.ratio(sums)), how
        )

    def method(self, how: Resampling) -> Method:
        """Describe how interval and comparison are computed."""
        n = len(self.counts)
        is_exact = uncertainty.has_all_exchanges(n, how)
        exchanges = f"all 2^{n} exchanges" if is_exact else f"{how.n_permutations:,} random exchanges"
        # An exchange and its mirror image are equally extreme.
        too_few = ", too few for p < 0.05" if is_exact and 2 / 2**n >= 0.05 else ""
        documents = f"{n:,} document{'s' * (n != 1)}"
        return Method(f"{how.n_resamples:,} bootstrap samples of {documents}", f"{exchanges} of {documents}{too_few}")


def _percentiles(scores: FloatArray, level: float) -> Interval:
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Interval(low, high)


@dataclass(frozen=True, eq=False, repr=False)
class OfClusters(Brief, Figure):
    """A score of clusters across documents, whose counts cannot be added over documents.

    A bootstrap sample would contain some documents twice, and a mention would corefer with its copy; if clusters are
    small, this raises every score. Therefore halves of the documents are drawn without replacement. The interval is the
    value plus the quantiles of the deviations of the half-samples' scores from their mean, capped at 1. The comparison
    uses the same halves for both systems; its p-value is the share of the deviations of the difference that are at
    least as large as the difference, ``(1 + #{|deviation| >= |difference|}) / (1 + n_half_samples)``, with a tolerance
    of 1e-12.

    This assumes that documents are independent draws, and that the score varies nearly like a mean over documents. A
    half has only a quarter of the pairs of mentions across documents, so its score may differ; therefore deviations are
    taken from the mean of the halves. In simulations, 95 % intervals contained the expected score for 88 % to 95 % of
    the collections of 20 to 100 documents. With few documents, or if one entity fills most of them, they are less
    reliable.

    Make figures with `eval.cluster_lines`.
    """

    labels_true: IntArray
    """(mentions,) true cluster"""
    document: IntArray
    """(mentions,) document, from 0 without gaps"""
    score: float
    """score of all mentions, at most 1; NaN for 0/0"""
    half_scores: Callable[[Resampling], FloatArray]
    """scores of the half-samples, from `uncertainty.half_samples`"""

    @property
    def n_documents(self) -> int:
        """Number of documents with a mention."""
        return int(self.document.max(initial=-1)) + 1

    def _interval(self, how: Resampling) -> Interval:
        deviations = uncertainty.half_sample_deviations(self._half_scores(how), self.n_documents)
        low, high = _percentiles(self.value + deviations, how.level)
        return Interval(low, max(self.value, min(1.0, high)))

    def _check_comparable(self, other: Self) -> None:
        for name in ("labels_true", "document"):
            if not _is_same_partition(getattr(self, name), getattr(other, name)):
                advice = "give both the same mentions, true clusters and documents in the same order"
                raise ValueError(f"{name} differs between the systems; {advice}")

    def _comparison(self, other: Self, how: Resampling) -> Comparison:
        difference = self.value - other.value
        differences = self._half_scores(how) - other._half_scores(how)
        deviations = uncertainty.half_sample_deviations(differences, self.n_documents)
        as_extreme = int((np.abs(deviations) >= abs(difference) - 1e-12).sum())
        return Comparison(difference, (1 + as_extreme) / (1 + how.n_half_samples))

    def method(self, how: Resampling) -> Method:
        """Describe how interval and comparison are computed."""
        n = self.n_documents
        halves = f"{how.n_half_samples:,} random halves of {n:,} document{'s' * (n != 1)}"
        return Method(halves, halves)

    def _half_scores(self, how: Resampling) -> FloatArray:
        return nan_to_zero(self.half_scores(how))


def _is_same_partition(one: IntArray, other: IntArray) -> bool:
    if len(one) != len(other):
        return False
    table = Contingency.from_labels(one, other)
    return len(table.count) == len(table.row_size) == len(table.column_size)
