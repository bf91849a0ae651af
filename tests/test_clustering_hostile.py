"""Bad input, extreme graphs: a clear error or the right answer (hostile-inputs.md)."""

import os
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from clustering import METHODS, Graph, merge_tree, partition

INF = np.inf
NAN = np.nan
MILLION = 1_000_000
MANY_CYCLES = 200_000

every_method = pytest.mark.parametrize("method", METHODS)
following_mentions = pytest.mark.parametrize("method", ["arborescence", "minimax", "undirected"])
slow = pytest.mark.skipif(not os.environ.get("ARBO_SLOW_TESTS"), reason="takes long: ARBO_SLOW_TESTS=1")


def make(source, target, weight, n_entities=1, n_nodes=3):
    return Graph.from_edges(source, target, weight, n_entities=n_entities, n_nodes=n_nodes)


def fields(result):
    return result.labels, result.entity, result.parent, result.weight, result.bottleneck


def assert_same(left, right):
    for a, b in zip(fields(left), fields(right), strict=True):
        np.testing.assert_array_equal(a, b)


# Input that is refused.


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_weight_that_is_not_finite_is_named_with_its_row(bad, dtype):
    with pytest.raises(ValueError, match=rf"weight\[2\]={bad} is not finite"):
        make([0, 0, 1], [1, 2, 2], np.array([1, 2, bad], dtype))


@pytest.mark.parametrize("name", ["source", "target"])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("bad", [-1, 3, 100])
def test_an_id_out_of_range_is_named_with_its_row(name, dtype, bad):
    ends = {"source": [0, 0, 1], "target": [1, 2, 2]}
    ends[name] = np.array([0, bad, 1], dtype)
    with pytest.raises(ValueError, match=rf"{name}\[1\]={bad} is outside the nodes 0 \.\. 2"):
        make(**ends, weight=[1.0, 2.0, 3.0])


@pytest.mark.parametrize("bad", [2**31, 2**32, 2**32 + 1, 2**63 - 1, -(2**32)])
def test_an_id_that_would_wrap_around_to_a_node_is_refused(bad):
    with pytest.raises(ValueError, match=rf"source\[0\]={bad} "):
        make(np.array([bad]), [1], [1.0])
    if bad > 0:
        with pytest.raises(ValueError, match=rf"target\[0\]={bad} "):
            make([1], np.array([bad], np.uint64), [1.0])


@pytest.mark.parametrize("lengths", [(2, 1, 1), (1, 2, 1), (1, 1, 2), (0, 1, 1), (1, 1, 0)])
def test_arrays_of_different_lengths_are_refused_with_the_lengths(lengths):
    arrays = [np.zeros(length, dtype) for length, dtype in zip(lengths, (int, int, float), strict=True)]
    with pytest.raises(ValueError, match=", ".join(map(str, lengths))):
        make(*arrays)


@pytest.mark.parametrize(("n_entities", "n_nodes"), [(4, 3), (-1, 3), (0, -1), (1, 0), (NAN, 3)])
def test_impossible_numbers_of_nodes_are_refused(n_entities, n_nodes):
    with pytest.raises(ValueError, match=f"n_entities={n_entities}.*n_nodes={n_nodes}"):
        make([], [], [], n_entities, n_nodes)


@pytest.mark.parametrize(("n_entities", "n_nodes"), [(1.5, 3), (1, 2.5)])
def test_a_fraction_of_a_node_is_refused(n_entities, n_nodes):
    with pytest.raises((TypeError, ValueError)):
        make([0], [1], [1.0], n_entities, n_nodes)


@pytest.mark.parametrize(
    "bad", [[0.0, 1.0], [True, False], ["0", "1"], [None, 0], [2**70, 0], [[0, 1]], 1, [[0], [1]]], ids=str
)
@pytest.mark.parametrize("name", ["source", "target"])
def test_ids_that_are_no_flat_array_of_integers_are_refused(name, bad):
    ends = {"source": [0, 0], "target": [1, 2]} | {name: bad}
    with pytest.raises(ValueError, match=f"{name} must be a flat array of integers"):
        make(**ends, weight=[1.0, 2.0])


@pytest.mark.parametrize("bad", [["a", "b"], [1j, 2], [True, False], [None, 1.0], [[1.0, 2.0]], 1.0], ids=str)
def test_weights_that_are_no_flat_array_of_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="weight must be a flat array of numbers"):
        make([0, 0], [1, 2], bad)


