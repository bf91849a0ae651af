"""Agreement of two clusterings of the same items, by pairs of items and by information.

Throughout, ``K`` is the true clustering with the clusters ``K_i``, and ``R`` the predicted clustering with the clusters
``R_j``; a pair is an unordered pair of items. Every metric takes one label per item for each side. The
metrics that scikit-learn also has give the same values. Only equality of labels matters, and no clusters x clusters
matrix is built.
"""

import math
from typing import NamedTuple, TypedDict

import numpy as np

from .arrays import FloatArray, IntArray, Labels
from .contingency import Contingency, n_pairs
from .ratio import f1, ratio


class PairwiseScores(TypedDict):
    """Precision, recall and F1 of pairs in the same cluster."""

    precision: float
    recall: float
    f1: float


class ClusteringScores(TypedDict):
    """The result of `clustering_scores`."""

    ari: float  # adjusted Rand index
    rand: float  # Rand index
    ami: float  # adjusted mutual information
    nmi_arithmetic: float  # normalised mutual information: divided by the arithmetic mean of the entropies
    nmi_geometric: float  # divided by their geometric mean
    nmi_min: float  # divided by the smaller
    nmi_max: float  # divided by the larger
    homogeneity: float
    completeness: float
    v_measure: float
    fowlkes_mallows: float
    pairwise: PairwiseScores


def clustering_scores(labels_true: Labels, labels_pred: Labels) -> ClusteringScores:
    """Compute all scores of two clusterings of the same items, from one contingency table.

    The functions of `eval.clustering` define each score and give its source. O(n log n) time, except for
    `ami`, which takes a step for every pair of distinct cluster sizes. The arguments hold the true and the predicted
    cluster of each item, as any hashable labels; integer arrays are fastest. Raise ValueError if the lengths differ or
    a label is missing (NaN or None), and TypeError if a label cannot be hashed or the labels have no order.

    >>> scores = clustering_scores(["a", "a", "b", "b"], [0, 0, 1, 2])
    >>> scores["pairwise"]
    {'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666}
    >>> round(scores["ari"], 4), scores["homogeneity"]
    (0.5714, 1.0)
    """
    table = Contingency.from_labels(labels_true, labels_pred)
    pairs, info = pair_counts_from_contingency(table), _information(table)
    arithmetic, geometric, smaller, larger = _normalized_mutual_information(info)
    return {
        "ari": adjusted_rand_from_pairs(pairs),
        "rand": _rand(pairs),
        "ami": _adjusted_mutual_information(table, info),
        "nmi_arithmetic": arithmetic,
        "nmi_geometric": geometric,
        "nmi_min": smaller,
        "nmi_max": larger,
        "homogeneity": info.homogeneity,
        "completeness": info.completeness,
        "v_measure": arithmetic,
        "fowlkes_mallows": _fowlkes_mallows(pairs),
        "pairwise": _pairwise(pairs),
    }


class PairCounts(NamedTuple):
    """Counts of unordered pairs, together or apart on each side, as exact integers of any size."""

    tp: int  # together on both sides
    fp: int  # together only in the prediction
    fn: int  # together only in the truth
    tn: int  # apart on both sides


