"""A partition in bins is the plain partition, to the last bit: ties, decisions, every method and linkage."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_clustering_decisions as decided
import test_clustering_oracles as oracles
from engine_builders import make
from hypothesis import given, settings, strategies as st

from clustering import METHODS, Decisions, Graph, Partition, partition
from clustering.bins import Bins, described, joined
from clustering.graph import ListedGraph

TREE = "left", "right", "height", "source", "target"


def bits(found: Partition) -> dict[str, Any]:
    """Return each array of a partition as its type, shape and bytes."""
    tree = found.nil_tree
    more = (
        {} if tree is None else {name: getattr(tree, name) for name in ("left", "right", "height", "source", "target")}
    )
    nil = {f"nil_{name}": own for name, own in found.nil_edges._asdict().items()}
    arrays = {name: getattr(found, name) for name in ("labels", "entity", "parent", "weight", "bottleneck", "follows")}
    return {
        name: None if own is None else (own.dtype, own.shape, own.tobytes())
        for name, own in {**arrays, **nil, **more}.items()
    }


def listed(graph: Graph) -> ListedGraph:
    """Return the edges into the mentions as lists, in their order, with empty places anywhere."""
    n, lists = graph.n_entities, []
    for is_own in (graph.source >= n, graph.source < n):
        rows = [np.flatnonzero(is_own & (graph.target == node)) for node in range(n, graph.n_nodes)]
        k = max(map(len, rows), default=0) + 1
        ids = np.full((len(rows), k), -1, np.int32)
        weights = np.full((len(rows), k), np.inf, graph.weight.dtype)
        for row, own in enumerate(rows):
            places = np.arange(len(own)) + (row + len(own)) % 2 * (len(own) < k)
            ids[row, places], weights[row, places] = graph.source[own], graph.weight[own]
        lists.append((ids, weights))
    (near, weights), entities = lists
    return ListedGraph((np.where(near >= 0, near - n, -1), weights), entities, n)


def in_bins(lists: ListedGraph, size: int, rng: np.random.Generator, **how: Any) -> Partition:
    """Partition the bins of the graph of lists in any order."""
    bins = Bins.of(lists, size, **how)
    taken = [bins.taken(which) for which in range(bins.n_bins)]
    label = np.concatenate([one.mentions for one in taken]) if taken else np.empty(0, int)
    assert sorted(label.tolist()) == list(range(lists.n_mentions))
    found = [described(partition(one.graph, **{**how, "decisions": one.decisions})) for one in taken]
    order = rng.permutation(len(taken))
    return joined(lists.without_edges, lambda: ((taken[i].mentions, taken[i].entities, found[i]) for i in order))


def check(rng: np.random.Generator, most: int = 12) -> None:
    """Draw a graph, perhaps with decisions, and compare all methods and linkages."""
    style, distinct = oracles.STYLES[rng.integers(len(oracles.STYLES))], bool(rng.integers(2))
    _, n_entities, n_nodes, threshold, graph = oracles.random_case(rng, style, distinct, most)
    if rng.random() < 0.5:  # similarities are from 0 to 1
        weight = np.round(rng.random(graph.n_edges), 1 if rng.random() < 0.5 else 9)
        threshold = [None, 0.5, (0.3, 0.7), (0.7, 0.3), -1.0][rng.integers(5)]
        dtype = [np.float32, np.float64][rng.integers(2)]
        graph = make(graph.source, graph.target, weight.astype(dtype), n_entities, n_nodes)
    told: Decisions | None = decided.drawn_decisions(rng, n_entities, n_nodes - n_entities) if rng.integers(2) else None
    size, linkage = int(rng.integers(1, most + 1)), ["single", "average"][rng.integers(2)]
    lists = listed(graph)
    if rng.random() < 0.3:  # as people rule entities out
        lists = replace(lists, has_all=rng.random(lists.n_mentions) < 0.5)
    graph = lists.graph()
    for method in METHODS:
        how: dict[str, Any] = {"method": method, "threshold": threshold, "decisions": told}
        how |= {"nil_linkage": linkage, "nil_threshold": [None, 0.4][rng.integers(2)]}
        expected = partition(graph, **how)
        assert bits(in_bins(lists, size, rng, **how)) == bits(expected), (method, size, linkage)


@given(seed=st.integers(0, 2**32), most=st.sampled_from([6, 12, 30]))
@settings(max_examples=60)
def test_bins_give_the_plain_partition(seed: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clustering.graph._ROWS", 5)  # so that there are several slices
        check(np.random.default_rng(seed), most)


def test_bins_are_cut_without_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    n, k = 100_000, 32
    monkeypatch.setattr("clustering.graph._ROWS", 1000)
    near = (np.arange(n, dtype=np.int32)[:, None] // 50 * 50 + np.arange(k, dtype=np.int32)) % n
    mentions = near, np.full((n, k), 0.5, np.float32)
    lists = ListedGraph(mentions, (np.full((n, 1), -1, np.int32), np.full((n, 1), np.inf, np.float32)), 3)
    for _ in range(2):  # the first time, kernels are compiled
        tracemalloc.start()
        bins = Bins.of(lists, 1000)
        one = bins.taken(1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert one.graph.n_edges == bins.n_edges(1) == 1000 * k
    assert peak < 64 * n  # the edges of the graph would take 384
