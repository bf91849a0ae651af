"""Published and small graphs, decisions, bad input and extreme graphs: a clear error or the right answer."""

import json

import numpy as np
import pytest
from engine_builders import assert_same, every_method, make
from oracles.decisions import INF, decide
from oracles.graphs import check_partition, edges_of

from clustering import METHODS, Graph, merge_tree, partition
from clustering.average import average_tree
from clustering.decisions import NEW, OUTSIDE


def cases(shared, kind):
    """Yield each graph with its edges before the threshold: the first copy wins, excluded nodes lose their edges."""
    for case in map(json.loads, shared(f"golden/partition_{kind}.jsonl").read_text("utf-8").splitlines()):
        first = {}
        for source, target, weight in case["edges"]:
            if not {source, target}.intersection(case["exclude"]):
                first.setdefault((source, target), weight)
        yield case, [(*ends, weight) for ends, weight in first.items()]


def triples(edges, kind):
    """Sort the edges of an answer; of `undirected`, directions mean nothing."""
    return sorted(edge if kind == "directed" else (min(edge[:2]), max(edge[:2]), edge[2]) for edge in edges)


@pytest.mark.parametrize(
    ("kind", "method", "counts"), [("directed", "arborescence", (340, 74)), ("undirected", "undirected", (270, 67))]
)
def test_the_published_answer_and_an_acceptable_one_where_weights_are_tied(shared, kind, method, counts):
    """Among equal weights the reference may keep other edges than our total order: as many links, the same weights."""
    tied = total = 0
    for case, edges in cases(shared, kind):
        result = check_partition(method, edges, case["n_entities"], case["n_nodes"], case["threshold"])
        kept = triples(zip(*(array.tolist() for array in edges_of(result)), strict=True), kind)
        published = triples(map(tuple, case["kept"]), kind)
        total, tied = total + 1, tied + (not case["distinct_weights"])
        if case["distinct_weights"]:
            assert kept == published, case["id"]
            assert result.labels.tolist() == case["labels"], case["id"]
            assert result.entity.tolist() == case["entity"], case["id"]
            continue
        assert (result.entity >= 0).tolist() == [entity >= 0 for entity in case["entity"]], case["id"]
        if kind == "undirected":
            assert sorted(edge[2] for edge in kept) == sorted(edge[2] for edge in published), case["id"]
    assert (total, tied) == counts


def test_of_equal_edges_the_smaller_source_wins_and_an_edge_of_an_entity_in_cycles():
    edges = [(0, 4, -0.5), (2, 1, -1.0), (0, 5, -1.0), (4, 2, -1.0), (1, 2, -1.0), (5, 1, -1.0)]
    source, target, _ = edges_of(check_partition("arborescence", edges, 1, 6, None))
    assert (4, 2) in set(zip(source.tolist(), target.tolist(), strict=True))
    """1 and 2 are a cycle, with 3 another; entity 0 enters it at 3 as lightly as mention 4 at 1."""
    edges = [(2, 1, 1.0), (1, 2, 1.0), (3, 2, 2.0), (1, 3, 2.5), (0, 3, 3.0), (4, 1, 3.0), (0, 4, 0.0)]
    assert check_partition("arborescence", edges, 1, 5, None).parent.tolist() == [-1, 2, 3, 0, 0]


def test_thresholds_are_not_nested_and_arborescence_and_minimax_differ():
    """The example of semantics.md: mention 2 goes to entity 1 without a threshold, to entity 0 at 5."""
    edges = [(0, 2, 4.0), (3, 2, 1.0), (1, 3, 10.0)]
    assert check_partition("arborescence", edges, 2, 4, None).entity.tolist() == [1, 1]
    assert check_partition("arborescence", edges, 2, 4, 5).entity.tolist() == [0, -1]
    edges = [(2, 3, -1.0), (3, 4, -5.0), (0, 4, -4.0)]
    paths = {method: check_partition(method, edges, 3, 5, None).path(4) for method in METHODS}
    assert (paths.pop("arborescence"), [*paths.values()]) == ([2, 3, 4], [[0, 4]] * 3)


