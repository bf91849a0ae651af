"""What must hold on every graph: invariances of the engine, and the consistency of its results."""

from itertools import pairwise

import numpy as np
import pytest
from engine_builders import every_method
from hypothesis import example, given, settings, strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from clustering import METHODS, Graph, merge_tree, partition

DIRECTED = [method for method in METHODS if method != "undirected"]
INF = float("inf")

hypothesis = settings(deadline=None, max_examples=50, derandomize=True)
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
    kept = zip(("source", "target", "kept weight"), result.edges(), strict=True)
    weakest = zip(("weakest source", "weakest target", "weakest weight"), result.weakest_joins(), strict=True)
    return plain | dict(kept) | dict(weakest)


def assert_identical(left, right, *, dtypes=True):
    others = fields(right)
    for name, array in fields(left).items():
        other = others[name]
        np.testing.assert_array_equal(array, other, err_msg=name)
        assert array.dtype == other.dtype or not dtypes, name


def entity_edges(graph):
    """The lightest entity edge of each mention, in either direction, and from the entity alone."""
    pairs, weights, n_entities, n_nodes = graph
    inward, either = np.full(n_nodes, INF), np.full(n_nodes, INF)
    for (u, v), w in zip(pairs, weights, strict=True):
        if u < n_entities <= v:
            inward[v] = min(w, inward[v])
        if (u < n_entities) != (v < n_entities):
            either[max(u, v)] = min(w, either[max(u, v)])
    return inward, either


def with_edges(graph, pairs, weights):
    return [*graph[0], *pairs], [*graph[1], *weights], *graph[2:]


BOTH_DIRECTIONS = [(0, 1), (1, 0)], [1.0, 1.0], 0, 2


def backwards(graph):
    return graph[0][::-1], graph[1][::-1], *graph[2:]


def shuffled(graph, seed):
    order = np.random.default_rng(seed).permutation(len(graph[0]))
    return [graph[0][i] for i in order], [graph[1][i] for i in order], *graph[2:]


# Invariances.


@every_method
@given(graph=graphs(), threshold=any_threshold, seed=seeds)
@example(graph=BOTH_DIRECTIONS, threshold=None, seed=0)
@hypothesis
def test_the_order_of_the_edges_changes_no_bit(method, graph, threshold, seed):
    for other in (backwards(graph), shuffled(graph, seed)):
        assert_identical(solve(graph, method, threshold), solve(other, method, threshold))


@given(graph=graphs(), seed=seeds)
@example(graph=BOTH_DIRECTIONS, seed=0)
@hypothesis
def test_the_order_of_the_edges_changes_no_bit_of_the_merge_tree(graph, seed):
    tree = merge_tree(build(*graph))
    for reordered in (backwards(graph), shuffled(graph, seed)):
        other = merge_tree(build(*reordered))
        for name in ("left", "right", "height", "source", "target"):
            np.testing.assert_array_equal(getattr(tree, name), getattr(other, name), err_msg=name)


@every_method
@given(graph=graphs(distinct=True), threshold=any_threshold, seed=seeds)
@hypothesis
def test_relabelling_the_mentions_permutes_the_result(method, graph, threshold, seed):
    pairs, weights, n_entities, n_nodes = graph
    rng = np.random.default_rng(seed)
    new = np.concatenate([np.arange(n_entities), n_entities + rng.permutation(n_nodes - n_entities)]).astype(int)
    renamed = [(new[u], new[v]) for u, v in pairs]
    before = solve(graph, method, threshold)
    after = solve((renamed, weights, n_entities, n_nodes), method, threshold)
    mentions = new[n_entities:]
    np.testing.assert_array_equal(after.entity[mentions - n_entities], before.entity)
    np.testing.assert_array_equal(after.bottleneck[new], before.bottleneck)
    np.testing.assert_array_equal(after.weight[new], before.weight)
    np.testing.assert_array_equal(after.parent[new], np.append(new, -1)[before.parent])
    together = before.labels[:, None] == before.labels
    np.testing.assert_array_equal(after.labels[new][:, None] == after.labels[new], together)


