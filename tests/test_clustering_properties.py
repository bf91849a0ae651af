"""What must hold on every graph: invariances of the engine, and the consistency of its results."""

import numpy as np
import pytest
from engine_builders import every_method
from hypothesis import example, given, settings, strategies as st
from oracles.graphs import edges_of
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from clustering import Graph, average_tree, merge_tree, partition

INF = float("inf")

hypothesis = settings(max_examples=50, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def graphs(draw, distinct=False, max_nodes=12, max_edges=40):
    """(pairs, weights, n_entities, n_nodes), with copies, self-loops and edges into entities."""
    n_nodes = draw(st.integers(0, max_nodes))
    n_entities = draw(st.integers(0, min(n_nodes, 4)))
    node = st.integers(0, n_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=max_edges)) if n_nodes else []
    if distinct:
        pairs = list(dict.fromkeys(pairs))
        weights = [(w - 5) / 4 for w in draw(st.permutations(range(len(pairs))))]
    else:
        weight = st.integers(-3, 3).map(lambda w: w / 2)
        weights = draw(st.lists(weight, min_size=len(pairs), max_size=len(pairs)))
    return pairs, weights, n_entities, n_nodes


any_threshold = st.one_of(
    st.none(),
    st.sampled_from([-INF, -1.0, -0.5, -0.2, 0.0, 0.5, 1.0, INF]),
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, None]), st.sampled_from([-0.5, 0.0, 1.0, None])),
)


def build(pairs, weights, n_entities, n_nodes, *, ids=np.int32, floats=np.float64):
    source, target = np.array([u for u, _ in pairs], ids), np.array([v for _, v in pairs], ids)
    return Graph.from_edges(source, target, np.array(weights, floats), n_entities=n_entities, n_nodes=n_nodes)


def solve(graph, method="arborescence", threshold=None, **dtypes):
    return partition(build(*graph, **dtypes), method, threshold)


def fields(result):
    """Everything that a result says."""
    plain = {name: getattr(result, name) for name in ("labels", "entity", "parent", "weight", "bottleneck")}
    kept = zip(("source", "target", "kept weight"), edges_of(result), strict=True)
    weakest = zip(("weakest source", "weakest target", "weakest weight"), result.weakest_joins(), strict=True)
    return plain | dict(kept) | dict(weakest)


def assert_identical(left, right, *, dtypes=True):
    others = fields(right)
    for name, array in fields(left).items():
        other = others[name]
        np.testing.assert_array_equal(array, other, err_msg=name)
        assert array.dtype == other.dtype or not dtypes, name


# Invariances.


@every_method
@given(graph=graphs(), threshold=any_threshold, seed=seeds)
@example(graph=([(0, 1), (1, 0)], [1.0, 1.0], 0, 2), threshold=None, seed=0)
@hypothesis
def test_order_copies_and_edges_without_a_meaning_change_no_bit(method, graph, threshold, seed):
    """Shuffled, with equal and heavier copies, self-loops, edges into entities unless undirected, and trees turned."""
    pairs, weights, n_entities, n_nodes = graph
    rng = np.random.default_rng(seed)
    copied = rng.integers(0, len(pairs), 8).tolist() if pairs else []
    more = [(v, v) for v in range(n_nodes)]
    if method != "undirected":
        more += [(v, e) for v in range(n_nodes) for e in range(n_entities)]
    pairs = [*pairs, *(pairs[i] for i in copied), *more]
    weights = [*weights, *(weights[i] + rng.integers(0, 4) / 4 for i in copied), *[-9.0] * len(more)]
    order = rng.permutation(len(pairs)).tolist()
    other = [pairs[i] for i in order], [weights[i] for i in order], n_entities, n_nodes
    assert_identical(solve(graph, method, threshold), solve(other, method, threshold))
    turned = [ends[::-1] if rng.random() < 0.5 else ends for ends in other[0]], *other[1:]
    for tree_of in (merge_tree, average_tree):
        tree, of_other = tree_of(build(*graph)), tree_of(build(*turned))
        for name in ("left", "right", "height", "source", "target"):
            np.testing.assert_array_equal(getattr(tree, name), getattr(of_other, name), err_msg=name)


@every_method
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_the_types_of_ids_and_weights_change_nothing(method, graph, threshold):
    expected = solve(graph, method, threshold)
    for ids in (np.int64, np.uint8, np.uint64):
        assert_identical(expected, solve(graph, method, threshold, ids=ids))
    assert_identical(expected, solve(graph, method, threshold, floats=np.float32), dtypes=False)


