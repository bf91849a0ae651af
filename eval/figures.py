"""Figures: scores of a system that know how uncertain they are, and the lines of a report made from them.

A figure is scored by a function that answers NaN where there is nothing to divide by. Its value is 0 then, as
everywhere in this package, but `is_defined` tells it from a score of 0.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from eval.arrays import FloatArray
from eval.clustering import adjusted_rand_from_pairs, pair_counts_from_contingency
from eval.contingency import Contingency
from eval.coreference import METRICS, Counts, Metric
from eval.labels import IntArray, Labels, encode_labels
from eval.uncertainty import (
    Comparison,
    Interval,
    Ratio,
    Resampling,
    approximate_randomisation,
    bootstrap,
    half_sample_deviations,
    half_samples,
    has_all_exchanges,
)

ClusterScore: TypeAlias = Callable[[Contingency], float]


class Method(NamedTuple):
    """How a figure's uncertainty is found, in words."""

    interval: str
    test: str


class Figure(Protocol):
    """One score of one system, larger where better, that knows its uncertainty."""

    @property
    def value(self) -> float:
        """The score; 0 where it is not defined."""

    @property
    def is_defined(self) -> bool:
        """Whether there was anything to divide by."""

    @property
    def n_documents(self) -> int:
        """The documents that it is over."""

    def interval(self, how: Resampling) -> Interval | None:
        """Return where the score is expected to lie; None with fewer than 2 documents, or where it is not defined."""

    def against(self, other: Self, how: Resampling) -> Comparison | None:
        """Compare with another system on the same documents; None with fewer than 2."""

    def method(self, how: Resampling) -> Method:
        """Say how interval and comparison are found."""


class _Scored:
    """A figure whose score is NaN where there is nothing to divide by."""

    @cached_property
    def _score(self) -> float:
        raise NotImplementedError

    @property
    def value(self) -> float:
        """The score of all documents together; 0 where it is not defined."""
        return self._score if self.is_defined else 0.0

    @property
    def is_defined(self) -> bool:
        """Whether there was anything to divide by."""
        return not math.isnan(self._score)


# Scores whose counts add over documents ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Summed(_Scored):
    """A score of counts that add over documents: accuracy, recall, F1, CoNLL F1.

    The interval is that of the percentile bootstrap over documents, the comparison approximate randomisation; see
    `eval.uncertainty`. Both take documents for independent draws. With a handful of documents the interval is too
    narrow, as there is little to draw from.

    Args:
        counts: (documents, columns) what is counted in each document.
        ratio: the score of added counts, from shape (..., columns) to (...); NaN where it is not defined.

    Raises:
        ValueError: the counts have another number of axes, one is not finite, or a `proportion` has a part that exceeds
            the whole.

    >>> accuracy = Summed(np.array([[3, 4], [1, 2], [5, 5]]), proportion)
    >>> round(accuracy.value, 4), accuracy.interval(Resampling())
    (0.8182, Interval(low=0.5, high=1.0))

    """

    counts: FloatArray
    ratio: Ratio

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts, np.float64)
        if counts.ndim != 2:
            raise ValueError(f"counts has shape {counts.shape}, not (documents, columns)")
        if not np.isfinite(counts).all():
            i, j = np.argwhere(~np.isfinite(counts))[0]
            raise ValueError(f"counts holds {counts[i, j]} in column {j} of document {i}; counts are finite")
        if self.ratio is proportion:
            _check_parts(counts)
        object.__setattr__(self, "counts", counts)

    @cached_property
    def _score(self) -> float:
        return float(self.ratio(self.counts.sum(axis=0)))

    @property
    def n_documents(self) -> int:
        """The documents that it is over."""
        return len(self.counts)

    def interval(self, how: Resampling) -> Interval | None:
        """Return the percentile bootstrap interval; None as for any figure, and where no sample is defined.

        Samples that are not defined are left out: 0/0 says nothing of how the score varies.
        """
        if len(self.counts) < 2 or not self.is_defined:
            return None
        scores = bootstrap(self.counts, self.ratio, how)
        is_defined = ~np.isnan(scores)
        return _percentiles(scores[is_defined], how.level) if is_defined.any() else None

    def against(self, other: Self, how: Resampling) -> Comparison | None:
        """Compare with another system on the same documents in the same order; None with fewer than 2.

        ValueError where the other system has another number of documents or columns.

        >>> right, wrong = Summed(np.array([[1, 1]] * 6), proportion), Summed(np.array([[0, 1]] * 6), proportion)
        >>> right.against(wrong, Resampling())
        Comparison(difference=1.0, p_value=0.03125)
        """
        if self.counts.shape != other.counts.shape:
            raise ValueError(
                f"counts has shape {self.counts.shape}, that of the other system {other.counts.shape}; "
                "give both for the same documents in the same order"
            )
        if len(self.counts) < 2:
            return None
        return approximate_randomisation(self.counts, other.counts, self._ratio, how)

    def method(self, how: Resampling) -> Method:
        """Say how interval and comparison are found."""
        n = len(self.counts)
        is_exact = has_all_exchanges(n, how)
        exchanges = f"all 2^{n} exchanges" if is_exact else f"{how.n_permutations:,} random exchanges"
        # An exchange and its mirror image are equally extreme.
        too_few = ", too few for p < 0.05" if is_exact and 2 / 2**n >= 0.05 else ""
        documents = f"{n:,} document{'s' * (n != 1)}"
        return Method(f"{how.n_resamples:,} bootstrap samples of {documents}", f"{exchanges} of {documents}{too_few}")

    def _ratio(self, counts: FloatArray) -> FloatArray:
        return _nan_to_zero(self.ratio(counts))


