"""Entropies of clusterings, in nats."""

import numpy as np

from .arrays import FloatArray
from .contingency import Contingency
from .labels import IntArray

# Probability of each hypergeometric tail that the expected information leaves out: exp(-32) is 1e-14.
_LOG_TAIL = 32.0


def entropy(sizes: IntArray) -> float:
    """Return ``H = - sum_i |K_i|/n log(|K_i|/n)``, the uncertainty about the cluster of an item.

    >>> print(round(entropy(np.array([1, 1, 2])) / np.log(2), 12))
    1.5
    """
    n = sizes.sum()
    return float((sizes / n * np.log(n / sizes)).sum()) if n else 0.0


def conditional_entropy(table: Contingency) -> float:
    """Return ``H(K|R)``, the uncertainty about the row of an item with known column.

    ``H(K|R) = - sum_ij |K_i & R_j|/n log(|K_i & R_j| / |R_j|)``: exactly 0 when every column lies inside one row.

    >>> conditional_entropy(Contingency.from_labels([0, 0, 1], ["x", "y", "z"]))
    0.0
    """
    within = table.column_size[table.column]
    return float((table.count * np.log(within / table.count)).sum()) / max(table.n_shared, 1)


def expected_mutual_information(row_size: IntArray, column_size: IntArray) -> float:
    """Return the expected mutual information of two random clusterings with these sizes.

    All ways to put the items into clusters of the given sizes are equally likely, so that a cell is hypergeometric:
    ``E = sum_ij a_i b_j / n^2 E[log(n (1 + X_ij) / (a_i b_j))]``, where ``X_ij`` counts the ``b_j - 1`` draws, of
    ``n - 1`` items, that fall among ``a_i - 1``.

    Clusters of equal size are done once, and of each distribution only the part around its mean, which holds all but
    1e-14: O(A B w), for A and B distinct sizes and windows of w values.

    Sources: Vinh, Epps, Bailey 2010, Information theoretic measures for clusterings comparison, JMLR 11; the tail bound
    is Bernstein's.

    Two halves of two pairs: a third of the ways agree (log 2), two thirds share nothing (0).

    >>> halves = np.array([2, 2])
    >>> print(round(expected_mutual_information(halves, halves) / np.log(2), 12))
    0.333333333333
    """
    n = int(row_size.sum())
    if not n:
        return 0.0
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(1.0, n + 1.0))
    a, rows = np.unique(row_size, return_counts=True)
    b, columns = np.unique(column_size, return_counts=True)
    terms = [
        times * size / n * float((columns * b / n * _expected_log(n, size, b, log_factorial)).sum())
        for size, times in zip(a.tolist(), rows.tolist(), strict=True)
    ]
    return float(sum(terms))


def _expected_log(n: int, size: int, other: IntArray, log_factorial: FloatArray) -> FloatArray:
    """Return ``E[log(n (1 + X) / (size other))]`` for each size on the other side."""
    total, marked, drawn = n - 1, size - 1, other - 1
    mean = marked * drawn / max(total, 1)
    variance = mean * (1 - np.maximum(marked, drawn) / max(total, 1))  # binomial, never below X's own
    reach = _LOG_TAIL / 3 + np.sqrt(_LOG_TAIL**2 / 9 + 2 * _LOG_TAIL * variance)
    low = np.maximum(np.floor(mean - reach), np.maximum(marked + drawn - total, 0)).astype(np.int64)
    high = np.minimum(np.ceil(mean + reach), np.minimum(marked, drawn)).astype(np.int64)
    width = high - low + 1
    start = np.cumsum(width) - width
    x = np.arange(width.sum()) - np.repeat(start - low, width)
    hit_or_missed = log_factorial[x] + log_factorial[marked - x]
    others = np.repeat(drawn, width) - x
    log_weight = -(hit_or_missed + log_factorial[others] + log_factorial[total - marked - others])
    weight = np.exp(log_weight - np.repeat(np.maximum.reduceat(log_weight, start), width))
    log_mean = np.add.reduceat(weight * np.log1p(x), start) / np.add.reduceat(weight, start)
    return log_mean + np.log(n / (size * other))
