"""Ratios of counts, the last step of every metric: 0/0 is 0 for numbers, and NaN for arrays."""

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray


def ratio(numerator: float, denominator: float) -> float:
    """Return ``numerator / denominator``, and 0 for 0/0.

    Integers are divided exactly and rounded once, however large.

    >>> ratio(3, 4), ratio(0, 0)
    (0.75, 0.0)
    """
    return numerator / denominator if denominator else 0.0


def f1(recall: float, precision: float) -> float:
    """Return the harmonic mean of recall and precision; 0 if both are 0.

    >>> f1(1.0, 0.5), f1(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    return ratio(2 * recall * precision, recall + precision)


def proportion(counts: FloatArray) -> FloatArray:
    """Return the first column divided by the second, as for accuracy, recall and precision.

    >>> proportion(np.array([[3, 4], [0, 0]]))
    array([0.75,  nan])
    """
    return divide(counts[..., 0], counts[..., 1])


def f_measure(counts: FloatArray) -> FloatArray:
    """Return F1 from numerator and denominator of recall, then of precision; NaN if recall is 0/0, whatever is found.

    It is the harmonic mean of recall and precision: van Rijsbergen 1979, Information retrieval, chapter 7.

    >>> f_measure(np.array([[1, 2, 1, 1], [0, 2, 0, 0], [0, 0, 0, 1]]))
    array([0.66666667, 0.        ,        nan])
    """
    recall, precision = proportion(counts[..., :2]), proportion(counts[..., 2:])
    f1 = nan_to_zero(divide(2 * recall * nan_to_zero(precision), recall + nan_to_zero(precision)))
    return np.where(np.isnan(recall), np.nan, f1)


def divide(numerator: npt.NDArray[np.number], denominator: npt.ArrayLike) -> FloatArray:
    """Return the quotients; NaN for a denominator of 0."""
    whole = np.broadcast_to(np.asarray(denominator, np.float64), np.shape(numerator))
    return np.asarray(np.divide(numerator, whole, out=np.full(whole.shape, np.nan), where=whole != 0))


def nan_to_zero(scores: FloatArray) -> FloatArray:
    """Replace NaN with 0."""
    return np.where(np.isnan(scores), 0.0, scores)