def pair_counts_from_contingency(table: Contingency) -> PairCounts:
    """Count the pairs of items that are together or apart, in a table that has the same items on both sides.

    Source: Hubert and Arabie 1985, Comparing partitions, Journal of Classification 2.

    >>> pair_counts_from_contingency(Contingency.from_labels([0, 0, 0, 1], [0, 0, 1, 1]))
    PairCounts(tp=1, fp=1, fn=2, tn=2)
    """
    tp, n = n_pairs(table.count), table.n_shared
    fp = n_pairs(table.column_size) - tp
    fn = n_pairs(table.row_size) - tp
    return PairCounts(tp, fp, fn, n * (n - 1) // 2 - tp - fp - fn)


def _pairwise(pairs: PairCounts) -> PairwiseScores:
    """Return precision, recall and F1 of the pairs that the prediction puts together.

    If ``P(K)`` are the pairs inside true clusters, and ``P(R)`` those inside predicted clusters, precision is
    ``|P(K) & P(R)| / |P(R)|`` and recall is ``|P(K) & P(R)| / |P(K)|``. All three are 0 if no pair is together on both
    sides, even for singletons compared with themselves.
    Source: Manning, Raghavan and Schütze 2008, Introduction to information retrieval, section 16.3.

    >>> _pairwise(PairCounts(tp=1, fp=1, fn=2, tn=2))
    {'precision': 0.5, 'recall': 0.3333333333333333, 'f1': 0.4}
    """
    precision, recall = ratio(pairs.tp, pairs.tp + pairs.fp), ratio(pairs.tp, pairs.tp + pairs.fn)
    return {"precision": precision, "recall": recall, "f1": f1(recall, precision)}


def _rand(pairs: PairCounts) -> float:
    """Return the share of the pairs on which both sides agree: ``(tp + tn) / (tp + fp + fn + tn)`` of `PairCounts`.

    It is 1 if there are no pairs. Source: Rand 1971, Objective criteria for the evaluation of clustering methods, JASA
    66.

    >>> _rand(PairCounts(tp=1, fp=1, fn=2, tn=2))
    0.5
    """
    return (pairs.tp + pairs.tn) / sum(pairs) if sum(pairs) else 1.0


def adjusted_rand_index(labels_true: Labels, labels_pred: Labels) -> float:
    """Return the Rand index corrected for chance: its expected value is 0 for random clusters of the same sizes.

    It is ``2 (tp tn - fp fn) / ((tp + fn)(fn + tn) + (tp + fp)(fp + tn))`` of `PairCounts`, computed in exact
    integers; 1 for equal clusterings, and at least -1/2. Source: Hubert and Arabie 1985, Comparing partitions, Journal
    of Classification 2.

    >>> adjusted_rand_index([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    return adjusted_rand_from_pairs(pair_counts_from_contingency(Contingency.from_labels(labels_true, labels_pred)))


def adjusted_rand_from_pairs(pairs: PairCounts) -> float:
    """Return the adjusted Rand index from counts of pairs."""
    tp, fp, fn, tn = pairs
    if fp == fn == 0:
        return 1.0
    return 2 * (tp * tn - fp * fn) / ((tp + fn) * (fn + tn) + (tp + fp) * (fp + tn))


def adjusted_rand(
    shared: FloatArray, found: FloatArray, true: FloatArray | float, all_: FloatArray | float
) -> FloatArray:
    """Return the adjusted Rand indices of pairs together on both sides, in the prediction and in the truth, and of all.

    The error is below 1e-15, as no term exceeds half the divisor.
    """
    fp, fn = found - shared, true - shared
    tn = all_ - shared - fp - fn
    divisor = (shared + fn) * (fn + tn) + (shared + fp) * (fp + tn)
    equal = (fp == 0) & (fn == 0)
    return np.where(equal, 1.0, 2 * (shared * tn - fp * fn) / np.where(equal, 1.0, divisor))


def _fowlkes_mallows(pairs: PairCounts) -> float:
    """Return the geometric mean of pairwise precision and recall.

    Source: Fowlkes and Mallows 1983, A method for comparing two hierarchical clusterings, JASA 78.

    >>> round(_fowlkes_mallows(PairCounts(tp=1, fp=1, fn=2, tn=2)), 6)
    0.408248
    """
    together = _pairwise(pairs)
    return math.sqrt(together["precision"] * together["recall"])


class _Information(NamedTuple):
    entropy_true: float
    entropy_pred: float
    homogeneity: float
    completeness: float


def _information(table: Contingency) -> _Information:
    """Return the entropies of both sides, and what each says about the other.

    Homogeneity is ``1 - H(K|R) / H(K)``, the degree to which each predicted cluster has items of a single true cluster:
    ``H(K)`` is the entropy of the true clusters, and ``H(K|R)`` what is left of it once the predicted clusters are
    known. It is 1 if the truth is a single cluster. Completeness is the same with the sides exchanged, and V-measure
    the harmonic mean of both. Source: Rosenberg and Hirschberg 2007, V-measure, EMNLP,
    https://aclanthology.org/D07-1043.

    >>> info = _information(Contingency.from_labels([0, 0, 1, 1], [0, 1, 2, 2]))
    >>> info.homogeneity, round(info.completeness, 6)
    (1.0, 0.666667)
    """
    true, pred = entropy(table.row_size), entropy(table.column_size)
    if not (true and pred):  # a single cluster says nothing about the other side, which determines it
        return _Information(true, pred, float(not true), float(not pred))
    # Rounding can make a conditional entropy slightly larger than the entropy.
    homogeneity = max(0.0, 1 - conditional_entropy(table) / true)
    completeness = max(0.0, 1 - conditional_entropy(table.transposed) / pred)
    return _Information(true, pred, homogeneity, completeness)


def _normalized_mutual_information(info: _Information) -> tuple[float, float, float, float]:
    """Return ``I(K; R) / average(H(K), H(R))``, the information shared by both sides, relative to their entropies.

    The average is their arithmetic or geometric mean, the smaller or the larger, in this order. The result is 1 if both
    sides are a single cluster, and 0 if only one side is. Source: Vinh, Epps, Bailey 2010, Information theoretic
    measures for clusterings comparison, JMLR 11.

    >>> info = _information(Contingency.from_labels([0, 0, 1, 1], [0, 1, 2, 2]))
    >>> [round(value, 6) for value in _normalized_mutual_information(info)]
    [0.8, 0.816497, 1.0, 0.666667]
    """
    h, c = info.homogeneity, info.completeness  # I/H(K) and I/H(R); dividing by a mean of both H gives a mean of these
    shared = max(h, c) if h and c else 0.0  # with a single cluster, h or c is 1, and nothing is shared
    return f1(c, h), math.sqrt(h * c), shared, min(h, c)


def _adjusted_mutual_information(table: Contingency, info: _Information) -> float:
    """Return the mutual information, corrected for chance and divided by the arithmetic mean of the entropies.

    ``AMI = (I - E) / ((H(K) + H(R)) / 2 - E)``, where ``I`` is the mutual information of the true and the predicted
    clusters, ``H`` their entropy, and ``E`` the expected ``I`` of random clusters of the same sizes. It is 1 for equal
    clusterings. Source: as for `_normalized_mutual_information`.

    >>> table = Contingency.from_labels([0, 0, 1, 1], [0, 1, 0, 1])
    >>> round(_adjusted_mutual_information(table, _information(table)), 6)
    -0.5
    """
    if len(table.count) == len(table.row_size) == len(table.column_size):
        return 1.0  # equal clusterings, including the case of a single possible outcome, where the ratio is 0/0
    if not (info.entropy_true and info.entropy_pred):
        return 0.0
    expected = expected_mutual_information(table.row_size, table.column_size)
    mutual = info.homogeneity * info.entropy_true
    return (mutual - expected) / ((info.entropy_true + info.entropy_pred) / 2 - expected)


# Minus the logarithm of the probability of each hypergeometric tail that is left out: exp(-32) is 1e-14.
_LOG_TAIL = 32.0


def entropy(sizes: IntArray) -> float:
    """Return ``H = - sum_i |K_i|/n log(|K_i|/n)``, the uncertainty about the cluster of an item.

    >>> print(round(entropy(np.array([1, 1, 2])) / np.log(2), 12))
    1.5
    """
    n = sizes.sum()
    return float((sizes / n * np.log(n / sizes)).sum()) if n else 0.0


def conditional_entropy(table: Contingency) -> float:
    """Return ``H(K|R)``, the uncertainty about the row of an item whose column is known.

    ``H(K|R) = - sum_ij |K_i & R_j|/n log(|K_i & R_j| / |R_j|)``: it is exactly 0 if every column lies inside one row.

    >>> conditional_entropy(Contingency.from_labels([0, 0, 1], ["x", "y", "z"]))
    0.0
    """
    within = table.column_size[table.column]
    return float((table.count * np.log(within / table.count)).sum()) / max(table.n_shared, 1)


def expected_mutual_information(row_size: IntArray, column_size: IntArray) -> float:
    """Return the expected mutual information of two random clusterings with these sizes of clusters.

    All assignments of the ``n`` items to row clusters of the sizes ``a_i`` and column clusters of the sizes ``b_j`` are
    equally likely, so the number of items that two clusters share has a hypergeometric distribution:
    ``E = sum_ij a_i b_j / n^2 E[log(n (1 + X_ij) / (a_i b_j))]``, where ``X_ij`` counts how many of ``b_j - 1`` draws
    from ``n - 1`` items are among ``a_i - 1`` marked items.

    Clusters of equal size are computed once, and only the part of each distribution around its mean, which has all but
    1e-14 of the probability (by Bernstein's bound). O(A B w) time for A distinct row sizes, B distinct column sizes and
    parts of w values. Source: as for `_normalized_mutual_information`.

    Four items in two halves on both sides: a third of the assignments agree (log 2), two thirds share nothing (0):

    >>> halves = np.array([2, 2])
    >>> print(round(expected_mutual_information(halves, halves) / np.log(2), 12))
    0.333333333333
    """
    n = int(row_size.sum())
    if not n:
        return 0.0
    log_factorial = np.fromiter(map(math.lgamma, range(1, n + 1)), np.float64, n)
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
