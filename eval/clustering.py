"""Agreement of two clusterings of the same items, by pairs of items and by information.

Throughout, ``K`` is the true clustering with the clusters ``K_i``, and ``R`` the predicted clustering with the clusters
``R_j``; a pair is an unordered pair of items. The metrics that scikit-learn also has give the same values. No
clusters x clusters matrix is built.
"""

import math
from typing import Any, NamedTuple, TypedDict

import numpy as np

from .arrays import FloatArray, IntArray, Labels
from .contingency import Contingency, n_pairs
from .ratio import f1, ratio


class ClusteringScores(TypedDict):
    """The result of `clustering_scores`.

    Pairs are counted as in `PairCounts`; ``H(K)`` is the entropy of the true clusters (`entropy`), ``H(K|R)`` what is
    left of it once the predicted clusters are known, and ``I = H(K) - H(K|R)`` the mutual information.
    """

    ari: float
    """Adjusted Rand index, see `adjusted_rand_index`."""
    rand: float
    """Share of the pairs on which both sides agree, ``(tp + tn) / (tp + fp + fn + tn)``; 1 if there are no pairs.
    Source: Rand 1971, Objective criteria for the evaluation of clustering methods, JASA 66."""
    ami: float
    """Mutual information, corrected for chance and divided by the arithmetic mean of the entropies:
    ``(I - E) / ((H(K) + H(R)) / 2 - E)``, where ``E`` is the expected ``I`` of random clusters of the same sizes. It is
    1 for equal clusterings. Source: Vinh, Epps, Bailey 2010, Information theoretic measures for clusterings comparison,
    JMLR 11."""
    nmi_arithmetic: float
    """Normalised mutual information, ``I`` divided by the arithmetic mean of ``H(K)`` and ``H(R)``; 1 if both sides are
    a single cluster, and 0 if only one side is. Source: as for `ami`."""
    nmi_geometric: float
    """The same, divided by their geometric mean."""
    nmi_min: float
    """The same, divided by the smaller."""
    nmi_max: float
    """The same, divided by the larger."""
    homogeneity: float
    """``1 - H(K|R) / H(K)``, the degree to which each predicted cluster has items of a single true cluster; 1 if the
    truth is a single cluster. Source: Rosenberg and Hirschberg 2007, V-measure, EMNLP,
    https://aclanthology.org/D07-1043."""
    completeness: float
    """The same with the sides exchanged."""
    v_measure: float
    """Harmonic mean of homogeneity and completeness."""
    fowlkes_mallows: float
    """Geometric mean of pairwise precision and recall. Source: Fowlkes and Mallows 1983, A method for comparing two
    hierarchical clusterings, JASA 78."""
    pairwise: dict[str, float]
    """Of pairs in one cluster: ``precision``, ``tp / (tp + fp)``, ``recall``, ``tp / (tp + fn)``, and ``f1``. All are 0
    if no pair is together on both sides, even for singletons compared with themselves. Source: Manning, Raghavan,
    Schütze 2008, Introduction to information retrieval, section 16.3."""


def clustering_scores(labels_true: Labels, labels_pred: Labels) -> ClusteringScores:
    """Compute all scores of two clusterings of the same items, from one contingency table.

    O(n log n) time, except for `ami`, which takes a step for every pair of distinct cluster sizes. The arguments hold
    the cluster of each item, as any hashable labels; integer arrays are fastest. Raise ValueError if the lengths differ
    or a label is missing (NaN or None), and TypeError if a label cannot be hashed or the labels have no order.

    >>> scores = clustering_scores(["a", "a", "b", "b"], [0, 0, 1, 2])
    >>> scores["pairwise"]
    {'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666}
    >>> round(scores["ari"], 4), scores["homogeneity"]
    (0.5714, 1.0)
    """
    table = Contingency.from_labels(labels_true, labels_pred)
    pairs = pair_counts_from_contingency(table)
    precision, recall = ratio(pairs.tp, pairs.tp + pairs.fp), ratio(pairs.tp, pairs.tp + pairs.fn)
    true, pred = entropy(table.row_size), entropy(table.column_size)
    if true and pred:
        # Rounding can make a conditional entropy slightly larger than the entropy.
        homogeneity = max(0.0, 1 - conditional_entropy(table) / true)
        completeness = max(0.0, 1 - conditional_entropy(table.transposed) / pred)
    else:  # a single cluster says nothing about the other side, which determines it
        homogeneity, completeness = float(not true), float(not pred)
    if len(table.count) == len(table.row_size) == len(table.column_size):
        ami = 1.0  # equal clusterings, including the case of a single possible outcome, where the ratio is 0/0
    elif true and pred:
        expected = expected_mutual_information(table.row_size, table.column_size)
        ami = (homogeneity * true - expected) / ((true + pred) / 2 - expected)
    else:
        ami = 0.0
    # Homogeneity and completeness are I/H(K) and I/H(R); dividing by a mean of both H gives a mean of these.
    v_measure = f1(completeness, homogeneity)
    return {
        "ari": adjusted_rand(*pairs),
        "rand": (pairs.tp + pairs.tn) / sum(pairs) if sum(pairs) else 1.0,
        "ami": ami,
        "nmi_arithmetic": v_measure,
        "nmi_geometric": math.sqrt(homogeneity * completeness),
        # With a single cluster, one of the two is 1, and nothing is shared.
        "nmi_min": max(homogeneity, completeness) if homogeneity and completeness else 0.0,
        "nmi_max": min(homogeneity, completeness),
        "homogeneity": homogeneity,
        "completeness": completeness,
        "v_measure": v_measure,
        "fowlkes_mallows": math.sqrt(precision * recall),
        "pairwise": {"precision": precision, "recall": recall, "f1": f1(recall, precision)},
    }


