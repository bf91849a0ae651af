"""The spanning tree of a complete graph against `partition` on that graph, built edge by edge."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import clustering.dense
from clustering import Graph, partition
from clustering.dense import spanning_tree
from clustering.vectors import unit

METRICS = ["dot", "cosine"]


def complete_graph(vectors, root, metric):
    n = len(vectors)
    rows = np.asarray(vectors, np.float32)
    rows = (unit(rows) if metric == "cosine" else rows).astype(np.float64)
    weight = -(rows @ rows.T) if metric == "dot" else 1 - rows @ rows.T
    if metric == "cosine":
        weight[np.abs(weight) < 1e-6] = 0  # what clustering.vectors takes for rounding
    source, target = np.nonzero(~np.eye(n, dtype=bool))
    return Graph.from_edges(
        np.r_[np.zeros(n, np.int64), source + 1],
        np.r_[np.arange(n) + 1, target + 1],
        np.r_[root, weight[source, target]].astype(np.float32),
        n_entities=1,
        n_nodes=n + 1,
    )


def grown(vectors, root, metric, whole):
    """The tree, from all products at once or from those of one node after the other, in small blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clustering.dense, "_WHOLE", whole)
        patch.setattr(clustering.dense, "_BLOCK", 3)
        return spanning_tree(vectors, root, metric=metric)


def drawn(seed, n, dim):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)).astype(np.float32), rng.normal(size=n).astype(np.float32)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("whole", [0, 4096])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 20), dim=st.integers(1, 6))
def test_equal_to_both_methods_where_weights_are_distinct(metric, whole, seed, n, dim):
    vectors, root = drawn(seed, n, dim)
    graph = complete_graph(vectors, root, metric)
    tree = grown(vectors, root, metric, whole)
    for method in ("minimax", "arborescence") if len(np.unique(graph.weight)) == n + n * (n - 1) // 2 else ("minimax",):
        expected = partition(graph, method)
        assert tree.parent.tolist() == (expected.parent[1:] - 1).tolist()
        assert tree.weight.tolist() == expected.weight[1:].tolist()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("whole", [0, 4096])
@settings(deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 9), dim=st.integers(1, 3))
def test_ties_are_those_of_minimax(metric, whole, seed, n, dim):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-1, 2, (n, dim)).astype(np.float32)
    root = rng.integers(-2, 2, n).astype(np.float32)
    expected = partition(complete_graph(vectors, root, metric), "minimax")
    assert grown(vectors, root, metric, whole).parent.tolist() == (expected.parent[1:] - 1).tolist()


def test_a_large_cluster_gets_its_rows_one_by_one(monkeypatch):
    vectors, root = drawn(0, 600, 16)
    at_once = spanning_tree(vectors, root)
    monkeypatch.setattr(clustering.dense, "_WHOLE", 0)
    one_by_one = spanning_tree(vectors, root)
    assert at_once.parent.tolist() == one_by_one.parent.tolist()
    assert at_once.weight.tolist() == one_by_one.weight.tolist()


def test_a_large_cluster_is_bounded_in_memory():
    vectors, root = drawn(0, 5000, 4)
    given = vectors.copy()
    tracemalloc.start()
    spanning_tree(vectors, root)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6, "5000 x 5000 products would be 200 MB"
    assert np.array_equal(vectors, given)


@pytest.mark.parametrize(
    ("vectors", "root", "wrong"),
    [
        (np.zeros(3), np.zeros(3), r"vectors has the shape \(3,\)"),
        (np.zeros((3, 2)), np.zeros(2), r"root has the shape \(2,\)"),
        (np.full((2, 2), np.nan), np.zeros(2), "finite"),
        (np.zeros((2, 2)), np.array([0, np.inf]), "finite"),
    ],
)
def test_errors(vectors, root, wrong):
    with pytest.raises(ValueError, match=wrong):
        spanning_tree(vectors, root)