@every_method
@given(graph=graphs(), threshold=any_threshold, data=st.data())
@hypothesis
def test_heavier_and_equal_copies_of_edges_change_nothing(method, graph, threshold, data):
    pairs, weights, *_ = graph
    copies = data.draw(st.lists(st.integers(0, max(len(pairs) - 1, 0)), max_size=8 * bool(pairs)))
    heavier = data.draw(st.lists(st.integers(0, 4), min_size=len(copies), max_size=len(copies)))
    added = [pairs[i] for i in copies], [weights[i] + h / 4 for i, h in zip(copies, heavier, strict=True)]
    assert_identical(solve(graph, method, threshold), solve(with_edges(graph, *added), method, threshold))


@every_method
@given(graph=graphs(), data=st.data())
@hypothesis
def test_edges_that_exact_pruning_drops_change_nothing(method, graph, data):
    """Directed: those heavier than the lightest entity edge of their target; undirected: of both ends."""
    *_, n_entities, n_nodes = graph
    inward, either = entity_edges(graph)
    bound = either if method == "undirected" else inward
    candidates = [
        (u, v)
        for u in range(n_entities, n_nodes)
        for v in range(n_entities, n_nodes)
        if bound[v] < INF and (bound[u] < INF or method != "undirected")
    ]
    pairs = data.draw(st.lists(st.sampled_from(candidates), max_size=12)) if candidates else []
    weights = [max(bound[v], bound[u] if method == "undirected" else -INF) + 0.25 for u, v in pairs]
    assert_identical(solve(graph, method), solve(with_edges(graph, pairs, weights), method))


@pytest.mark.parametrize("method", ["arborescence", "minimax"])
def test_an_edge_heavier_than_one_entity_edge_alone_matters_without_directions(method):
    """For `undirected`, pruning by one end would be wrong: 2 hangs on 1, whose entity edge is lighter."""
    graph = [(0, 1), (2, 1)], [1.0, 2.0], 1, 3
    assert solve(graph, method).entity.tolist() == [0, -1]
    assert solve(graph, "undirected").entity.tolist() == [0, 0]


@every_method
@given(graph=graphs(), data=st.data())
@hypothesis
def test_a_second_entity_edge_changes_nothing(method, graph, data):
    *_, n_entities, n_nodes = graph
    inward, either = entity_edges(graph)
    bound = either if method == "undirected" else inward
    open_mentions = [v for v in range(n_entities, n_nodes) if bound[v] < INF]
    seconds = [(e, v) for e in range(n_entities) for v in open_mentions]
    pairs = data.draw(st.lists(st.sampled_from(seconds), max_size=10)) if seconds else []
    weights = [bound[v] + 0.5 for _, v in pairs]
    if method == "undirected" and data.draw(st.booleans()):
        pairs = [(v, e) for e, v in pairs]
    assert_identical(solve(graph, method), solve(with_edges(graph, pairs, weights), method))


@pytest.mark.parametrize("method", DIRECTED)
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_edges_into_entities_mean_nothing_to_the_directed_methods(method, graph, threshold):
    *_, n_entities, n_nodes = graph
    pairs = [(v, e) for v in range(n_nodes) for e in range(n_entities)]
    more = with_edges(graph, pairs, [-9.0] * len(pairs))
    assert_identical(solve(graph, method, threshold), solve(more, method, threshold))


@every_method
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_self_loops_mean_nothing(method, graph, threshold):
    loops = [(v, v) for v in range(graph[3])]
    more = with_edges(graph, loops, [-9.0] * len(loops))
    assert_identical(solve(graph, method, threshold), solve(more, method, threshold))