def proportion(counts: FloatArray) -> FloatArray:
    """Return the first column as a share of the second: accuracy, recall, precision.

    >>> proportion(np.array([[3, 4], [0, 0]]))
    array([0.75,  nan])
    """
    return _divide(counts[..., 0], counts[..., 1])


def _check_parts(counts: FloatArray) -> None:
    is_above = counts[:, 0] > counts[:, 1] * (1 + 1e-9)  # sums of fractions round
    if is_above.any():
        i = int(np.argmax(is_above))
        raise ValueError(
            f"counts has {counts[i, 0]:g} out of {counts[i, 1]:g} in document {i}; give each numerator before its "
            "denominator"
        )


def f_measure(counts: FloatArray) -> FloatArray:
    """Return F1 from numerator and denominator of recall, then of precision; NaN where both are 0/0.

    It is the harmonic mean of recall and precision: van Rijsbergen 1979, Information retrieval, chapter 7.

    >>> f_measure(np.array([[1, 2, 1, 1], [0, 2, 0, 0], [0, 0, 0, 0]]))
    array([0.66666667, 0.        ,        nan])
    """
    recall, precision = proportion(counts[..., :2]), proportion(counts[..., 2:])
    known = ~(np.isnan(recall) & np.isnan(precision))
    recall, precision = _nan_to_zero(recall), _nan_to_zero(precision)
    f1 = _nan_to_zero(_divide(2 * recall * precision, recall + precision))
    return np.where(known, f1, np.nan)


