"""The spanning forest against Kruskal's algorithm by its definition, with and without light edges that come first."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from clustering import Graph, merge_tree, spanning
from clustering.arrays import Edges
from clustering.forest import EntityEdges


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
