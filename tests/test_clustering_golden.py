"""The 610 graphs that the published code was run on (semantics.md, README.partition.md)."""

import json

import networkx as nx
import numpy as np
import pytest

from clustering import Graph, partition


def cases(shared, kind):
    with shared(f"golden/partition_{kind}.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


def prepared(case):
    """What the reference has before its threshold: the first copy wins, excluded nodes lose their edges."""
    first = {}
    for source, target, weight in case["edges"]:
        first.setdefault((source, target), weight)
    excluded = set(case["exclude"])
    return [(*ends, weight) for ends, weight in first.items() if not excluded.intersection(ends)]


def solve(case, method):
    edges = prepared(case)
    graph = Graph.from_edges(
        [e[0] for e in edges],
        [e[1] for e in edges],
        [e[2] for e in edges],
        n_entities=case["n_entities"],
        n_nodes=case["n_nodes"],
    )
    return partition(graph, method, case["threshold"])


def triples(result):
    return list(zip(*(array.tolist() for array in result.edges()), strict=True))


def sorted_ends(triple):
    source, target, weight = triple
    return min(source, target), max(source, target), weight


def allowed(case):
    """What is left after the filter, the threshold included."""
    limit = np.inf if case["threshold"] is None else case["threshold"]
    return [edge for edge in prepared(case) if edge[2] <= limit]


def lightest_by_ends(edges):
    """Directions ignored: the smaller dissimilarity of a pair counts."""
    lightest = {}
    for low, high, weight in map(sorted_ends, edges):
        lightest[low, high] = min(weight, lightest.get((low, high), np.inf))
    return lightest


def reached(edges, n_entities):
    children = {}
    for source, target, _ in edges:
        children.setdefault(source, []).append(target)
    found, stack = set(range(n_entities)), list(range(n_entities))
    while stack:
        for child in children.get(stack.pop(), ()):
            if child not in found:
                found.add(child)
                stack.append(child)
    return found


def slow_procedure(edges, n_entities, last):
    """Reverse deletion, edge by edge; among edges of equal weight those in ``last`` are examined last."""
    remaining = set(edges)
    for edge in sorted(edges, key=lambda e: (-e[2], e in last)):
        if edge[1] in reached(remaining - {edge}, n_entities):
            remaining.remove(edge)
    return remaining


def directed_answer_is_right(case, kept):
    """The README's rule for ties: the procedure, told to spare these very edges, leaves these very edges."""
    linked = {case["n_entities"] + i for i, e in enumerate(case["entity"]) if e >= 0}
    mentions = range(case["n_entities"], case["n_nodes"])
    found = reached(kept, case["n_entities"])
    return {m for m in mentions if m in found} == linked and set(kept) == slow_procedure(
        allowed(case), case["n_entities"], set(kept)
    )


def undirected_answer_is_right(case, kept):
    """The README's rule for ties: a forest of given edges, one entity a tree at most, the same weights."""
    given = lightest_by_ends(allowed(case))
    forest = nx.Graph()
    forest.add_nodes_from(range(case["n_nodes"]))
    forest.add_edges_from(edge[:2] for edge in kept)
    return (
        all(given.get(sorted_ends(edge)[:2]) == edge[2] for edge in kept)
        and forest.number_of_edges() == len(kept)
        and (nx.is_empty(forest) or nx.is_forest(forest))
        and all(len(tree & set(range(case["n_entities"]))) <= 1 for tree in nx.connected_components(forest))
        and sorted(edge[2] for edge in kept) == sorted(edge[2] for edge in case["kept"])
    )


def labels_of(case, kept):
    """Smallest node of each connected component of the kept edges."""
    graph = nx.Graph()
    graph.add_nodes_from(range(case["n_nodes"]))
    graph.add_edges_from(edge[:2] for edge in kept)
    label = {node: min(component) for component in nx.connected_components(graph) for node in component}
    return [label[node] for node in range(case["n_nodes"])]


def entities_of(case, labels):
    return [label if label < case["n_entities"] else -1 for label in labels[case["n_entities"] :]]


def without(edges, gone):
    return [edge for edge in edges if edge != gone]


def test_there_are_610_graphs_and_141_of_them_have_ties(shared):
    both = cases(shared, "directed") + cases(shared, "undirected")
    assert len(both) == 610
    assert sum(not case["distinct_weights"] for case in both) == 74 + 67


@pytest.mark.parametrize(("kind", "method"), [("directed", "arborescence"), ("undirected", "undirected")])
def test_distinct_weights_give_the_published_answer(shared, kind, method):
    for case in cases(shared, kind):
        if not case["distinct_weights"]:
            continue
        result = solve(case, method)
        kept = triples(result) if kind == "directed" else map(sorted_ends, triples(result))
        assert sorted(kept) == sorted(map(tuple, case["kept"])), case["id"]
        assert result.labels.tolist() == case["labels"], case["id"]
        assert result.entity.tolist() == case["entity"], case["id"]


@pytest.mark.parametrize(
    ("kind", "method", "is_right"),
    [
        ("directed", "arborescence", directed_answer_is_right),
        ("undirected", "undirected", undirected_answer_is_right),
    ],
)
def test_tied_weights_give_an_acceptable_answer(shared, kind, method, is_right):
    for case in cases(shared, kind):
        if case["distinct_weights"]:
            continue
        result = solve(case, method)
        assert is_right(case, triples(result)), case["id"]
        assert result.labels.tolist() == labels_of(case, triples(result)), case["id"]
        assert result.entity.tolist() == entities_of(case, result.labels.tolist()), case["id"]


@pytest.mark.parametrize(
    ("kind", "is_right"), [("directed", directed_answer_is_right), ("undirected", undirected_answer_is_right)]
)
def test_the_acceptance_rule_accepts_the_published_answer_and_rejects_wrong_ones(shared, kind, is_right):
    rejected = 0
    for case in cases(shared, kind):
        kept = list(map(tuple, case["kept"]))
        assert is_right(case, kept), case["id"]
        if case["distinct_weights"]:
            continue
        for edge in kept[:3]:
            assert not is_right(case, without(kept, edge)), (case["id"], edge)
            for other in allowed(case):
                if other[1] == edge[1] and other[2] > edge[2]:
                    assert not is_right(case, [*without(kept, edge), other]), (case["id"], edge, other)
                    rejected += 1
    assert rejected > 50