@given(graph=graphs())
@hypothesis
def test_undirected_does_not_see_directions(graph):
    pairs, weights, n_entities, n_nodes = graph
    turned = [(v, u) for u, v in pairs], weights, n_entities, n_nodes
    left, right = solve(graph, "undirected"), solve(turned, "undirected")
    for name in ("labels", "entity", "parent", "weight", "bottleneck"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@every_method
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_the_types_of_ids_and_weights_change_nothing(method, graph, threshold):
    expected = solve(graph, method, threshold)
    for ids in (np.int64, np.uint8, np.uint64):
        assert_identical(expected, solve(graph, method, threshold, ids=ids))
    assert_identical(expected, solve(graph, method, threshold, floats=np.float32), dtypes=False)


@every_method
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_a_threshold_does_what_leaving_out_the_heavier_edges_does(method, graph, threshold):
    pairs, weights, n_entities, n_nodes = graph
    bounds = threshold if isinstance(threshold, tuple) else (threshold, threshold)
    entity_limit, mention_limit = (INF if bound is None else bound for bound in bounds)
    light = [
        i for i, (u, v) in enumerate(pairs) if weights[i] <= (entity_limit if min(u, v) < n_entities else mention_limit)
    ]
    rest = [pairs[i] for i in light], [weights[i] for i in light], n_entities, n_nodes
    assert_identical(solve(graph, method, threshold), solve(rest, method))


# Consistency.


@every_method
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_a_cluster_holds_one_entity_at_most_and_is_named_by_its_smallest_node(method, graph, threshold):
    *_, n_entities, n_nodes = graph
    result = solve(graph, method, threshold)
    for label in np.unique(result.labels):
        members = np.flatnonzero(result.labels == label)
        assert members[0] == label
        assert (members < n_entities).sum() <= 1
        expected = label if label < n_entities else -1
        assert (result.entity[members[members >= n_entities] - n_entities] == expected).all()
    assert len(result.labels) == len(result.parent) == len(result.weight) == len(result.bottleneck) == n_nodes
    assert len(result.entity) == n_nodes - n_entities
    assert result.n_entities == n_entities


@every_method
@given(graph=graphs(), threshold=any_threshold)
@hypothesis
def test_parent_path_and_bottleneck_agree(method, graph, threshold):
    pairs, weights, n_entities, n_nodes = graph
    given_edges = {}
    for (u, v), w in zip(pairs, weights, strict=True):
        given_edges[u, v] = min(w, given_edges.get((u, v), INF))
    result = solve(graph, method, threshold)
    for node in range(n_nodes):
        path = result.path(node)
        assert path[-1] == node
        steps = [result.weight[v] for v in path[1:]]
        assert [result.parent[v] for v in path] == [-1, *path[:-1]]
        assert {result.labels[v] for v in path} == {result.labels[node]}
        for (u, v), weight in zip(pairwise(path), steps, strict=True):
            back = given_edges.get((v, u), INF) if method == "undirected" else INF
            assert weight == min(given_edges.get((u, v), INF), back)
        if node < n_entities:
            assert (path, result.bottleneck[node]) == ([node], -INF)
        elif result.entity[node - n_entities] < 0:
            assert (path, result.bottleneck[node]) == ([node], INF)
        else:
            assert path[0] == result.entity[node - n_entities]
            assert result.bottleneck[node] == max(steps)


@pytest.mark.parametrize("method", ["arborescence", "minimax"])
@given(graph=graphs(), limit=st.sampled_from([None, -1.0, 0.0, 0.5]))
@hypothesis
def test_nil_is_what_no_entity_reaches_and_nil_clusters_are_weakly_connected_components(method, graph, limit):
    pairs, weights, n_entities, n_nodes = graph
    edges = [ends for ends, w in zip(pairs, weights, strict=True) if limit is None or w <= limit]
    reached = np.arange(n_nodes) < n_entities
    for _ in range(n_nodes):
        for u, v in edges:
            reached[v] |= reached[u]
    result = solve(graph, method, limit)
    np.testing.assert_array_equal(result.entity >= 0, reached[n_entities:])
    nil = np.array([ends for ends in edges if not reached[list(ends)].any()], int).reshape(-1, 2)
    matrix = coo_array((np.ones(len(nil)), nil.T), shape=(n_nodes, n_nodes))
    component = connected_components(matrix, connection="weak")[1] if n_nodes else np.empty(0, int)
    for node in np.flatnonzero(~reached):
        assert result.labels[node] == np.flatnonzero(component == component[node])[0]
    kept = {(int(u), int(v)) for u, v, _ in zip(*result.edges(), strict=True) if not reached[v]}
    assert kept == {(u, v) for u, v in nil.tolist() if u != v}


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
    given_edges = {(min(u, v), max(u, v), w) for u, v, w in zip(*map(np.ndarray.tolist, result.edges()), strict=True)}
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


def test_a_pair_of_thresholds_bounds_each_kind_of_edge():
    graph = [(0, 1), (1, 2), (0, 3)], [1.0, 5.0, 2.0], 1, 4
    assert solve(graph, threshold=(1, 5)).entity.tolist() == [0, 0, -1]
    assert solve(graph, threshold=(2, 4)).entity.tolist() == [0, -1, 0]
    assert solve(graph, threshold=(None, 4)).entity.tolist() == [0, -1, 0]
    assert solve(graph, threshold=(0, None)).labels.tolist() == [0, 1, 1, 3]
