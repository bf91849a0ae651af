"""Scores of all cuts of a merge tree at once, and dendrogram purity."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Brief, FloatArray, IntArray, encode_labels, integer_array
from .clustering import adjusted_rand
from .contingency import Contingency, n_pairs
from .coreference import ceaf_e
from .ratio import divide, nan_to_zero


class Curves(NamedTuple):
    """Recall, precision and F1 at every cut, each of shape (cuts,)."""

    recall: FloatArray
    precision: FloatArray
    f1: FloatArray


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Cuts(Brief):
    """Scores of all clusterings of a merge tree: a cut for each distinct height, and one below all of them.

    Only leaves with a class, their true cluster, are scored. The values equal those of `clustering_scores` and
    `coreference_scores`, to within 1e-12.
    """

    threshold: FloatArray
    """(cuts,) in ascending order: -inf, where every leaf is alone, then the distinct heights. A cut applies all merges
    up to its threshold, and is valid up to the next threshold."""
    clusters: IntArray  # (cuts,) number of clusters with a leaf that has a class
    ari: FloatArray  # (cuts,) adjusted Rand index
    pairwise: Curves
    b3: Curves
    muc: Curves
    lea: Curves
    dendrogram_purity: float
    """Mean purity of the smallest cluster with both leaves, over all pairs of leaves of the same class. The purity is
    ``|A & K| / |A|``, where ``K`` is the class and ``A`` is the first cluster of the tree with both leaves. Merges of
    equal height are one node with several children. A pair that a forest never joins counts as 0. It is 0 if no class
    has two leaves. Source: Heller and Ghahramani 2005, Bayesian hierarchical clustering, ICML."""
    leaf_class: IntArray
    """(leaves with a class,) the class of each leaf, from 0, in an order in which every cluster is a range."""
    joined: IntArray
    """(leaves with a class,) the last cut in which each leaf is apart from the one before it."""

    def conll(self) -> FloatArray:
        """Return the CoNLL F1 of each cut that can be the best, and NaN for other cuts, as (cuts,).

        The maximum is exact, and all its ties are computed. The similarity of CEAF-e, which needs an alignment for each
        cut, grows by at most 1/2 with a merge of two clusters, and falls by at most 4/3. So one alignment bounds CoNLL
        at all cuts; the cut with the highest bound is computed next, until none reaches the best value.

        >>> all_cuts([0, 0, 1, 1], [0, 2, 4], [1, 3, 5], [0.1, 0.4, 0.6]).conll().tolist()
        [nan, nan, 1.0, nan]
        """
        n_classes = int(self.leaf_class.max(initial=-1)) + 1
        n_both = np.maximum(n_classes + self.clusters, 1)
        bound = np.minimum(n_classes, self.clusters).astype(np.float64)  # of the similarity of CEAF-e
        score = np.full(len(bound), np.nan)
        is_open = np.ones(len(bound), np.bool_)
        while is_open.any():
            conll = (self.muc.f1 + self.b3.f1 + 2 * bound / n_both) / 3
            place = int(np.argmax(np.where(is_open, conll, -1)))
            if conll[place] < score.max(initial=-1, where=~is_open) - 1e-12:
                break
            similarity = ceaf_e(Contingency.from_labels(self.leaf_class, np.cumsum(self.joined >= place)))[0]
            score[place] = (self.muc.f1[place] + self.b3.f1[place] + 2 * similarity / n_both[place]) / 3
            is_open[place] = False
            merges = self.clusters[place] - self.clusters  # from this cut to each
            bound = np.minimum(bound, similarity + np.where(merges > 0, merges / 2, -4 / 3 * merges))
        return score


def all_cuts(labels_true: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike, height: npt.ArrayLike) -> Cuts:
    """Score every cut of a merge tree in one pass.

    O(n log n) time, nearly linear in practice, and O(n) memory. Counts are exact below 3e9 leaves. The first call
    compiles the function, or loads it from the cache.

    Args:
        labels_true: (leaves,) the class of each leaf as an integer. A leaf of class -1 is part of the tree, but is not
            scored.
        left: (merges,) one of the two nodes that merge ``i`` joins into node ``leaves + i``; nodes ``0 .. leaves - 1``
            are the leaves. A forest, with fewer than ``leaves - 1`` merges, is valid.
        right: (merges,) the other of the two nodes.
        height: (merges,) thresholds at which the merges happen, ascending. Merges of equal height happen together.

    Raise ValueError if the lengths differ, a label is below -1, a merge joins a node that does not exist yet or was
    joined before, or the heights are not finite and ascending, and TypeError if labels or nodes are not integers.

    SciPy's tree of four points on a line:

    >>> from scipy.cluster.hierarchy import linkage
    >>> Z = linkage([[0.0], [1.0], [4.0], [6.0]], "average")
    >>> left, right = Z[:, :2].astype(int).T
    >>> cuts = all_cuts([0, 0, 1, 1], left, right, Z[:, 2])
    >>> cuts.threshold, int(cuts.ari.argmax())
    (array([-inf,  1. ,  2. ,  4.5]), 2)
    """
    from .cut_counts import cut_counts, line  # numba takes longer to import than all of `eval`

    label, one, other, heights = _checked(labels_true, left, right, height)
    ends = np.flatnonzero(np.append(heights[1:] != heights[:-1], True)[: len(heights)])  # of merges of equal height
    step = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=-1))
    leaves, joined = line(label, one, other, step, len(ends), int((label >= 0).sum()))
    leaf_class = label[leaves]
    class_size = np.bincount(leaf_class)
    counts, purity = cut_counts(leaf_class, joined, len(ends), class_size)
    shared, found, cells, clusters, b3_recall, b3_precision, lea_recall, lea_precision = counts.T
    n, n_classes, pairs = len(leaves), len(class_size), n_pairs(class_size)
    fp, fn = found - shared, pairs - shared
    return Cuts(
        threshold=np.concatenate([[-np.inf], heights[ends]]),
        clusters=clusters.astype(np.int64),
        ari=adjusted_rand(shared, fp, fn, n * (n - 1) / 2 - shared - fp - fn),
        pairwise=_curves(shared, pairs, shared, found),
        b3=_curves(b3_recall, n, b3_precision, n),
        muc=_curves(n - cells, n - n_classes, n - cells, n - clusters),
        lea=_curves(lea_recall, n, lea_precision, n),
        dendrogram_purity=purity / pairs if pairs else 0.0,
        leaf_class=leaf_class,
        joined=joined,
    )


def _checked(
    labels: npt.ArrayLike, left: npt.ArrayLike, right: npt.ArrayLike, height: npt.ArrayLike
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return the class of each leaf, from 0 without gaps or -1, the two nodes of each merge, and the heights."""
    classes = integer_array(labels, name="labels_true", low=-1)
    # Contiguous, writable copies: numba would compile everything again for another kind of array.
    nodes = [integer_array(side, name=name).copy() for side, name in ((left, "left"), (right, "right"))]
    heights = np.asarray(height, np.float64)
    if not len(nodes[0]) == len(nodes[1]) == heights.size or heights.ndim != 1:
        shapes = f"left has length {len(nodes[0])}, right {len(nodes[1])} and height the shape {heights.shape}"
        raise ValueError(f"{shapes}; give two nodes and one height for each merge")
    if not (ordered := np.isfinite(heights) & (heights >= np.append(-np.inf, heights[:-1]))).all():
        i = int(np.argmin(ordered))
        raise ValueError(f"height[{i}] is {heights[i]}; heights must be finite and ascending")
    if (late := np.maximum(*nodes) >= len(classes) + np.arange(len(heights))).any():
        i = int(np.argmax(late))
        problem = f"joins the nodes {nodes[0][i]} and {nodes[1][i]}, but the largest node before it"
        raise ValueError(f"merge {i} (from 0) {problem} is {len(classes) + i - 1}")
    if (uses := np.bincount(np.concatenate(nodes), minlength=1)).max() > 1:
        raise ValueError(f"node {np.argmax(uses)} is joined {uses.max()} times; a node can be joined only once")
    known = classes >= 0
    label = np.full(len(classes), -1)
    label[known] = encode_labels(classes[known])
    return label, nodes[0], nodes[1], heights


def _curves(recalled: FloatArray, true: float, precise: FloatArray, found: float | FloatArray) -> Curves:
    recall, precision = nan_to_zero(divide(recalled, true)), nan_to_zero(divide(precise, found))
    return Curves(recall, precision, nan_to_zero(divide(2 * recall * precision, recall + precision)))
