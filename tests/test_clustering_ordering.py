"""The order of edges against `numpy.lexsort`, and minimax forests large enough that heavy edges are sorted late."""

from heapq import heapify, heappop, heappush

import numpy as np
import pytest
from engine_builders import make

from clustering import partition
from clustering.arrays import Edges
from clustering.ordering import by_weight

N_EDGES = 200_000


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("n_weights", [2, 1000, 50_000], ids=["long_runs", "runs", "short_runs"])
def test_edges_are_sorted_by_weight_source_and_target(n_weights, dtype):
    """Weights that differ only as float64 are runs of equal weights rounded to float32."""
    rng = np.random.default_rng(n_weights)
    weight = (rng.integers(-n_weights // 2, n_weights // 2, N_EDGES) + rng.integers(0, 3, N_EDGES) * 1e-12).astype(
        dtype
    )
    weight[::7] *= dtype(-0.0)
    edges = Edges(*rng.integers(0, 300, (2, N_EDGES)).astype(np.int32), weight)
    order = np.lexsort((edges.target, edges.source, edges.weight))
    for sorted_array, array in zip(by_weight(edges), edges, strict=True):
        np.testing.assert_array_equal(sorted_array, array[order])


def test_more_edges_than_can_be_sorted_are_refused():
    ids, weight = (np.broadcast_to(dtype(1), 2**31) for dtype in (np.int32, np.float32))
    with pytest.raises(ValueError, match=r"cannot sort 2,147,483,648 edges; the maximum is 2\^31 - 1"):
        by_weight(Edges(ids, ids, weight))


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
