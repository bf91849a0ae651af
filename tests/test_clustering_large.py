"""Large and extreme graphs, merge trees and spanning trees; `differential.trees` compares trees with brute force."""

import tracemalloc
from fractions import Fraction
from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from engine_builders import assert_same, make, mention_graph
from hypothesis import given, settings, strategies as st
from oracles.graphs import edges_of
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from clustering import METHODS, Graph, average_tree, merge_tree, partition, spanning
from clustering.arrays import Edges
from clustering.average import _before
from clustering.dense import spanning_tree
from clustering.forest import EntityEdges
from clustering.ordering import by_weight

INF = np.inf
MILLION = 1_000_000
MANY_CYCLES = 200_000

following_mentions = pytest.mark.parametrize("method", ["arborescence", "minimax", "undirected"])


@pytest.mark.parametrize("order", ["ascending", "descending", "equal"])
@following_mentions
@pytest.mark.slow
def test_a_path_of_a_million_mentions(method, order):
    weight = np.arange(MILLION, dtype=np.float32) * {"ascending": 1, "descending": -1, "equal": 0}[order]
    nodes = np.arange(MILLION + 1, dtype=np.int32)
    result = partition(make(nodes[:-1], nodes[1:], weight, 1, MILLION + 1), method)
    assert (result.entity == 0).all()
    np.testing.assert_array_equal(result.parent[1:], nodes[:-1])
    np.testing.assert_array_equal(result.bottleneck[1:], np.maximum.accumulate(weight))
    if order == "ascending":
        assert result.path(MILLION) == nodes.tolist()


@pytest.mark.parametrize("end", [1, MANY_CYCLES])
@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("method", ["arborescence", "minimax"])
def test_many_cycles_inside_each_other(method, order, end):
    """A path walked in both directions is contracted mention by mention, until the only entity edge is found."""
    nodes = np.arange(1, MANY_CYCLES + 1, dtype=np.int32)
    weight = np.arange(MANY_CYCLES - 1) * (1.0 if order == "ascending" else -1.0)
    source = np.concatenate([nodes[:-1], nodes[1:], [0]])
    target = np.concatenate([nodes[1:], nodes[:-1], [end]])
    graph = make(source, target, np.concatenate([weight, weight, [2.0 * MANY_CYCLES]]), 1, MANY_CYCLES + 1)
    result = partition(graph, method)
    expected = nodes - 1 if end == 1 else np.append(nodes[1:], 0)
    np.testing.assert_array_equal(result.parent[1:], expected)
    assert (result.bottleneck[1:] == 2 * MANY_CYCLES).all()


def test_a_hub_that_many_cycles_go_through():
    """Edges between the hub and all others in both directions: contracted one after the other."""
    leaves = np.arange(2, MANY_CYCLES + 2)
    hub = np.ones(MANY_CYCLES, int)
    weight = np.random.default_rng(3).permutation(MANY_CYCLES)
    source, target = np.concatenate([leaves, hub, [0]]), np.concatenate([hub, leaves, [999]])
    graph = make(source, target, np.concatenate([weight, weight, [2 * MANY_CYCLES]]), 1, MANY_CYCLES + 2)
    for method in ("arborescence", "minimax"):
        parent = partition(graph, method).parent
        assert (parent[999], parent[1]) == (0, 999)
        assert (np.delete(parent, [0, 1, 999]) == 1).all()


def test_a_large_undirected_forest_weighs_what_scipy_finds():
    rng = np.random.default_rng(7)
    n_entities, n_nodes, n_edges = 1000, 100_000, 500_000
    source, target = rng.integers(0, n_nodes, (2, n_edges))
    weight = rng.permutation(n_edges) + 1.0
    result = partition(make(source, target, weight, n_entities, n_nodes), "undirected")
    both = make(np.append(source, target), np.append(target, source), np.append(weight, weight), n_entities, n_nodes)
    assert_same(result, partition(both, "arborescence"))
    assert_same(result, partition(both, "minimax"))
    low, high = np.sort([np.maximum(source - n_entities + 1, 0), np.maximum(target - n_entities + 1, 0)], axis=0)
    order = np.argsort(weight)
    order = order[low[order] != high[order]]
    order = order[np.unique(low[order] * n_nodes + high[order], return_index=True)[1]]  # the lightest copies
    ends = np.array([low[order], high[order]], np.int32)  # as SciPy 1.12 needs
    one_root = coo_array((weight[order], tuple(ends)), shape=(n_nodes, n_nodes))
    tree = minimum_spanning_tree(one_root.tocsr())
    np.testing.assert_array_equal(np.sort(edges_of(result).weight), np.sort(tree.data))


def test_edges_of_stride_zero_are_not_copied_and_more_than_can_be_sorted_refused():
    """The same edge from entity 0 to mention 1 again and again, in four bytes an array."""
    arrays = [np.broadcast_to(value, 10) for value in (np.int32(0), np.int32(1), np.float32(0.5))]
    graph = make(*arrays)
    assert graph.n_edges == 10
    assert graph.source.strides == graph.target.strides == graph.weight.strides == (0,)
    ids, weight = (np.broadcast_to(dtype(1), 2**31) for dtype in (np.int32, np.float32))
    with pytest.raises(ValueError, match=r"cannot sort 2,147,483,648 edges; the maximum is 2\^31 - 1"):
        by_weight(Edges(ids, ids, weight))