# Consistency.


@every_method
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_the_weakest_join_is_the_heaviest_edge_a_nil_cluster_needs(method, graph, threshold):
    """Without the edges as heavy as it the cluster falls apart; with it the cluster holds."""
    result = solve(graph, method, threshold)
    n_nodes = len(result.labels)
    kept = result.nil_edges
    source, target, height = result.weakest_joins()
    sizes = np.bincount(result.labels, minlength=n_nodes)
    labels = result.labels[source]
    assert labels.tolist() == [v for v in range(result.n_entities, n_nodes) if sizes[v] > 1]
    assert (result.labels[target] == labels).all()
    given_edges = {(min(u, v), max(u, v), w) for u, v, w in zip(*map(np.ndarray.tolist, edges_of(result)), strict=True)}
    assert given_edges.issuperset(zip(source.tolist(), target.tolist(), height.tolist(), strict=True))
    for label, weight in zip(labels, height, strict=True):
        members = np.flatnonzero(result.labels == label)
        assert parts(kept, members, kept.weight <= weight, n_nodes) == 1
        assert parts(kept, members, kept.weight < weight, n_nodes) > 1


def parts(edges, members, chosen, n_nodes):
    ends = edges.source[chosen], edges.target[chosen]
    matrix = coo_array((np.ones(chosen.sum()), ends), shape=(n_nodes, n_nodes))
    return len(np.unique(connected_components(matrix, connection="weak")[1][members]))


# Thresholds.


def is_finer(fine, coarse):
    """Whether each cluster of the first lies in one cluster of the second."""
    return len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == len(set(fine.tolist()))


@given(graph=graphs(), bounds=st.tuples(*[st.sampled_from([-1.5, -1.0, -0.5, 0.0, 0.3, 0.5, 1.0, INF])] * 2))
@hypothesis
def test_thresholds_of_undirected_and_of_the_merge_tree_are_nested(graph, bounds):
    low, high = sorted(bounds)
    tree = merge_tree(build(*graph))
    assert is_finer(tree.cut(low), tree.cut(high))
    assert is_finer(solve(graph, "undirected", low).labels, solve(graph, "undirected", high).labels)


@pytest.mark.parametrize("method", ["arborescence", "minimax", "undirected"])
@given(graph=graphs(), threshold=st.sampled_from([-1.0, -0.5, 0.0, 0.3, 1.0, None]))
@hypothesis
def test_without_entities_every_method_cuts_the_merge_tree(method, graph, threshold):
    pairs, weights, _, n_nodes = graph
    discovery = pairs, weights, 0, n_nodes
    cut = merge_tree(build(*discovery)).cut(INF if threshold is None else threshold)
    np.testing.assert_array_equal(solve(discovery, method, threshold).labels, cut)


def test_thresholds_of_the_directed_methods_are_not_nested():
    """The example of semantics.md: mention 2 goes to entity 1 without a threshold, to entity 0 at 5."""
    graph = [(0, 2), (3, 2), (1, 3)], [4.0, 1.0, 10.0], 2, 4
    assert solve(graph).entity.tolist() == [1, 1]
    at_five = solve(graph, threshold=5)
    assert at_five.entity.tolist() == [0, -1]
    assert not is_finer(at_five.labels, solve(graph).labels)


def test_the_smallest_graph_on_which_arborescence_and_minimax_differ():
    graph = [(2, 3), (3, 4), (0, 4)], [-1.0, -5.0, -4.0], 3, 5
    assert solve(graph, "arborescence").path(4) == [2, 3, 4]
    assert solve(graph, "minimax").path(4) == [0, 4]
    assert solve(graph, "undirected").path(4) == [0, 4]
    assert solve(graph, "independent").path(4) == [0, 4]


def test_an_entity_edge_wins_a_tie_with_an_edge_into_a_cycle_inside_a_cycle():
    """1 and 2 are a cycle, with 3 another; entity 0 enters it at 3 as lightly as mention 4 at 1."""
    pairs, weights = [(2, 1), (1, 2), (3, 2), (1, 3), (0, 3), (4, 1), (0, 4)], [1.0, 1.0, 2.0, 2.5, 3.0, 3.0, 0.0]
    assert solve((pairs, weights, 1, 5)).parent.tolist() == [-1, 2, 3, 0, 0]
