"""Exact sums of fractions, rounded once."""

import numpy as np

from .labels import IntArray


def sum_of_fractions(numerators: IntArray, denominators: IntArray) -> float:
    """Return ``sum(numerators / denominators)``, correctly rounded for any order.

    Equal denominators are added as integers first. Denominators are sizes of clusters: n mentions have at most sqrt(2
    n) different ones, so little is left to add as fractions. Three thirds make 1:

    >>> sum_of_fractions(np.array([1, 1, 1]), np.array([3, 3, 3]))
    1.0
    """
    if not len(denominators):
        return 0.0
    by_denominator = np.zeros(int(denominators.max()) + 1, np.int64)
    np.add.at(by_denominator, denominators, numerators)
    used = np.flatnonzero(by_denominator)
    terms = list(zip(by_denominator[used].tolist(), used.tolist(), strict=True))
    while len(terms) > 1:  # by halves: the long numbers meet only at the end
        odd = terms[len(terms) & ~1 :]
        terms = [(a * d + c * b, b * d) for (a, b), (c, d) in zip(terms[::2], terms[1::2], strict=False)] + odd
    return terms[0][0] / terms[0][1] if terms else 0.0
