"""All cuts in one pass give what each cut gives by itself; `differential.clusters` asks it of many forests."""

from itertools import combinations

import numpy as np
import pytest
from scipy.cluster import hierarchy

from eval import all_cuts, clustering_scores, coreference_scores


def clusters_at(threshold, n, left, right, height):
    """Label the leaves by naive union."""
    node = list(range(n))
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        if height[i] <= threshold:
            node = [n + i if at in (a, b) else at for at in node]
    return node


def by_label(labels):
    """Clusters as lists of items."""
    return [[i for i, other in enumerate(labels) if other == label] for label in set(labels)]


def purity_by_pairs(labels, left, right, height):
    """The definition: a cut for every pair of a class, the first that holds both."""
    purities = []
    thresholds = sorted(set(height))
    known = [i for i, label in enumerate(labels) if label >= 0]
    for i, j in combinations(known, 2):
        if labels[i] == labels[j]:
            cuts = (clusters_at(threshold, len(labels), left, right, height) for threshold in thresholds)
            first = next((cut for cut in cuts if cut[i] == cut[j]), None)
            together = [] if first is None else [labels[x] for x in known if first[x] == first[i]]
            purities.append(together.count(labels[i]) / len(together) if together else 0.0)
    return float(np.mean(purities)) if purities else 0.0


def assert_each_cut_is_right(cuts, places, labels, left, right, height):
    known = np.flatnonzero(np.asarray(labels) >= 0)
    truth = np.asarray(labels)[known].tolist()
    for place in places:
        cut = np.asarray(clusters_at(cuts.threshold[place], len(labels), left, right, height))[known].tolist()
        scores = clustering_scores(truth, cut)
        assert cuts.clusters[place] == len(set(cut))
        assert cuts.ari[place] == pytest.approx(scores["ari"], abs=1e-14)
        assert {name: getattr(cuts.pairwise, name)[place] for name in cuts.pairwise._fields} == scores["pairwise"]
        of_clusters = coreference_scores(by_label(truth), by_label(cut))
        for curves, score in ((getattr(cuts, metric), of_clusters[metric]) for metric in ("b3", "muc", "lea")):
            for name in curves._fields:
                assert getattr(curves, name)[place] == pytest.approx(score[name], abs=1e-12)


def conll_by_cut(labels, left, right, height):
    """CoNLL of every cut, each by itself."""
    known = [i for i, label in enumerate(labels) if label >= 0]
    for threshold in [-np.inf, *sorted(set(height))]:
        cut = clusters_at(threshold, len(labels), left, right, height)
        truth, found = ([by[i] for i in known] for by in (labels, cut))
        yield coreference_scores(by_label(truth), by_label(found))["conll"]


def assert_conll_is_right(labels, left, right, height):
    every = np.array([*conll_by_cut(labels, left, right, height)])
    scored = all_cuts(labels, left, right, height).conll()
    best = every >= every.max() - 1e-13
    np.testing.assert_allclose(scored[best], every[best], rtol=0, atol=1e-12)
    np.testing.assert_allclose(scored, np.where(np.isnan(scored), np.nan, every), rtol=0, atol=1e-12)
    return scored


@pytest.mark.slow
def test_conll_of_a_larger_tree_needs_few_alignments():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(120), rng.integers(1, 5, 120))
    tree = hierarchy.linkage(labels[:, None] + rng.normal(0, 0.2, (len(labels), 3)), "single")
    sides = (tree[:, i].astype(int).tolist() for i in (0, 1))
    scored = assert_conll_is_right(labels.tolist(), *sides, tree[:, 2].tolist())
    assert np.isfinite(scored).sum() < len(scored) / 2


def test_two_classes_of_a_million_alternating():
    """Every merge joins a pair of one class with all that came before: B-cubed precision falls and must not drift."""
    n = 10**6
    left = np.concatenate([[0], np.arange(n, 2 * n - 2)])
    cuts = all_cuts(np.arange(n) % 2, left, np.arange(1, n), np.arange(n - 1))
    size = np.arange(1, n + 1)
    squares = (size // 2) ** 2 + ((size + 1) // 2) ** 2
    np.testing.assert_allclose(cuts.b3.precision, (squares / size + n - size) / n, rtol=1e-14)


@pytest.mark.parametrize("labels", [[], [-1], [-1, -1]])
def test_without_a_leaf_that_has_a_class(labels):
    cuts = all_cuts(labels, [], [], [])
    assert (cuts.threshold.tolist(), cuts.clusters.tolist(), cuts.ari.tolist()) == ([-np.inf], [0], [1.0])
    assert cuts.b3.f1.tolist() == cuts.muc.f1.tolist() == cuts.pairwise.f1.tolist() == [0.0]


@pytest.mark.parametrize(
    ("left", "right", "height", "message"),
    [
        ([0], [1, 2], [1.0], "left has length 1, right 2"),
        ([0], [1], [1.0, 2.0], r"height the shape \(2,\)"),
        ([0, 3], [1, 2], [2.0, 1.0], r"height\[1\] is 1.0; heights must be finite and ascending"),
        ([0, 3], [1, 2], [1.0, np.nan], r"height\[1\] is nan"),
        ([0, 4], [1, 2], [1.0, 1.0], "merge 1 .* joins the nodes 4 and 2, but the largest node before it is 3"),
        ([0, 3], [3, 2], [1.0, 1.0], "merge 0 .* joins the nodes 0 and 3, but the largest node before it is 2"),
        ([0, 0], [1, 2], [1.0, 1.0], "node 0 is joined 2 times"),
        ([-1], [1], [1.0], "left holds -1 at position 0"),
        ([0, 2, 4, 6], [1, 3, 5, 7], [1.0] * 4, "merge 2 .* joins the nodes 4 and 5"),
    ],
)
def test_arrays_that_are_no_tree(left, right, height, message):
    with pytest.raises(ValueError, match=message):
        all_cuts([0, 0, 1], left, right, height)
