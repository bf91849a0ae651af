"""What decisions do to one graph, and which are refused; `differential.decisions` compares many with definitions."""

import numpy as np
import pytest
from engine_builders import make
from oracles.decisions import INF, decide

from clustering import Graph, partition
from clustering.average import average_tree
from clustering.decisions import NEW, OUTSIDE


def test_a_tree_below_a_correction_says_what_it_follows_and_leaves_out_its_weight():
    graph = make([0, 1, 2, 3], [2, 3, 3, 4], [0.1, 0.5, 0.2, 0.3], n_entities=2, n_nodes=5)
    found = partition(graph, decisions=decide(3, {0: 1}))
    assert found.entity.tolist() == [1, 1, 1]
    assert found.follows.tolist() == [0, 0, 0]
    assert found.weight[2:].tolist() == [-INF, 0.2, 0.3]
    assert found.bottleneck[2:].tolist() == [-INF, 0.2, 0.3]
    assert partition(graph, decisions=decide(3, {0: 1}, alone=[0])).entity.tolist() == [1, 1, 1]
    assert partition(graph, decisions=decide(3, {0: NEW}, alone=[0])).entity.tolist() == [-1, 1, 1]
    new = partition(graph, decisions=decide(3, {0: NEW}))
    assert new.entity.tolist() == [-1, -1, -1]
    assert new.labels[2:].tolist() == [2, 2, 2]
    assert new.parent[2:].tolist() == [-1, 2, 3]


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


def test_average_linkage_is_that_of_the_mentions_outside():
    graph = make([0, 1, 2, 3], [1, 2, 3, 1], [0.1, 0.2, 0.3, 0.9], n_entities=1, n_nodes=4)
    decisions = decide(3, dict.fromkeys(range(3), OUTSIDE))
    found = partition(graph, nil_linkage="average", decisions=decisions)
    alone = Graph.from_edges([0, 1, 2], [1, 2, 0], [0.2, 0.3, 0.9], n_entities=0, n_nodes=3)
    np.testing.assert_array_equal(found.nil_tree.height, average_tree(alone).height)