@pytest.mark.parametrize("method", ["", "Arborescence", "mst", None])
def test_an_unknown_method_is_refused_and_the_known_ones_named(method):
    with pytest.raises(ValueError, match=rf"method={method!r}.*arborescence, minimax, undirected, independent"):
        partition(make([0], [1], [1.0]), method)


@every_method
@pytest.mark.parametrize("threshold", [NAN, (NAN, 1.0), (1.0, NAN), (None, NAN), np.float32(NAN)], ids=str)
def test_a_threshold_that_is_nan_is_refused(method, threshold):
    with pytest.raises(ValueError, match="not a number"):
        partition(make([0], [1], [1.0]), method, threshold)


@pytest.mark.parametrize("threshold", [(), (1.0,), (1.0, 2.0, 3.0)])
def test_a_threshold_is_one_number_or_two(threshold):
    with pytest.raises(ValueError, match="pair"):
        partition(make([0], [1], [1.0]), threshold=threshold)


@pytest.mark.parametrize("node", [-1, 3, 10**12])
def test_the_path_of_a_node_that_does_not_exist_is_refused(node):
    with pytest.raises(IndexError, match=rf"node {node} is outside 0 \.\. 2"):
        partition(make([0], [1], [1.0])).path(node)


# Thresholds.


@every_method
def test_an_infinite_threshold_keeps_all_edges(method):
    graph = make([0, 1, 0], [1, 2, 2], [1.0, 2.0, 3.0])
    expected = partition(graph, method)
    for threshold in (INF, 1e300, (INF, INF), (None, INF), (INF, None)):
        assert_same(partition(graph, method, threshold), expected)


@every_method
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [-INF, -1e300, 0.5, (-INF, -INF)])
def test_a_threshold_below_every_edge_leaves_every_node_alone(method, dtype, threshold):
    result = partition(make([0, 1, 0], [1, 2, 2], np.array([1, 2, 3], dtype)), method, threshold)
    assert result.labels.tolist() == [0, 1, 2]
    assert result.entity.tolist() == [-1, -1]
    assert result.parent.tolist() == [-1, -1, -1]
    assert result.bottleneck.tolist() == [-INF, INF, INF]
    assert [len(column) for column in result.edges()] == [0, 0, 0]


@every_method
def test_a_threshold_is_rounded_as_the_weights_are(method):
    """float32(0.1) is more than 0.1, and yet exactly at the threshold 0.1."""
    graph = make([0, 0], [1, 2], np.array([0.1, 0.3], np.float32))
    assert float(graph.weight[0]) > 0.1
    assert partition(graph, method, 0.1).entity.tolist() == [0, -1]
    assert partition(graph, method, (0.3, 0.0)).entity.tolist() == [0, 0]
    assert partition(graph, method, 0.0999).entity.tolist() == [-1, -1]
    assert partition(graph, method, np.float32(0.1)).entity.tolist() == [0, -1]


@every_method
def test_an_edge_exactly_at_the_threshold_stays_and_the_next_float_does_not(method):
    limit = 0.7
    graph = make([0, 0], [1, 2], [limit, np.nextafter(limit, 1)])
    assert partition(graph, method, limit).entity.tolist() == [0, -1]


# Nothing at all, and weights of zero.


@every_method
@pytest.mark.parametrize(("n_entities", "n_nodes"), [(0, 0), (2, 2), (0, 2), (1, 2)])
def test_a_graph_without_edges_leaves_every_node_alone(method, n_entities, n_nodes):
    result = partition(make([], [], [], n_entities, n_nodes), method, 0.5)
    assert result.labels.tolist() == list(range(n_nodes))
    assert result.entity.tolist() == [-1] * (n_nodes - n_entities)
    assert result.bottleneck.tolist() == [-INF] * n_entities + [INF] * (n_nodes - n_entities)
    assert [len(column) for column in (*result.edges(), *result.weakest_joins())] == [0] * 6
    assert len(result.to_networkx()) == n_nodes


@every_method
@pytest.mark.parametrize("zero", [0.0, -0.0, 0])
def test_an_edge_of_weight_zero_is_an_edge(method, zero):
    result = partition(make([0, 0, 0], [1, 2, 2], [zero, zero, 1]), method, 0)
    assert result.entity.tolist() == [0, 0]
    assert result.bottleneck.tolist() == [-INF, 0, 0]
    assert result.to_networkx().number_of_edges() == 2


