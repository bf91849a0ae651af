"""Ratios of counts, the last step of every metric: 0/0 is 0."""


def ratio(numerator: float, denominator: float) -> float:
    """Return ``numerator / denominator``, and 0 where nothing was counted.

    Integers are divided exactly and rounded once, however large.

    >>> ratio(3, 4), ratio(0, 0)
    (0.75, 0.0)
    """
    return numerator / denominator if denominator else 0.0


def f1(recall: float, precision: float) -> float:
    """Return the harmonic mean of recall and precision, 0 where both are 0.

    >>> f1(1.0, 0.5), f1(0.0, 0.0)
    (0.6666666666666666, 0.0)
    """
    return ratio(2 * recall * precision, recall + precision)
