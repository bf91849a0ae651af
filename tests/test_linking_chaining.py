"""Giants: clusters that chaining has made are reported, large entities are not."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import arbo
from arbo.data import mention_inputs
from arbo.linking.tables import cluster_table, describe_giants
from clustering import Graph, Partition, merge_tree, partition


def described(names: list[str], clusters: Partition) -> list[dict[str, object]]:
    inputs = mention_inputs(arbo.Corpus.of(names), expand_abbreviations=False)
    known: Any = SimpleNamespace(column=lambda name, rows: pa.array(["E"] * len(rows), pa.string()))
    return describe_giants(inputs, *cluster_table(None, known, inputs, clusters, {}))


def two_chains(joint: float, *, entity: bool = False) -> Graph:
    """Mentions 0-29 and 30-59 in a chain each, with edges of 0.1; one edge joins 10 and 45. Any entity is node 0."""
    first = 1 if entity else 0
    here = np.array([i for i in range(59) if i != 29])
    source, target = np.append(here, 10) + first, np.append(here + 1, 45) + first
    weight = np.append(np.full(58, 0.125), joint)
    if entity:
        source, target, weight = np.append(source, 0), np.append(target, 1), np.append(weight, 0.0)
        source, target = np.append(source, target[:-1]), np.append(target, source[:-1])
        weight = np.append(weight, weight[:-1])
    return Graph.from_edges(source, target, weight, n_entities=first, n_nodes=60 + first)


def test_a_chain_of_two_clusters_is_found() -> None:
    names = [f"name {i // 2}" for i in range(60)]
    assert described(names, partition(two_chains(0.5))) == [
        {"cluster": "new-0", "mentions": 60, "share": 1.0, "names": 30, "splits_below": 0.5}
    ]


@pytest.mark.parametrize(
    ("names", "n_others", "is_giant"),
    [
        ([case(f"mouse {i}") for i in range(5) for case in (str.lower, str.upper, str.title)] * 4, 0, False),
        (["mice"] * 50 + [f"mouse {i}" for i in range(10)], 0, False),
        *(([f"name {i}" for i in range(60)], n_others, n_others < 1140) for n_others in (0, 1139, 1140)),
    ],
)
def test_a_giant_has_many_names_and_more_than_a_twentieth_of_all_mentions(
    names: list[str], n_others: int, is_giant: bool
) -> None:
    chains = two_chains(0.5)
    graph = Graph.from_edges(chains.source, chains.target, chains.weight, n_entities=0, n_nodes=60 + n_others)
    assert bool(described([*names, *map(str, range(n_others))], partition(graph))) == is_giant


def test_a_cluster_of_an_entity_is_not_discovered() -> None:
    names = [f"name {i}" for i in range(60)]
    linked = partition(two_chains(0.5, entity=True))
    assert (linked.entity == 0).all()
    assert described(names, linked) == []
    assert described(names, partition(two_chains(0.5, entity=True), threshold=(-1, 1)))[0]["mentions"] == 60


@pytest.mark.parametrize("n", [0, 1, 20, 21])
def test_a_few_mentions_are_no_giant(n: int) -> None:
    graph = Graph.from_edges(
        np.arange(max(0, n - 1)), np.arange(1, max(1, n)), np.zeros(max(0, n - 1)), n_entities=0, n_nodes=n
    )
    assert len(described([f"name {i}" for i in range(n)], partition(graph))) == (n > 20)


def is_giant(rows: np.ndarray, names: list[str]) -> bool:
    """By the definition."""
    same = sum(count**2 for count in Counter(names[row] for row in rows).values()) / len(rows) ** 2
    return len(rows) > max(20, 0.05 * len(names)) and 1 / same >= 10


def test_giants_by_their_definition() -> None:
    """On random graphs: which clusters are giants, and a height below which they fall apart."""
    rng = np.random.default_rng(0)
    n_found = 0
    for _ in range(60):
        n = int(rng.integers(25, 120))
        source, target = rng.integers(0, n, (2, int(rng.integers(n // 2, 2 * n))))
        graph = Graph.from_edges(source, target, rng.integers(0, 9, len(source)) / 8, n_entities=0, n_nodes=n)
        names = [f"Name {i}" for i in rng.integers(0, rng.choice([8, 12, 40]), n)]
        tree, clusters = merge_tree(graph), partition(graph)
        found = {str(row["cluster"]): row for row in described(names, clusters)}
        for label in np.unique(clusters.labels):
            rows = np.flatnonzero(clusters.labels == label)
            giant = found.pop(f"new-{label}", None)
            assert (giant is not None) == is_giant(rows, names)
            if giant is not None:
                assert giant["mentions"] == len(rows)
                highest = np.float32(giant["splits_below"])
                below = np.nextafter(highest, np.float32(-1))
                assert [len(np.unique(tree.cut(at)[rows])) > 1 for at in (highest, below)] == [False, True]
                n_found += 1
        assert not found
    assert n_found > 20


def test_a_loose_threshold_makes_a_giant_of_the_news(shared: Callable[[str], Path]) -> None:
    ecbplus = arbo.read_documents(shared("data/ecbplus/ECB_Test_corpus.txt"), "ecbplus")
    assert arbo.Linker().discover(ecbplus).manifest["giants"] == []
    loose = arbo.Linker(config=arbo.LinkerConfig(mention_threshold=0.5)).discover(ecbplus)
    (giant,) = loose.manifest["giants"]
    assert giant["cluster"] == loose.discovered[0].id
    members = loose.discovered[0].mentions
    assert giant["mentions"] == len(members)
    assert giant["share"] == giant["mentions"] / 2055
    below = float(np.nextafter(np.float32(giant["splits_below"]), np.float32(0)))
    for threshold, is_whole in ((giant["splits_below"], True), (below, False)):
        split = arbo.Linker(config=arbo.LinkerConfig(mention_threshold=threshold)).discover(ecbplus)
        assert ({len(split.cluster_of(one.id).mentions) for one in members} == {len(members)}) == is_whole


def test_a_giant_is_a_warning_of_the_run(result: arbo.Result, tmp_path: Path) -> None:
    giant = {"cluster": "new-1", "mentions": 1230, "share": 0.412, "names": 300, "splits_below": 0.3129}
    loose = replace(result, manifest={**result.manifest, "warnings": [], "giants": [giant]})
    loose.save(tmp_path / "run")
    (warning,) = arbo.Result.load(tmp_path / "run").warnings
    assert repr(loose).endswith("; 1 warnings)")
    assert warning.split("\n") == [
        "the discovered cluster new-1 has 41% of all mentions: 1,230 under 300 names; the page of the run (arbo "
        "explore) shows the bridges that join its largest parts",
        "set the mention threshold below 0.312 to split it",
    ]