@pytest.mark.parametrize("method", ["arborescence", "undirected"])
def test_more_mentions_than_a_cache_holds(method):
    """Beyond 2^20 mentions edges are handled in blocks: chains of three on every entity, in any order of the edges."""
    n_chains = 400_000
    entities = np.arange(n_chains)
    first = n_chains + 3 * entities
    source = np.concatenate([entities, first, first + 1])
    target = np.concatenate([first, first + 1, first + 2])
    order = np.random.default_rng(0).permutation(len(source))
    weight = np.random.default_rng(1).random(len(source)).astype(np.float32)
    graph = Graph.from_edges(source[order], target[order], weight[order], n_entities=n_chains, n_nodes=4 * n_chains)
    result = partition(graph, method)
    np.testing.assert_array_equal(result.entity, np.repeat(entities, 3))
    np.testing.assert_array_equal(result.parent[target], source)


N_EDGES = 200_000


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("n_weights", [2, 1000, 50_000], ids=["long_runs", "runs", "short_runs"])
def test_edges_are_sorted_by_weight_source_and_target(n_weights, dtype):
    """Weights that differ only as float64 are runs of equal weights rounded to float32."""
    rng = np.random.default_rng(n_weights)
    weight = rng.integers(-n_weights // 2, n_weights // 2, N_EDGES) + rng.integers(0, 3, N_EDGES) * 1e-12
    weight = weight.astype(dtype)
    weight[::7] *= dtype(-0.0)
    edges = Edges(*rng.integers(0, 300, (2, N_EDGES)).astype(np.int32), weight)
    order = np.lexsort((edges.target, edges.source, edges.weight))
    for sorted_array, array in zip(by_weight(edges), edges, strict=True):
        np.testing.assert_array_equal(sorted_array, array[order])


def prim(source, target, weight, n_entities, n_nodes):
    """Return the parent of each node by Prim's algorithm with a queue of all edges that leave the reached nodes."""
    outward = [[] for _ in range(n_nodes)]
    for u, v, w in zip(source.tolist(), target.tolist(), weight.tolist(), strict=True):
        outward[u].append((w, u, v))
    parent = np.full(n_nodes, -1)
    waiting = [edge for u in range(n_entities) for edge in outward[u]]
    heapify(waiting)
    while waiting:
        _, u, v = heappop(waiting)
        if v >= n_entities and parent[v] < 0:
            parent[v] = u
            for edge in outward[v]:
                heappush(waiting, edge)
    return parent


@pytest.mark.parametrize("n_parts", [1, 2, 500])
@pytest.mark.parametrize("n_weights", [40, 1 << 20], ids=["ties", "distinct"])
def test_minimax_of_a_large_graph_without_light_entity_edges_is_what_prim_finds(n_parts, n_weights):
    """Mentions are in parts without an edge between them, so that the light edges reach all, half or few of them."""
    rng = np.random.default_rng(n_parts)
    n_entities, n_mentions = 1000, 24_000
    size = n_mentions // n_parts
    mentions = np.arange(n_mentions)
    target = np.repeat(mentions, 8)
    source = target // size * size + rng.integers(0, size, len(target))
    weight = np.append(rng.integers(0, n_weights, len(target)), n_weights + rng.integers(0, n_weights, n_mentions))
    source = np.append(source + n_entities, rng.integers(0, n_entities, n_mentions))
    target = np.append(target, mentions) + n_entities
    n_nodes = n_entities + n_mentions
    result = partition(make(source, target, weight, n_entities, n_nodes), "minimax")
    np.testing.assert_array_equal(result.parent, prim(source, target, weight, n_entities, n_nodes))


def test_cuts_leave_out_entities_keep_a_height_of_float32_and_refuse_nan():
    graph = mention_graph([0, 1, 2, 0, 3], [2, 3, 3, 1, 0], [-9.0, -9.0, 1.0, -9.0, -9.0], 2, n_entities=2)
    tree = merge_tree(graph)
    assert tree.n_leaves == 2
    assert (tree.source.tolist(), tree.target.tolist(), tree.height.tolist()) == ([0], [1], [1.0])
    assert tree.cut(0).tolist() == [0, 1]
    tree = merge_tree(mention_graph([0], [1], np.array([0.1], np.float32), 2))
    assert float(tree.height[0]) > 0.1
    assert (tree.cut(0.1).tolist(), tree.cut(0.0999).tolist()) == ([0, 0], [0, 1])
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


def test_quotients_and_thresholds_of_averages_are_exact():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        size, other = (int(x) for x in rng.integers(2**26, 2**27, 2))
        total = int(rng.integers(0, 2**52))
        near = total * other // size + int(rng.integers(-1, 2))
        if not 0 <= near < 2**53:
            continue
        expected = (-Fraction(total, size), 1) < (-Fraction(near, other), 2)
        assert _before(total, size, 1, near, other, 2) is expected
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
        joining, linked, hanging = spanning.spanning_forest(entity_edges, edges)
    joined, is_linked, hangs = kruskal(*problem)
    assert list(zip(joining.weight, joining.source, joining.target, strict=True)) == joined
    assert (linked.tolist(), hanging.tolist()) == (is_linked, hangs)


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