def _divide(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    quotient = np.full(np.shape(denominator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator != 0)
    return quotient


def _mean(scores: FloatArray) -> FloatArray:
    """Mean over the last axis, where NaN counts as 0; NaN where nothing else is."""
    return np.where(np.isnan(scores).all(axis=-1), np.nan, _nan_to_zero(scores).mean(axis=-1))


def _nan_to_zero(scores: FloatArray) -> FloatArray:
    return np.where(np.isnan(scores), 0.0, scores)


def _percentiles(scores: FloatArray, level: float) -> Interval:
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Interval(low, high)


# Scores of clusters that reach across documents ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OfClusters(_Scored):
    """A score of clusters that reach across documents, so that no counts of documents add.

    A bootstrap sample would hold some documents twice, and the copies of a mention would corefer with themselves: where
    clusters are small, that raises every score. So documents are drawn without replacement, half of them at a time: the
    interval is the value plus the quantiles of the deviations of the half-samples' scores from their mean, at most 1;
    the comparison takes the same halves for both systems, and its p-value is the share of deviations of their
    difference, ``(1 + #{|deviation| >= |difference|}) / (1 + n_half_samples)``, those below by no more than 1e-12 taken
    for equal.

    This assumes that documents are independent draws, and that the score varies nearly like a mean over documents. A
    half holds a quarter of the pairs of mentions across documents, so that its scores may lie elsewhere: therefore
    deviations from their own mean. Simulated intervals at 95 % held the expected score in 88 % to 95 % of the
    collections of 20 to 100 documents; where documents are a handful, or one entity fills most of them, trust them
    less.

    A half-sample costs as much as the score of half the mentions.

    Args:
        labels_true: (mentions,) the true cluster of each mention.
        labels_pred: (mentions,) the predicted one.
        document: (mentions,) its document.
        score: the score of two clusterings, at most 1; NaN where it is not defined.

    Raises:
        ValueError: the lengths differ, or a label is missing (NaN or None).
        TypeError: a label cannot be hashed.

    """

    labels_true: IntArray
    labels_pred: IntArray
    document: IntArray
    score: ClusterScore

    def __post_init__(self) -> None:
        for name in ("labels_true", "labels_pred", "document"):
            object.__setattr__(self, name, encode_labels(getattr(self, name), name=name).codes)
        if not len(self.labels_true) == len(self.labels_pred) == len(self.document):
            raise ValueError(
                f"labels_true has {len(self.labels_true)} mentions, labels_pred {len(self.labels_pred)}, "
                f"document {len(self.document)}"
            )

    @cached_property
    def _score(self) -> float:
        return self.score(Contingency.from_labels(self.labels_true, self.labels_pred))

    @property
    def n_documents(self) -> int:
        """The documents that hold a mention."""
        return int(self.document.max(initial=-1)) + 1

    def interval(self, how: Resampling) -> Interval | None:
        """Return the interval from half-samples; None as for any figure."""
        if self.n_documents < 2 or not self.is_defined:
            return None
        deviations = half_sample_deviations(self._half_scores(how), self.n_documents)
        low, high = _percentiles(self.value + deviations, how.level)
        return Interval(low, max(self.value, min(1.0, high)))

    def against(self, other: Self, how: Resampling) -> Comparison | None:
        """Compare with another clustering of the same mentions in the same order; None with fewer than 2 documents.

        Raises:
            ValueError: the mentions of the other system, their documents or their true clusters are others.

        """
        for name in ("labels_true", "document"):
            if not _is_same_partition(getattr(self, name), getattr(other, name)):
                raise ValueError(f"{name} differs between the systems; give both the same mentions in the same order")
        if self.n_documents < 2:
            return None
        difference = self.value - other.value
        differences = self._half_scores(how) - other._half_scores(how)
        deviations = half_sample_deviations(differences, self.n_documents)
        as_extreme = int((np.abs(deviations) >= abs(difference) - 1e-12).sum())
        return Comparison(difference, (1 + as_extreme) / (1 + how.n_half_samples))

    def method(self, how: Resampling) -> Method:
        """Say how interval and comparison are found."""
        n = self.n_documents
        halves = f"{how.n_half_samples:,} random halves of {n:,} document{'s' * (n != 1)}"
        return Method(halves, halves)

    def _half_scores(self, how: Resampling) -> FloatArray:
        def score(half: npt.NDArray[np.bool_]) -> float:
            drawn = half[self.document]
            return self.score(Contingency.from_labels(self.labels_true[drawn], self.labels_pred[drawn]))

        return _nan_to_zero(np.array([score(half) for half in half_samples(self.n_documents, how)]))


def _is_same_partition(one: IntArray, other: IntArray) -> bool:
    """Whether two labellings put the same items together, whatever the labels."""
    if len(one) != len(other):
        return False
    table = Contingency.from_labels(one, other)
    return len(table.count) == len(table.row_size) == len(table.column_size)


# Lines of a report ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of a report: a score, and what it is made from."""

    name: str
    """MUC, accuracy, ARI"""
    score: Figure
    """the headline: F1, accuracy, ARI"""
    recall: Figure | None = None
    precision: Figure | None = None
    over: str = ""
    """what was counted: 743 of 960 with a concept"""

    @classmethod
    def of_counts(cls, name: str, counts: npt.ArrayLike, *, over: str = "") -> Self:
        """Make a line of recall, precision and F1.

        Args:
            name: of the line.
            counts: (documents, 4) numerator and denominator of recall, then of precision.
            over: what was counted.

        Raises:
            ValueError: the counts have another shape, one is not finite, or a numerator exceeds its denominator.

        >>> line = Line.of_counts("NIL", [[1, 2, 1, 1], [1, 2, 1, 3]])
        >>> line.recall.value, line.precision.value, line.score.value
        (0.5, 0.5, 0.5)

        """
        table = np.asarray(counts, np.float64)
        if table.ndim != 2 or table.shape[1] != 4:
            raise ValueError(f"counts has shape {table.shape}, not (documents, 4)")
        recall, precision = Summed(table[:, :2], proportion), Summed(table[:, 2:], proportion)
        return cls(name, Summed(table, f_measure), recall, precision, over)


_CONLL: tuple[Metric, ...] = ("muc", "b3", "ceafe")
_NAMES: dict[Metric, str] = {"muc": "MUC", "b3": "B-cubed", "ceafm": "CEAF-m", "ceafe": "CEAF-e", "lea": "LEA"}


def coreference_lines(documents: Sequence[Mapping[str, Counts]]) -> list[Line]:
    """Make the lines of MUC, B-cubed, CEAF-m, CEAF-e, LEA, BLANC and CoNLL F1.

    The values are those of `scores_from_counts` for the sum of the documents.

    Args:
        documents: the `coreference_counts` of each document.

    Raises:
        TypeError: the counts are not in a list.

    >>> from eval.coreference import coreference_counts
    >>> same, apart = [["a", "b"]], [["a"], ["b"]]
    >>> lines = coreference_lines([coreference_counts(same, same), coreference_counts(same, apart)])
    >>> {line.name: round(line.score.value, 4) for line in lines if line.name in ("MUC", "LEA", "CoNLL")}
    {'MUC': 0.6667, 'LEA': 0.5, 'CoNLL': 0.7302}

    """
    if isinstance(documents, Mapping):
        kind = type(documents).__name__
        raise TypeError(f"documents is a {kind}, not a list of counts, one a document; write [counts] for one document")

    def table(*metrics: Metric, width: int = 4) -> FloatArray:
        rows = [[count for metric in metrics for count in document[metric]] for document in documents]
        return np.array(rows, np.float64).reshape(len(documents), width * len(metrics))

    blanc = table("blanc", width=8)
    return [
        *(Line.of_counts(name, table(metric)) for metric, name in _NAMES.items()),
        Line("BLANC", Summed(blanc, _blanc_f1), Summed(blanc, _blanc_recall), Summed(blanc, _blanc_precision)),
        Line("CoNLL", Summed(table(*_CONLL), conll_f1)),
    ]


def conll_f1(counts: FloatArray) -> FloatArray:
    """Return the mean of three F1 from 12 columns: those of `f_measure` for MUC, B-cubed and CEAF-e.

    >>> conll_f1(np.array([1, 1, 1, 1, 1, 2, 1, 2, 0, 0, 0, 0]))
    array(0.5)
    """
    return _mean(f_measure(counts.reshape(*counts.shape[:-1], 3, 4)))


def _blanc_recall(counts: FloatArray) -> FloatArray:
    return _blanc(counts, lambda links: proportion(links[..., :2]))


def _blanc_precision(counts: FloatArray) -> FloatArray:
    return _blanc(counts, lambda links: proportion(links[..., 2:]))


def _blanc_f1(counts: FloatArray) -> FloatArray:
    return _blanc(counts, f_measure)


def _blanc(counts: FloatArray, ratio: Ratio) -> FloatArray:
    """Mean over the kinds of link, coreferent or not, that the key has."""
    links = counts.reshape(*counts.shape[:-1], 2, 4)
    is_in_key = links[..., 1] > 0
    return _divide(np.where(is_in_key, _nan_to_zero(ratio(links)), 0).sum(axis=-1), is_in_key.sum(axis=-1))


def cluster_lines(labels_true: Labels, labels_pred: Labels, document: Labels) -> list[Line]:
    """Make the lines of ARI, B-cubed and CoNLL F1 of clusters that reach across documents.

    Of each, one pass over half the mentions for every half-sample: leave intervals out of a million mentions.

    Args:
        labels_true: (mentions,) the true cluster of each mention.
        labels_pred: (mentions,) the predicted one.
        document: (mentions,) its document.

    >>> lines = cluster_lines([0, 0, 1, 1], [0, 0, 1, 2], ["a", "a", "b", "b"])
    >>> {line.name: round(line.score.value, 4) for line in lines}
    {'ARI': 0.5714, 'B-cubed': 0.8571, 'CoNLL': 0.7302}

    """
    true, pred, where = (
        encode_labels(labels, name=name).codes
        for labels, name in ((labels_true, "labels_true"), (labels_pred, "labels_pred"), (document, "document"))
    )

    def figure(score: ClusterScore) -> OfClusters:
        return OfClusters(true, pred, where, score)

    return [
        Line("ARI", figure(_ari)),
        Line("B-cubed", figure(_b_cubed_f1), figure(_b_cubed_recall), figure(_b_cubed_precision)),
        Line("CoNLL", figure(_conll)),
    ]


def _ari(table: Contingency) -> float:
    return adjusted_rand_from_pairs(pair_counts_from_contingency(table))


def _b_cubed_f1(table: Contingency) -> float:
    return float(f_measure(np.array(METRICS["b3"](table))))


def _b_cubed_recall(table: Contingency) -> float:
    return float(proportion(np.array(METRICS["b3"](table)[:2])))


def _b_cubed_precision(table: Contingency) -> float:
    return float(proportion(np.array(METRICS["b3"](table)[2:])))


def _conll(table: Contingency) -> float:
    return float(conll_f1(np.array([METRICS[metric](table) for metric in _CONLL]).ravel()))