class PairCounts(NamedTuple):
    """Counts of unordered pairs, together or apart on each side, as exact integers of any size."""

    tp: int  # together on both sides
    fp: int  # together only in the prediction
    fn: int  # together only in the truth
    tn: int  # apart on both sides


def pair_counts_from_contingency(table: Contingency) -> PairCounts:
    """Count the pairs of items that are together or apart, in a table that has the same items on both sides."""
    tp, n = n_pairs(table.count), table.n_shared
    fp = n_pairs(table.column_size) - tp
    fn = n_pairs(table.row_size) - tp
    return PairCounts(tp, fp, fn, n * (n - 1) // 2 - tp - fp - fn)


def adjusted_rand_index(labels_true: Labels, labels_pred: Labels) -> float:
    """Return the Rand index corrected for chance: its expected value is 0 for random clusters of the same sizes.

    It is ``2 (tp tn - fp fn) / ((tp + fn)(fn + tn) + (tp + fp)(fp + tn))`` of `PairCounts`, computed in exact
    integers; 1 for equal clusterings, and at least -1/2. Source: Hubert and Arabie 1985, Comparing partitions, Journal
    of Classification 2.

    >>> adjusted_rand_index([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    return float(adjusted_rand(*pair_counts_from_contingency(Contingency.from_labels(labels_true, labels_pred))))


def adjusted_rand(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    """Return the adjusted Rand index of `PairCounts` or of arrays of them; exact for integers, to 1e-15 for floats."""
    equal = (fp == 0) & (fn == 0)  # then numerator and divisor are the same, and may both be 0
    return (2 * (tp * tn - fp * fn) + equal) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn) + equal)


# Minus the logarithm of the probability of each hypergeometric tail that is left out: exp(-32) is 1e-14.
_LOG_TAIL = 32.0


def entropy(sizes: IntArray) -> float:
    """Return ``H = - sum_i |K_i|/n log(|K_i|/n)``, the uncertainty about the cluster of an item."""
    n = sizes.sum()
    return float((sizes / n * np.log(n / sizes)).sum()) if n else 0.0


def conditional_entropy(table: Contingency) -> float:
    """Return ``H(K|R)``, the uncertainty about the row of an item whose column is known.

    ``H(K|R) = - sum_ij |K_i & R_j|/n log(|K_i & R_j| / |R_j|)``: it is exactly 0 if every column lies inside one row.
    """
    return float((table.count * np.log(table.column_size[table.column] / table.count)).sum()) / max(table.n_shared, 1)


def expected_mutual_information(row_size: IntArray, column_size: IntArray) -> float:
    """Return the expected mutual information of two random clusterings with these sizes of clusters.

    All assignments of the ``n`` items to row clusters of the sizes ``a_i`` and column clusters of the sizes ``b_j`` are
    equally likely, so the number of items that two clusters share has a hypergeometric distribution:
    ``E = sum_ij a_i b_j / n^2 E[log(n (1 + X_ij) / (a_i b_j))]``, where ``X_ij`` counts how many of ``b_j - 1`` draws
    from ``n - 1`` items are among ``a_i - 1`` marked items.

    Clusters of equal size are computed once, and only the part of each distribution around its mean, which has all but
    1e-14 of the probability (by Bernstein's bound). O(A B w) time for A distinct row sizes, B distinct column sizes and
    parts of w values. Source: as for `ClusteringScores`' AMI.
    """
    n = int(row_size.sum())
    log_factorial = np.fromiter(map(math.lgamma, range(1, n + 1)), np.float64, n)
    a, rows = np.unique(row_size, return_counts=True)
    b, columns = np.unique(column_size, return_counts=True)
    shared = [float((columns * b / n * _expected_log(n, size, b, log_factorial)).sum()) for size in a.tolist()]
    return float(sum(times * size / n * one for times, size, one in zip(rows, a, shared, strict=True)))


def _expected_log(n: int, size: int, other: IntArray, log_factorial: FloatArray) -> FloatArray:
    """Return ``E[log(n (1 + X) / (size other))]`` for each size on the other side."""
    total, marked, drawn = n - 1, size - 1, other - 1
    mean = marked * drawn / total
    variance = mean * (1 - np.maximum(marked, drawn) / total)  # binomial, never below X's own
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