@every_method
def test_zero_and_minus_zero_are_tied(method):
    for weight in ([0.0, -0.0], [-0.0, 0.0]):
        assert partition(make([0, 1], [2, 2], weight, n_entities=2), method).entity.tolist() == [0]
        assert partition(make([1, 0], [2, 2], weight, n_entities=2), method).entity.tolist() == [0]


@every_method
def test_self_loops_edges_between_entities_and_copies_are_welcome(method):
    graph = make([0, 0, 1, 2, 2, 1, 1], [0, 1, 0, 2, 2, 2, 2], [-9, -9, -9, -9, -9, 5, 3.0], n_entities=2)
    result = partition(graph, method)
    assert result.labels.tolist() == [0, 1, 1]
    assert result.weight[2] == 3


def test_only_self_loops_join_nothing():
    graph = make([0, 1, 2], [0, 1, 2], [-1.0, -1.0, -1.0])
    assert all(partition(graph, method).labels.tolist() == [0, 1, 2] for method in METHODS)
    assert merge_tree(graph).cut().tolist() == [0, 1]


# Arrays of every kind.


def some_graph():
    rng = np.random.default_rng(5)
    source, target = rng.integers(0, 60, (2, 300)).astype(np.int32)
    return source, target, rng.permutation(300).astype(np.float32)