def test_what_is_below_a_correction_follows_it_and_averages_are_of_mentions_outside():
    graph = make([0, 1, 2, 3], [2, 3, 3, 4], [0.1, 0.5, 0.2, 0.3], n_entities=2, n_nodes=5)
    found = partition(graph, decisions=decide(3, {0: 1}))
    assert (found.entity.tolist(), found.follows.tolist()) == ([1, 1, 1], [0, 0, 0])
    assert (found.weight[2:].tolist(), found.bottleneck[2:].tolist()) == ([-INF, 0.2, 0.3], [-INF, 0.2, 0.3])
    assert partition(graph, decisions=decide(3, {0: 1}, alone=[0])).entity.tolist() == [1, 1, 1]
    assert partition(graph, decisions=decide(3, {0: NEW}, alone=[0])).entity.tolist() == [-1, 1, 1]
    new = partition(graph, decisions=decide(3, {0: NEW}))
    assert (new.entity.tolist(), new.labels[2:].tolist()) == ([-1, -1, -1], [2, 2, 2])
    assert new.parent[2:].tolist() == [-1, 2, 3]
    graph = make([0, 1, 2, 3], [1, 2, 3, 1], [0.1, 0.2, 0.3, 0.9], n_entities=1, n_nodes=4)
    decisions = decide(3, dict.fromkeys(range(3), OUTSIDE))
    found = partition(graph, nil_linkage="average", decisions=decisions)
    alone = Graph.from_edges([0, 1, 2], [1, 2, 0], [0.2, 0.3, 0.9], n_entities=0, n_nodes=3)
    np.testing.assert_array_equal(found.nil_tree.height, average_tree(alone).height)


def test_decisions_about_other_nodes_are_refused():
    graph = make([0], [1], [0.5])
    for wrong, message in (
        (decide(3), "3 mentions"),
        (decide(2, {0: 1}), "entity 1"),
        (decide(2, same=[(0, 2)]), "mention 2"),
        (decide(2, wrong=[(0, 7)]), "entity 7"),
        (decide(2, same=[(0, 10**9)], wrong=[(0, 0)]), "mention 1000000000"),
        (decide(2)._replace(alone=np.zeros(5, np.bool_)), "5 mentions"),
    ):
        with pytest.raises(ValueError, match=message):
            partition(graph, decisions=wrong)


NAN = np.nan

# Input that is refused.

FLAT_IDS, FLAT_WEIGHTS = "{} must be a flat array of integers", "weight must be a flat array of numbers"
IDS = [
    *((np.array([0, 3], dtype), r"{}\[1\]=3 is outside the nodes 0 \.\. 2") for dtype in (np.int8, np.int64)),
    (np.array([0, -1]), r"{}\[1\]=-1 is outside the nodes 0 \.\. 2"),
    *((np.array([bad, 0]), rf"{{}}\[0\]={bad} ") for bad in (2**31, 2**32 + 1, 2**63 - 1, -(2**32))),
    (np.array([2**32, 0], np.uint64), r"{}\[0\]=4294967296 "),
    *((bad, FLAT_IDS) for bad in ([0.0, 1.0], [True, False], ["0", "1"], [None, 0], [2**70, 0], [[0, 1]], 1)),
]
FLOATS = np.float16, np.float32, np.float64
WEIGHTS = [
    *((np.array([1, bad], kind), rf"weight\[1\]={bad} is not finite") for bad in (NAN, INF, -INF) for kind in FLOATS),
    *((bad, FLAT_WEIGHTS) for bad in (["a", "b"], [1j, 2], [True, False], [None, 1.0], [[1.0, 2.0]], 1.0)),
]
NAMES, LENGTHS = ("source", "target", "weight"), ((2, 1, 1), (1, 2, 1), (1, 1, 2), (0, 1, 1), (1, 1, 0))
NANS = NAN, (NAN, 1.0), (1.0, NAN), (None, NAN), np.float32(NAN)
NUMBERS = (4, 3), (-1, 3), (0, -1), (1, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(({name: ids}, words.format(name)) for name in ("source", "target") for ids, words in IDS),
        *(({"weight": weight}, words) for weight, words in WEIGHTS),
        *((dict(zip(NAMES, (np.zeros(a, int) for a in n), strict=True)), "{}, {}, {}".format(*n)) for n in LENGTHS),
        *(({"n_entities": n, "n_nodes": of}, f"n_entities={n}.*n_nodes={of}") for n, of in NUMBERS),
    ],
    ids=str,
)
def test_graphs_that_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        make(**{"source": [0, 0], "target": [1, 2], "weight": [1.0, 2.0]} | arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(({"method": one}, f"method={one!r}.*arborescence, .*, independent") for one in ("", "Arborescence", None)),
        ({"nil_linkage": "ward"}, "nil_linkage='ward' is not one of single, average"),
        ({"nil_linkage": "average", "nil_threshold": NAN}, "threshold=nan is not a number; use infinity"),
        *(({"threshold": odd, "method": method}, "not a number") for odd in NANS for method in METHODS),
        *(({"threshold": odd}, "pair") for odd in ((), (1.0,), (1.0, 2.0, 3.0))),
    ],
    ids=str,
)
def test_arguments_of_partition_that_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        partition(make([0], [1], [1.0]), **arguments)


