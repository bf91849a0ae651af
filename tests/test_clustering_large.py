"""Large and extreme graphs: a million nodes, many cycles in each other, the order of edges against `numpy.lexsort`."""

from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from engine_builders import assert_same, make
from oracles.graphs import edges_of
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from clustering import Graph, partition
from clustering.arrays import Edges
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