KINDS = {
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype),
    "every second": lambda a: np.repeat(a, 2)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "a column": lambda a: np.column_stack([a, a])[:, 1],
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "a list": lambda a: a.tolist(),
    "not aligned": lambda a: np.frombuffer(b"?" + a.tobytes(), a.dtype, offset=1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_layout_of_the_arrays_does_not_matter(kind):
    arrays = some_graph()
    graph = make(*map(KINDS[kind], arrays), 6, 60)
    for method in METHODS:
        assert_same(partition(graph, method), partition(make(*arrays, 6, 60), method))
    np.testing.assert_array_equal(merge_tree(graph).cut(), merge_tree(make(*arrays, 6, 60)).cut())


@every_method
def test_the_inputs_are_not_modified_and_stay_writeable(method):
    arrays = some_graph()
    copies = [array.copy() for array in arrays]
    graph = make(*arrays, 6, 60)
    partition(graph, method, 200).weakest_joins()
    merge_tree(graph).cut(100)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_the_right_type_are_shared_and_read_only(dtype):
    source, target, weight = some_graph()
    weight = weight.astype(dtype)
    graph = make(source, target, weight, 6, 60)
    for given, kept in ((source, graph.source), (target, graph.target), (weight, graph.weight)):
        assert np.shares_memory(given, kept)
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0


@pytest.mark.parametrize(
    ("given", "kept"),
    [(np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (np.int32, np.float64)],
)
def test_weights_become_float32_or_float64(given, kept):
    graph = make([0, 0], [1, 2], np.array([-1, 2], given))
    assert graph.weight.dtype == kept
    assert partition(graph).weight.dtype == kept
    assert partition(graph).bottleneck.tolist() == [-INF, -1, 2]
    assert graph.source.dtype == np.int32


# Neighbour lists.


def test_neighbour_lists_become_edges_into_their_mention():
    mentions = np.array([[1, 2], [0, -1], [-1, -1]]), np.array([[0.5, 0.6], [0.5, NAN], [INF, 9.0]])
    entities = np.array([[1], [-1], [0]]), np.array([[2.0], [INF], [3.0]])
    graph = Graph.from_neighbors(mentions, entities, n_entities=2)
    edges = sorted(zip(graph.source.tolist(), graph.target.tolist(), graph.weight.tolist(), strict=True))
    assert edges == [(0, 4, 3.0), (1, 2, 2.0), (2, 3, 0.5), (3, 2, 0.5), (4, 2, 0.6)]
    assert (graph.n_entities, graph.n_nodes) == (2, 5)


@pytest.mark.parametrize("n_mentions", [0, 1, 3])
@pytest.mark.parametrize("k", [0, 2])
def test_neighbour_lists_may_be_empty(n_mentions, k):
    none = np.full((n_mentions, k), -1), np.full((n_mentions, k), INF, np.float32)
    assert Graph.from_neighbors(none).n_nodes == n_mentions
    assert partition(Graph.from_neighbors(none, none, n_entities=4)).entity.tolist() == [-1] * n_mentions


@pytest.mark.parametrize("bad", [2, 3, 99])
def test_neighbour_lists_with_an_entity_that_does_not_exist_are_refused(bad):
    """The id must not turn into that of a mention."""
    mentions = np.array([[1], [0]]), np.array([[1.0], [1.0]])
    with pytest.raises(ValueError, match=str(bad)):
        Graph.from_neighbors(mentions, (np.array([[0], [bad]]), np.array([[1.0], [1.0]])), n_entities=2)


def test_neighbour_lists_with_a_mention_that_does_not_exist_are_refused():
    mentions = np.array([[1], [2]]), np.array([[1.0], [1.0]])
    with pytest.raises(ValueError, match="outside"):
        Graph.from_neighbors(mentions)


def test_neighbour_lists_of_different_shapes_are_refused():
    one, two = (np.zeros((1, 1), int), np.zeros((1, 1))), (np.zeros((2, 1), int), np.zeros((2, 1)))
    with pytest.raises(ValueError, match=r"2 .*1"):
        Graph.from_neighbors(two, one, n_entities=1)
    with pytest.raises((ValueError, IndexError)):
        Graph.from_neighbors((two[0], np.zeros((2, 3))))
    with pytest.raises((ValueError, IndexError)):
        Graph.from_neighbors((two[0], np.zeros((3, 1))))


# A million nodes.


@pytest.mark.parametrize("order", ["ascending", "descending", "equal"])
@following_mentions
@pytest.mark.slow
def test_a_path_of_a_million_mentions(method, order):
    weight = {
        "ascending": np.arange(MILLION),
        "descending": -np.arange(MILLION),
        "equal": np.zeros(MILLION),
    }[order].astype(np.float32)
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


@pytest.mark.parametrize("method", ["arborescence", "minimax"])
def test_a_large_ring(method):
    nodes = np.arange(1, MANY_CYCLES + 1, dtype=np.int32)
    source, target = np.append(nodes, 0), np.append(np.roll(nodes, -1), 500)
    graph = make(source, target, np.append(np.zeros(MANY_CYCLES), 1), 1, MANY_CYCLES + 1)
    parent = partition(graph, method).parent
    np.testing.assert_array_equal(np.delete(parent, [0, 1, 500]), np.delete(nodes - 1, [0, 499]))
    assert (parent[1], parent[500]) == (MANY_CYCLES, 0)
    alone = partition(graph, method, threshold=0)
    assert (alone.labels[1:] == 1).all()
    assert (alone.parent == -1).all()


@following_mentions
def test_a_mention_with_a_million_outgoing_edges(method):
    leaves = np.arange(2, MILLION + 2)
    source, target = np.append(np.ones(MILLION, int), 0), np.append(leaves, 1)
    result = partition(make(source, target, np.append(-leaves, 7.0), 1, MILLION + 2), method)
    assert (result.entity == 0).all()
    assert (result.parent[2:] == 1).all()
    assert (result.bottleneck[2:] == 7).all()


@every_method
@pytest.mark.slow
def test_a_mention_with_a_million_incoming_edges(method):
    """Each of the others has its own entity, the hub none: it takes the lightest."""
    n = MILLION
    entities, mentions, hub = np.arange(n), np.arange(n, 2 * n), 2 * n
    weight = np.random.default_rng(2).permutation(n).astype(np.float32)
    source, target = np.concatenate([entities, mentions]), np.concatenate([mentions, np.full(n, hub)])
    result = partition(make(source, target, np.concatenate([np.full(n, -1), weight]), n, 2 * n + 1), method)
    np.testing.assert_array_equal(result.entity[:-1], entities)
    lightest = int(np.argmin(weight))
    assert result.entity[-1] == (-1 if method == "independent" else lightest)
    assert result.parent[hub] == (-1 if method == "independent" else n + lightest)


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


@every_method
def test_an_entity_with_a_million_mentions(method):
    mentions = np.arange(1, MILLION + 1)
    result = partition(make(np.zeros(MILLION, int), mentions, -mentions, 1, MILLION + 1), method)
    assert (result.labels == 0).all()
    np.testing.assert_array_equal(result.bottleneck[1:], -mentions)


def test_a_mention_with_a_million_entities():
    weight = np.random.default_rng(4).permutation(MILLION)
    graph = make(np.arange(MILLION), np.full(MILLION, MILLION), weight, MILLION, MILLION + 1)
    nearest = int(np.argmin(weight))
    for method in METHODS:
        result = partition(graph, method)
        assert result.entity.tolist() == [nearest]
        np.testing.assert_array_equal(result.labels, np.append(np.arange(MILLION), nearest))


@every_method
def test_many_equal_weights(method):
    """Whatever the order of the edges, each mention hangs on its smallest source."""
    rng = np.random.default_rng(6)
    n = MILLION // 50
    target = np.repeat(np.arange(10, n + 10), 10)
    source = rng.integers(0, target)  # of smaller id: no cycles, so that all mentions are reached
    order = rng.permutation(len(source))
    result = partition(make(source, target, np.ones(len(source)), 10, n + 10), method)
    assert_same(result, partition(make(source[order], target[order], np.ones(len(source)), 10, n + 10), method))
    if method == "arborescence":
        np.testing.assert_array_equal(result.parent[10:], source.reshape(n, 10).min(axis=1))
    if method != "independent":
        assert (result.bottleneck[10:] == 1).all()


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
    one_root = coo_array((weight[order], (low[order], high[order])), shape=(n_nodes, n_nodes))
    np.testing.assert_array_equal(np.sort(result.edges().weight), np.sort(minimum_spanning_tree(one_root.tocsr()).data))


# More than 2^31 edges.

MANY = 2**31 + 10


def repeated(n_edges):
    """The same edge from entity 0 to mention 1 again and again, in four bytes an array."""
    values = np.int32(0), np.int32(1), np.float32(0.5)
    return [np.broadcast_to(value, n_edges) for value in values]


@pytest.mark.parametrize("n_edges", [10, pytest.param(MANY, marks=slow)])
def test_edges_of_stride_zero_are_not_copied(n_edges):
    arrays = repeated(n_edges)
    tracemalloc.start()
    try:
        graph = make(*arrays)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert graph.n_edges == n_edges
    assert graph.source.strides == graph.target.strides == graph.weight.strides == (0,)


@slow
@every_method
def test_more_edges_than_an_int32_can_count(method):
    """Runs with ARBO_SLOW_TESTS=1: 10 to 20 s a method."""
    result = partition(make(*repeated(MANY)), method)
    assert result.labels.tolist() == [0, 0, 2]
    assert result.parent.tolist() == [-1, 0, -1]
    assert [column.tolist() for column in result.edges()] == [[0], [1], [0.5]]


@slow
@every_method
def test_edges_that_matter_beyond_the_reach_of_an_int32(method):
    """Runs with ARBO_SLOW_TESTS=1: 10 s a method; zeros never written take no memory on Linux."""
    source, target, weight = np.zeros(MANY, np.int32), np.zeros(MANY, np.int32), np.zeros(MANY, np.float32)
    source[-4:], target[-4:], weight[-4:] = [0, 1, 2, 4], [1, 2, 3, 5], [3, 2, 1, 5]
    result = partition(make(source, target, weight, 1, 6), method)
    if method == "independent":
        assert result.parent.tolist() == [-1, 0, -1, -1, -1, -1]
        assert result.labels.tolist() == [0, 0, 2, 2, 4, 4]
    else:
        assert result.parent.tolist() == [-1, 0, 1, 2, -1, -1]
        assert result.labels.tolist() == [0, 0, 0, 0, 4, 4]
        assert result.bottleneck.tolist() == [-INF, 3, 3, 3, INF, INF]


@slow
def test_the_merge_tree_of_more_edges_than_an_int32_can_count():
    """Runs with ARBO_SLOW_TESTS=1: about 10 s."""
    source, target, weight = np.zeros(MANY, np.int32), np.zeros(MANY, np.int32), np.zeros(MANY, np.float32)
    source[-2:], target[-2:], weight[-2:] = [1, 2], [2, 3], [3, 2]
    tree = merge_tree(make(source, target, weight, 1, 5))
    assert tree.height.tolist() == [2, 3]
    assert tree.cut(2).tolist() == [0, 1, 1, 3]
    assert tree.cut().tolist() == [0, 0, 0, 3]


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
