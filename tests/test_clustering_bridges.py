"""Bridges: what each edge of a tree joins, against networkx and by hand."""

import networkx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from clustering import Edges, Graph, merge_tree
from clustering.bridges import bridges


@st.composite
def forests(draw):
    """Edges of a random forest in any order and direction, and its number of nodes."""
    n = draw(st.integers(1, 14))
    nodes = draw(st.permutations(range(n)))
    ends = []
    for place in range(1, n):
        above = draw(st.integers(-1, place - 1))
        if above >= 0:
            pair = nodes[above], nodes[place]
            ends.append(draw(st.sampled_from([pair, pair[::-1]])))
    ends = draw(st.permutations(ends))
    weight = draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=len(ends), max_size=len(ends)))
    source, target = np.array(ends, np.int32).reshape(-1, 2).T
    return Edges(source, target, np.array(weight, np.float32)), n


def counts(edges, n, end):
    """How many nodes hang together with each end."""
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    return [len(networkx.node_connected_component(graph, node)) for node in end]


@given(forests())
def test_sides_and_parts_by_removing_edges(forest):
    edges, n = forest
    given_edges = sorted(zip(*(array.tolist() for array in edges), strict=True), key=lambda edge: (edge[2], *edge[:2]))
    ranked = bridges(edges, n_nodes=n)
    found = list(zip(*(array.tolist() for array in ranked.edges), strict=True))
    assert sorted(found) == sorted(given_edges)
    for place, (edge, parts) in enumerate(zip(found, ranked.parts.tolist(), strict=True)):
        lighter = [other[:2] for other in given_edges[: given_edges.index(edge)]]
        others = [other[:2] for other in given_edges if other != edge]
        assert parts == counts(lighter, n, edge[:2])
        assert ranked.sides(place) == counts(others, n, edge[:2])
    keys = [(-min(parts), -edge[2], *edge[:2]) for edge, parts in zip(found, ranked.parts.tolist(), strict=True)]
    assert keys == sorted(keys)


def test_one_wrong_edge_between_two_clusters_comes_first():
    """0-1-2-3 and 4-5-6 are held by light edges, 2-5 is heavy; 7 hangs on 6 by a heavier one."""
    ends = [(0, 1, 0.0), (1, 2, 0.1), (2, 3, 0.0), (4, 5, 0.1), (5, 6, 0.0), (2, 5, 0.4), (6, 7, 0.5)]
    source, target, weight = map(np.array, zip(*ends, strict=True))
    tree = merge_tree(Graph.from_edges(source, target, weight, n_entities=0, n_nodes=8))
    ranked = bridges(Edges(tree.source, tree.target, tree.height), n_nodes=8)
    assert (ranked.edges.source[0], ranked.edges.target[0], ranked.edges.weight[0]) == (2, 5, 0.4)
    assert (ranked.parts[0].tolist(), ranked.sides(0)) == ([4, 3], [4, 4])


@pytest.mark.parametrize("ends", [[(0, 1), (1, 2), (2, 0)], [(0, 1), (1, 0)], [(1, 1)]])
def test_a_cycle_is_an_error(ends):
    source, target = np.array(ends).T
    with pytest.raises(ValueError, match="another path joins"):
        bridges(Edges(source, target, np.zeros(len(ends))), n_nodes=3)


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_path_of_a_million_nodes(shuffled):
    n = 1_000_000
    node = np.random.default_rng(0).permutation(n) if shuffled else np.arange(n)
    weight = np.abs(np.arange(n - 1) - 600_000).astype(np.float32)
    ranked = bridges(Edges(node[:-1], node[1:], -weight), n_nodes=n)
    assert ranked.edges.source[0] == node[600_000]
    assert ranked.parts[0].tolist() == ranked.sides(0) == [600_001, 399_999]
