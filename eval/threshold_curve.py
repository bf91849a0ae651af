"""Precision and recall at every threshold of a score."""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, Brief, FloatArray, IntArray, boolean_array
from .ratio import ratio


class BestThreshold(NamedTuple):
    """The threshold with the highest F1."""

    threshold: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdCurve(Brief):
    """Counts at every threshold, from no item called positive to all, with a point for each set of decisions."""

    threshold: FloatArray  # (points,) midpoints between neighbouring scores, infinite at both ends
    predicted: IntArray  # (points,) items called positive, ascending
    correct: IntArray  # (points,) items called positive that are positive
    mentions: int  # annotated items
    gold: int  # annotated items that are positive
    not_annotated: int = 0  # left out

    @classmethod
    def below(cls, is_positive: BoolArray, score: FloatArray, annotated: BoolArray) -> Self:
        """Make the curve that calls an item positive if its score is below the threshold; no score may be inf."""
        distinct, place = np.unique(score[annotated], return_inverse=True)
        n_points = len(distinct) + 1
        return cls(
            threshold=_between(distinct),
            predicted=np.cumsum(np.bincount(place + 1, minlength=n_points)),
            correct=np.cumsum(np.bincount(place[is_positive[annotated]] + 1, minlength=n_points)),
            mentions=int(annotated.sum()),
            gold=int((annotated & is_positive).sum()),
            not_annotated=int((~annotated).sum()),
        )

    @property
    def precision(self) -> FloatArray:
        """(points,) share of predicted items that are correct; 0 if no items are predicted."""
        return self.correct / np.maximum(self.predicted, 1)

    @property
    def recall(self) -> FloatArray:
        """(points,) share of gold items that are predicted, ascending."""
        return self.correct / max(self.gold, 1)

    @property
    def f1(self) -> FloatArray:
        """(points,) harmonic mean of recall and precision."""
        return 2 * self.correct / np.maximum(self.predicted + self.gold, 1)

    @property
    def average_precision(self) -> float:
        """Area under the precision-recall curve: ``sum_i (recall_i - recall_(i-1)) precision_i``.

        This is a sum of steps rather than trapezoids: between two points, precision does not decrease linearly with
        recall, so trapezoids overestimate the area (Davis and Goadrich 2006, The relationship between precision-recall
        and ROC curves, ICML). It is 0 without positive items.
        """
        return ratio(float((np.diff(self.correct) * self.precision[1:]).sum()), self.gold)

    @property
    def best(self) -> BestThreshold:
        """The point with the highest F1; ties go to the point with the fewest items called positive."""
        place = int(np.argmax(self.f1))
        ratios = (self.threshold, self.precision, self.recall, self.f1)
        return BestThreshold(*(float(values[place]) for values in ratios))


def threshold_curve(is_positive: npt.ArrayLike, score: npt.ArrayLike) -> ThresholdCurve:
    """Compute precision, recall and F1 at every threshold, where items with a higher score are called positive.

    Both arguments are (items,), and thresholds descend. O(n log n) time, O(n) memory. Items with equal scores are
    called positive together. Raise ValueError if the lengths differ or a score is not finite, and TypeError if
    ``is_positive`` does not hold booleans or ``score`` does not hold numbers.

    >>> curve = threshold_curve([False, True, True], [0.1, 0.5, 0.9])
    >>> curve.threshold, curve.recall, curve.best.threshold
    (array([ inf,  0.7,  0.3, -inf]), array([0. , 0.5, 1. , 1. ]), 0.3)
    """
    positive = boolean_array(is_positive, name="is_positive")
    values = score_array(score, len(positive))
    if not np.isfinite(values).all():
        where = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"score has {values[where]} at position {where} (from 0); scores must be finite")
    curve = ThresholdCurve.below(positive, -values, np.ones(len(positive), np.bool_))
    return replace(curve, threshold=0.0 - curve.threshold)  # 0 rather than -0


def score_array(score: npt.ArrayLike, length: int) -> FloatArray:
    """Return scores as float64; raise TypeError unless they are numbers, ValueError unless there are ``length``."""
    given = np.asarray(score)
    if given.dtype.kind not in "fiu" and given.size:
        raise TypeError(f"score holds {given.dtype}, not numbers")
    if given.shape != (length,):
        raise ValueError(f"score has shape {given.shape}, not ({length},); give one score for each item")
    return given.astype(np.float64)


def _between(scores: FloatArray) -> FloatArray:
    """Return a threshold between neighbouring ascending scores, above the lower and at most the upper score."""
    if not len(scores):
        return np.array([-np.inf])
    low, high = scores[:-1], scores[1:]
    middle = low / 2 + high / 2  # their sum may overflow
    return np.concatenate([[-np.inf], np.where(middle > low, middle, high), [np.inf]])
