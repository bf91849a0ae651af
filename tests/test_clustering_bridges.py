"""Bridges: what each edge of a tree joins, against networkx and by hand."""

import networkx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from clustering import Edges
from clustering.linkage import bridges


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
def test_parts_by_removing_edges(forest):
    edges, n = forest
    given_edges = sorted(zip(*(array.tolist() for array in edges), strict=True), key=lambda edge: (edge[2], *edge[:2]))
    ordered, parts = bridges(edges, n_nodes=n)
    assert list(zip(*(array.tolist() for array in ordered), strict=True)) == given_edges
    for place, edge in enumerate(given_edges):
        lighter = [other[:2] for other in given_edges[:place]]
        assert parts[place].tolist() == counts(lighter, n, edge[:2])


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
    ordered, parts = bridges(Edges(node[:-1], node[1:], -weight), n_nodes=n)
    assert ordered.source[-1] == node[600_000]
    assert parts[-1].tolist() == [600_001, 399_999]
