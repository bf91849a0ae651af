"""Merge trees, average linkage and spanning trees; `differential.trees` compares them with brute force and SciPy."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from engine_builders import mention_graph
from hypothesis import given, settings, strategies as st

from clustering import METHODS, Graph, average_tree, merge_tree, partition, spanning
from clustering.arrays import Edges
from clustering.average import _before
from clustering.dense import spanning_tree
from clustering.forest import EntityEdges


def test_cuts_leave_out_entities_keep_a_height_of_float32_and_refuse_nan():
    graph = mention_graph([0, 1, 2, 0, 3], [2, 3, 3, 1, 0], [-9.0, -9.0, 1.0, -9.0, -9.0], 2, n_entities=2)
    tree = merge_tree(graph)
    assert tree.n_leaves == 2
    assert (tree.source.tolist(), tree.target.tolist(), tree.height.tolist()) == ([0], [1], [1.0])
    assert tree.cut(0).tolist() == [0, 1]
    tree = merge_tree(mention_graph([0], [1], np.array([0.1], np.float32), 2))
    assert float(tree.height[0]) > 0.1
    assert tree.cut(0.1).tolist() == [0, 0]
    assert tree.cut(0.0999).tolist() == [0, 1]
    with pytest.raises(ValueError, match="nan"):
        tree.cut(np.nan)


def test_a_path_of_a_million_mentions_is_cut_anywhere():
    n = 1_000_000
    height = np.random.default_rng(0).permutation(n - 1).astype(np.float32)
    tree = merge_tree(mention_graph(np.arange(n - 1), np.arange(1, n), height, n))
    assert (tree.cut() == 0).all()
    heavy = np.flatnonzero(height > n // 2) + 1
    starts = np.concatenate([[0], heavy])
    expected = np.repeat(starts, np.diff(np.append(starts, n)))
    np.testing.assert_array_equal(tree.cut(n // 2), expected)


def test_quotients_that_floats_cannot_tell_apart_are_compared_exactly():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        size, other = (int(x) for x in rng.integers(2**26, 2**27, 2))
        total = int(rng.integers(0, 2**52))
        near = total * other // size + int(rng.integers(-1, 2))
        if not 0 <= near < 2**53:
            continue
        expected = (-Fraction(total, size), 1) < (-Fraction(near, other), 2)
        assert _before(total, size, 1, near, other, 2) is expected


def test_a_pair_at_the_threshold_is_merged():
    for dtype in (np.float32, np.float64):
        for threshold in np.arange(0, 100) / 100:
            graph = mention_graph([0], [1], np.array([threshold], dtype), 2)
            found = partition(graph, nil_linkage="average", nil_threshold=threshold)
            assert found.labels.tolist() == [0, 0], (dtype, threshold)


@pytest.mark.parametrize("method", METHODS)
def test_a_partition_links_alike_and_clusters_the_others_by_average_linkage(method):
    rng = np.random.default_rng(2)
    for _ in range(200):
        weight = rng.integers(0, 6, 40) / 6
        graph = mention_graph(*rng.integers(0, 15, (2, 40)), weight, 12, n_entities=3)
        single = partition(graph, method, (0.4, 0.2))
        found = partition(graph, method, (0.4, 0.2), nil_linkage="average", nil_threshold=0.5)
        np.testing.assert_array_equal(found.entity, single.entity)
        np.testing.assert_array_equal(found.parent, single.parent)
        nil = np.append(np.zeros(3, bool), found.entity < 0)
        inside = nil[graph.source] & nil[graph.target]  # whatever the mention threshold
        alone = mention_graph(graph.source[inside], graph.target[inside], weight[inside], 15)
        np.testing.assert_array_equal(found.labels[nil], average_tree(alone).cut(0.5)[nil])
        weakest = found.weakest_joins()
        assert (weakest <= 0.5).all()
        clusters, sizes = np.unique(found.labels[nil], return_counts=True)
        np.testing.assert_array_equal(np.flatnonzero(weakest > -np.inf), clusters[sizes > 1])


def test_a_large_cluster_is_bounded_in_memory():
    rng = np.random.default_rng(0)
    vectors, root = (rng.normal(size=shape).astype(np.float32) for shape in ((5000, 4), 5000))
    given = vectors.copy()
    tracemalloc.start()
    spanning_tree(vectors, root)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6, "5000 x 5000 products would be 200 MB"
    assert np.array_equal(vectors, given)


@st.composite
def problems(draw):
    """Entity edges of mentions, and edges between them from the smaller mention, with many ties."""
    n = draw(st.integers(1, 12))
    weight = st.integers(-3, 3).map(lambda w: w / 2)
    entity = [(draw(st.integers(-4, -1)), draw(weight)) if draw(st.booleans()) else (0, np.inf) for _ in range(n)]
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])))
    edges = sorted((draw(weight), *pair) for pair in pairs)
    return entity, draw(st.permutations(edges))


def arrays(entity, edges, dtype):
    ids = [np.array([edge[end] for edge in edges], np.int32) for end in (1, 2)]
    entity_edges = EntityEdges(np.array([e for e, _ in entity], np.int32), np.array([w for _, w in entity], dtype))
    return entity_edges, Edges(*ids, np.array([edge[0] for edge in edges], dtype))


def kruskal(entity, edges):
    """Join from the lightest edge to the heaviest; -1 is the component of all entities."""
    label = list(range(len(entity)))
    joining, hangs = [], [False] * len(entity)
    doors = [(w, e, m) for m, (e, w) in enumerate(entity) if e < 0]
    for w, u, v in sorted(doors + list(edges)):
        a, b = label[u] if u >= 0 else -1, label[v]
        if a == b:
            continue
        if u >= 0:
            joining.append((w, u, v))
        else:
            hangs[v] = True
        label = [min(a, b) if c in (a, b) else c for c in label]
    return joining, [c == -1 for c in label], hangs


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("least", "light"), [(1 << 17, 2), (1, 2), (1, 0), (1, 1)])
@given(problem=problems())
@settings(max_examples=50, derandomize=True)
def test_the_spanning_forest_is_that_of_kruskal(dtype, least, light, problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spanning, "_LEAST", least)
        patch.setattr(spanning, "_LIGHT", light)
        entity_edges, edges = arrays(*problem, dtype)
        found = spanning.spanning_forest(entity_edges, edges)
    joined, is_linked, hangs = kruskal(*problem)
    assert list(zip(found.joining.weight, found.joining.source, found.joining.target, strict=True)) == joined
    assert (found.is_linked.tolist(), found.hangs.tolist()) == (is_linked, hangs)


def test_threads_and_light_edges_first_change_no_bit_of_a_large_tree(monkeypatch):
    rng = np.random.default_rng(0)
    n, n_edges = 20_000, 1_300_000
    source, target = rng.integers(0, n, (2, n_edges))
    weight = (rng.integers(0, 5000, n_edges) / 5000).astype(np.float32)
    graph = Graph.from_edges(source, target, weight, n_entities=0, n_nodes=n)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    threaded = merge_tree(graph)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(spanning, "_LEAST", 1 << 30)
    plain = merge_tree(graph)
    for name in ("left", "right", "height", "source", "target"):
        np.testing.assert_array_equal(getattr(threaded, name), getattr(plain, name), err_msg=name)