@pytest.mark.parametrize("node", [-1, 3, 10**12])
def test_the_path_of_a_node_that_does_not_exist_is_refused(node):
    with pytest.raises(IndexError, match=rf"node {node} is outside 0 \.\. 2"):
        partition(make([0], [1], [1.0])).path(node)


ONES, TWO = np.array([[1.0], [1.0]]), np.array([[1], [0]])


@pytest.mark.parametrize(
    ("mentions", "entities", "words"),
    [
        *(((TWO, ONES), (np.array([[0], [bad]]), ONES), str(bad)) for bad in (2, 3, 99)),
        ((np.array([[1], [2]]), ONES), None, r"row 1 of mentions has \[2\]; ids of 2 mentions lie in -1 \.\. 1"),
        ((TWO, ONES), (TWO[:1], ONES[:1]), "2 .*1"),
        ((TWO, np.zeros((2, 3))), None, "the ids of mentions are"),
        ((TWO, np.zeros((3, 1))), None, "the ids of mentions are"),
    ],
    ids=str,
)
def test_neighbour_lists_that_are_refused(mentions, entities, words):
    """The id of an entity that does not exist must not turn into that of a mention."""
    with pytest.raises(ValueError, match=words):
        Graph.from_neighbors(mentions, entities, n_entities=2 if entities else 0)


@every_method
def test_an_edge_exactly_at_the_threshold_stays(method):
    """Thresholds are rounded as the weights are: float32(0.1) is more than 0.1, and yet exactly at 0.1."""
    graph = make([0, 0], [1, 2], np.array([0.1, 0.3], np.float32))
    assert float(graph.weight[0]) > 0.1
    for threshold, entity in ((0.1, [0, -1]), ((0.3, 0.0), [0, 0]), (0.0999, [-1, -1]), (np.float32(0.1), [0, -1])):
        assert partition(graph, method, threshold).entity.tolist() == entity
    assert partition(make([0, 0], [1, 2], [0.7, np.nextafter(0.7, 1)]), method, 0.7).entity.tolist() == [0, -1]


def some_graph():
    rng = np.random.default_rng(5)
    source, target = rng.integers(0, 60, (2, 300)).astype(np.int32)
    return source, target, rng.permutation(300).astype(np.float32)


KINDS = {
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype),
    "backwards": lambda a: a[::-1].copy()[::-1],
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_the_right_type_are_shared_read_only_and_not_modified(dtype):
    source, target, weight = some_graph()
    arrays = source, target, weight.astype(dtype)
    copies = [array.copy() for array in arrays]
    graph = make(*arrays, 6, 60)
    for method in METHODS:
        partition(graph, method, 200).weakest_joins()
    merge_tree(graph).cut(100)
    for array, copy, kept in zip(arrays, copies, (graph.source, graph.target, graph.weight), strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable
        assert np.shares_memory(array, kept)
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0


@pytest.mark.parametrize(("given", "kept"), [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i4", "f8")])
def test_weights_become_float32_or_float64(given, kept):
    graph = make([0, 0], [1, 2], np.array([-1, 2], given))
    assert graph.weight.dtype == partition(graph).weight.dtype == kept
    assert (partition(graph).bottleneck.tolist(), graph.source.dtype) == ([-INF, -1, 2], np.int32)


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
