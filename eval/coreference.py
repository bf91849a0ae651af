"""Coreference metrics: counts first, ratios last, so that documents can be added.

Throughout, ``K_i`` are the key clusters, ``R_j`` the response clusters, and a mention may be on one side only. Each
metric is defined by its recall; precision is the recall with the sides exchanged, and F1 is their harmonic mean. 0/0 is
0. Singletons count. The values are those of the CoNLL reference scorer 8.01 (Pradhan et al. 2014,
https://aclanthology.org/P14-2006) and, for LEA, those of its authors' scorer.

To add a metric, write a function from a `Contingency` to its counts, and one line each in `Metric`, `METRICS`,
`CoreferenceScores` and `scores_from_counts`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np

from .alignment import best_alignment
from .arrays import BoolArray, FloatArray, IntArray
from .contingency import Clusters, Contingency, n_pairs, total
from .ratio import f1, ratio

Counts: TypeAlias = list[float]  # in the order that `Score` describes
Metric: TypeAlias = Literal["muc", "b3", "ceafm", "ceafe", "lea", "blanc"]


class Score(TypedDict):
    """The ratios of a metric, and the counts behind them.

    ``counts`` are the numerator and the denominator of recall, then of precision. BLANC has two such quadruples: for
    coreferent links, then for other links.
    """

    recall: float
    precision: float
    f1: float
    counts: Counts


class CoreferenceScores(TypedDict):
    """The result of `coreference_scores`; `conll` is the mean F1 of MUC, B-cubed and CEAF-e."""

    muc: Score
    b3: Score
    ceafm: Score
    ceafe: Score
    lea: Score
    blanc: Score
    conll: float


class CoreferenceCounts(dict[str, Counts]):
    """The counts of each metric, as `Score` orders them; counts of documents can be added, also with `sum`."""

    def __add__(self, other: Mapping[str, Counts]) -> "CoreferenceCounts":
        return CoreferenceCounts({name: [a + b for a, b in zip(self[name], other[name], strict=True)] for name in self})

    def __radd__(self, start: Literal[0]) -> "CoreferenceCounts":
        return self if start == 0 else NotImplemented  # sum() starts at 0


def coreference_scores(key: Clusters, response: Clusters) -> CoreferenceScores:
    """Return MUC, B-cubed, CEAF-m, CEAF-e, LEA and BLANC of one document, and CoNLL F1.

    Each metric has a function in `eval.coreference`, which defines it. CoNLL F1 is the mean of the F1 of MUC, B-cubed
    and CEAF-e: Pradhan et al. 2012, CoNLL-2012 shared task, https://aclanthology.org/W12-4501. Clusters are iterables
    of hashable mention ids; the mentions of key and response may differ. Raise ValueError if a mention is twice on one
    side or its id is NaN, and TypeError if a cluster is not an iterable of hashable mention ids.

    The example of Moosavi and Strube 2016:

    >>> key = [["a", "b", "c"], ["d", "e", "f", "g"]]
    >>> response = [["a", "b"], ["c", "d"], ["f", "g", "h", "i"]]
    >>> scores = coreference_scores(key, response)
    >>> scores["b3"]["counts"]
    [2.9166666666666665, 7, 4.0, 8]
    >>> round(scores["lea"]["recall"], 4), round(scores["conll"], 4)
    (0.2381, 0.4582)
    """
    return scores_from_counts(coreference_counts(key, response))


def coreference_counts(key: Clusters, response: Clusters) -> CoreferenceCounts:
    """Return the counts of every metric for one document; add them over documents, then call `scores_from_counts`.

    The arguments and errors are those of `coreference_scores`.

    >>> documents = [([["a", "b"]], [["a", "b"]]), ([["a", "b"]], [["a"], ["b"]])]
    >>> counts = sum(coreference_counts(key, response) for key, response in documents)
    >>> scores_from_counts(counts)["muc"]
    {'recall': 0.5, 'precision': 1.0, 'f1': 0.6666666666666666, 'counts': [1, 2, 1, 1]}
    """
    return counts_from_contingency(Contingency.from_clusters(key, response))


def counts_from_contingency(table: Contingency) -> CoreferenceCounts:
    """Return the counts of every metric, as `Score` orders them, from a table whose rows are the key clusters."""
    return CoreferenceCounts({name: count(table) for name, count in METRICS.items()})


def scores_from_counts(counts: Mapping[str, Counts]) -> CoreferenceScores:
    """Return the ratios from the counts of one document, or from the sum over many."""
    muc, b3, ceafm, ceafe, lea = (recall_precision_f1(counts[name]) for name in ("muc", "b3", "ceafm", "ceafe", "lea"))
    blanc, conll = _blanc_score(counts["blanc"]), (muc["f1"] + b3["f1"] + ceafe["f1"]) / 3
    return {"muc": muc, "b3": b3, "ceafm": ceafm, "ceafe": ceafe, "lea": lea, "blanc": blanc, "conll": conll}


def recall_precision_f1(counts: Counts) -> Score:
    """Return the ratios of four counts: numerator and denominator of recall, then of precision."""
    recall, precision = ratio(counts[0], counts[1]), ratio(counts[2], counts[3])
    return {"recall": recall, "precision": precision, "f1": f1(recall, precision), "counts": list(counts)}


def muc(table: Contingency) -> Counts:
    """Return MUC: the share of the links in clusters that the other side also has.

    Recall is ``sum_i (|K_i| - p(K_i)) / sum_i (|K_i| - 1)`` over the key clusters ``K_i``, where ``p(K_i)`` is the
    number of parts into which the response cuts ``K_i``; a mention missing from the response is a separate part.
    Singletons have no links, so clusterings of only singletons score 0, even if they are equal. Source: Vilain et al.
    1995, A model-theoretic coreference scoring scheme, MUC-6, https://aclanthology.org/M95-1005.

    >>> muc(Contingency.from_clusters([["a", "b", "c", "d"]], [["a", "b"], ["c", "d"]]))
    [2, 3, 2, 2]
    """
    common = table.n_shared - total(table.count > 0)  # the sum of |K_i| - p(K_i), which is symmetric
    links = [total(sizes) - total(sizes > 0) for sizes in (table.row_size, table.column_size)]
    return [common, links[0], common, links[1]]


def b_cubed(table: Contingency) -> Counts:
    """Return B-cubed: the mean share of a mention's cluster that is in the mention's cluster on the other side.

    Recall is the mean of ``|K(m) & R(m)| / |K(m)|`` over the mentions m of the key, where ``K(m)`` is the cluster of m
    in the key, and ``R(m)`` in the response; a mention missing from the response has 0. Source: Bagga and Baldwin 1998,
    Algorithms for scoring coreference chains, LREC workshop on linguistic coreference.

    >>> b_cubed(Contingency.from_clusters([["a", "b", "c", "d"]], [["a", "b"], ["c", "d"]]))
    [2.0, 4, 4.0, 4]
    """

    def recall(side: Contingency) -> Counts:
        return [sum_of_fractions(side.count**2, side.row_size[..., side.row]), total(side.row_size)]

    return recall(table) + recall(table.transposed)


def ceaf_m(table: Contingency) -> Counts:
    """Return CEAF-m: the mentions in common under the best one-to-one alignment of the clusters.

    Recall is ``max_g sum_i |K_i & R_g(i)| / sum_i |K_i|`` over one-to-one partial maps g of key clusters ``K_i`` to
    response clusters ``R_j``. Source: Luo 2005, On coreference resolution performance metrics,
    https://aclanthology.org/H05-1004 (phi 3).

    >>> ceaf_m(Contingency.from_clusters([["a", "b", "c"], ["d"]], [["a", "b"], ["c", "d"]]))
    [3, 4, 3, 4]
    """
    aligned = total(table.count * _aligned(table, table.count))
    return [aligned, total(table.row_size), aligned, total(table.column_size)]


def ceaf_e(table: Contingency) -> Counts:
    """Return CEAF-e: the similarity of the clusters under their best one-to-one alignment.

    Recall is ``max_g sum_i phi(K_i, R_g(i)) / number of K_i``, with ``phi(K, R) = 2 |K & R| / (|K| + |R|)``, over
    one-to-one partial maps g of key clusters ``K_i`` to response clusters ``R_j``. Source: as for `ceaf_m` (phi 4).

    >>> ceaf_e(Contingency.from_clusters([["a", "b", "c"], ["d"]], [["a", "b"], ["c", "d"]]))
    [1.4666666666666666, 2, 1.4666666666666666, 2]
    """
    sizes = table.row_size[..., table.row] + table.column_size[..., table.column]
    aligned = sum_of_fractions(2 * table.count * _aligned(table, 2 * table.count / np.maximum(sizes, 1)), sizes)
    return [aligned, total(table.row_size > 0), aligned, total(table.column_size > 0)]


def _aligned(table: Contingency, weight: IntArray | FloatArray) -> BoolArray:
    """Return which cells are in the best alignment; the clusters of samples are apart."""
    cells = np.nonzero(table.count)
    sample = cells[0] if len(cells) > 1 else 0
    row = table.row[cells[-1]] + sample * table.row_size.shape[-1]
    column = table.column[cells[-1]] + sample * table.column_size.shape[-1]
    best = best_alignment(row, column, weight[cells])
    chosen = np.zeros(weight.shape, np.bool_)
    chosen[tuple(of[best] for of in cells)] = True
    return chosen


def lea(table: Contingency) -> Counts:
    """Return LEA: the share of each cluster's links that is resolved, weighted by the size of the cluster.

    Recall is ``sum_i |K_i| s(K_i) / sum_i |K_i|`` over the key clusters ``K_i``, where
    ``s(K) = sum_j link(K & R_j) / link(K)`` over the response clusters ``R_j``, and ``link(X) = |X| (|X| - 1) / 2``. A
    singleton links to itself: s is 1 if the other side has the same singleton, otherwise 0. Source: Moosavi and Strube
    2016, Which coreference evaluation metric do you trust?, https://aclanthology.org/P16-1060, section 3.

    >>> lea(Contingency.from_clusters([["a", "b", "c"], ["d"]], [["a", "b"], ["c"], ["d"]]))
    [2.0, 4, 3.0, 4]
    """
    row_size, column_size = table.row_size[..., table.row], table.column_size[..., table.column]
    singletons = total((table.count == 1) & (row_size == 1) & (column_size == 1))

    def recall(side: Contingency) -> Counts:
        # |K| link(K & R) / link(K) is c (c - 1) / (|K| - 1) for a cell of c mentions.
        links = side.count * (side.count - 1)
        return [singletons + sum_of_fractions(links, side.row_size[..., side.row] - 1), total(side.row_size)]

    return recall(table) + recall(table.transposed)


def blanc(table: Contingency) -> Counts:
    """Return BLANC: the mean agreement on coreferent links and on other links.

    If ``C(K)`` are the pairs of mentions inside key clusters, ``N(K)`` all other pairs of mentions of the key, and
    ``C(R)`` and ``N(R)`` those of the response, recall is the mean of ``|C(K) & C(R)| / |C(K)|`` and
    ``|N(K) & N(R)| / |N(K)|``; precision and F1 are also means over the two kinds of link. If the key has links of only
    one kind, only that kind counts. Source: Luo et al. 2014, An extension of BLANC to system mentions,
    https://aclanthology.org/P14-2005; Recasens and Hovy 2011.

    >>> blanc(Contingency.from_clusters([["a", "b"], ["c"]], [["a", "b", "c"]]))
    [1, 1, 1, 3, 0, 2, 0, 0]
    """

    def apart(sizes: IntArray) -> int:
        mentions: int = total(sizes)
        return mentions * (mentions - 1) // 2 - n_pairs(sizes)

    def of_shared(end: IntArray, sizes: IntArray) -> int:
        """Return the links between shared mentions that are together on one side."""
        shared_size = np.zeros_like(sizes)
        where: Any = (..., end)
        np.add.at(shared_size, where, table.count)
        return n_pairs(shared_size)

    shared = table.n_shared
    linked, key_linked, response_linked = map(n_pairs, (table.count, table.row_size, table.column_size))
    together = of_shared(table.row, table.row_size) + of_shared(table.column, table.column_size) - linked
    unlinked = shared * (shared - 1) // 2 - together
    coreferent = [linked, key_linked, linked, response_linked]
    return [*coreferent, unlinked, apart(table.row_size), unlinked, apart(table.column_size)]


def _blanc_score(counts: Counts) -> Score:
    kinds: Any = [recall_precision_f1(half) for half in (counts[:4], counts[4:]) if half[1]]  # those that the key has
    means = [ratio(sum(kind[name] for kind in kinds), len(kinds)) for name in ("recall", "precision", "f1")]
    return {"recall": means[0], "precision": means[1], "f1": means[2], "counts": list(counts)}


METRICS: dict[Metric, Callable[[Contingency], Counts]] = {
    "muc": muc,
    "b3": b_cubed,
    "ceafm": ceaf_m,
    "ceafe": ceaf_e,
    "lea": lea,
    "blanc": blanc,
}
"""The counts of each metric, from a contingency whose rows are the key."""


def sum_of_fractions(numerators: IntArray, denominators: IntArray) -> float:
    """Return ``sum(numerators / denominators)``, correctly rounded for any order.

    Numerators with equal denominators are first added as integers. Denominators are sizes of clusters, and n mentions
    have at most sqrt(2 n) different sizes, so few fractions are left to add.
    """
    if denominators.ndim > 1:  # of samples, whose scores only say how much scores vary
        return total(numerators / np.maximum(denominators, 1))  # type: ignore[no-any-return]
    denominators, numerators = denominators[numerators > 0], numerators[numerators > 0]
    by_denominator = np.zeros(int(denominators.max(initial=0)) + 1, np.int64)
    np.add.at(by_denominator, denominators, numerators)
    used = np.flatnonzero(by_denominator)
    terms = list(zip(by_denominator[used].tolist(), used.tolist(), strict=True))
    while len(terms) > 1:  # by halves, so that long numbers are added only at the end
        odd = terms[len(terms) & ~1 :]
        terms = [(a * d + c * b, b * d) for (a, b), (c, d) in zip(terms[::2], terms[1::2], strict=False)] + odd
    return terms[0][0] / terms[0][1] if terms else 0.0
