"""The 610 graphs that the published code was run on (semantics.md, README.partition.md), and small ones by hand."""

import json

import pytest
from oracles.graphs import check_partition, edges_of

from clustering import METHODS


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


def test_of_equal_edges_into_a_cycle_the_smaller_source_wins_and_not_the_smaller_mention():
    edges = [(0, 4, -0.5), (2, 1, -1.0), (0, 5, -1.0), (4, 2, -1.0), (1, 2, -1.0), (5, 1, -1.0)]
    source, target, _ = edges_of(check_partition("arborescence", edges, 1, 6, None))
    assert (4, 2) in set(zip(source.tolist(), target.tolist(), strict=True))


def test_thresholds_of_the_directed_methods_are_not_nested():
    """The example of semantics.md: mention 2 goes to entity 1 without a threshold, to entity 0 at 5."""
    edges = [(0, 2, 4.0), (3, 2, 1.0), (1, 3, 10.0)]
    assert check_partition("arborescence", edges, 2, 4, None).entity.tolist() == [1, 1]
    assert check_partition("arborescence", edges, 2, 4, 5).entity.tolist() == [0, -1]


def test_the_smallest_graph_on_which_arborescence_and_minimax_differ():
    edges = [(2, 3, -1.0), (3, 4, -5.0), (0, 4, -4.0)]
    paths = {method: check_partition(method, edges, 3, 5, None).path(4) for method in METHODS}
    assert paths.pop("arborescence") == [2, 3, 4]
    assert [*paths.values()] == [[0, 4]] * 3


def test_an_entity_edge_wins_a_tie_with_an_edge_into_a_cycle_inside_a_cycle():
    """1 and 2 are a cycle, with 3 another; entity 0 enters it at 3 as lightly as mention 4 at 1."""
    edges = [(2, 1, 1.0), (1, 2, 1.0), (3, 2, 2.0), (1, 3, 2.5), (0, 3, 3.0), (4, 1, 3.0), (0, 4, 0.0)]
    assert check_partition("arborescence", edges, 1, 5, None).parent.tolist() == [-1, 2, 3, 0, 0]
