"""Average linkage against SciPy and its own definition; `differential.trees` compares it with brute force."""

from fractions import Fraction

import numpy as np
import pytest
from engine_builders import mention_graph

from clustering import METHODS, average_tree, partition
from clustering.average import _before


def test_quotients_that_floats_cannot_tell_apart_are_compared_exactly():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        size, other = (int(x) for x in rng.integers(2**26, 2**27, 2))
        total = int(rng.integers(0, 2**52))
        near = total * other // size + int(rng.integers(-1, 2))
        if not 0 <= near < 2**53:
            continue
        expected = (-Fraction(total, size), 1) < (-Fraction(near, other), 2)
        assert _before(total, size, 1, near, other, 2) is expected


def test_a_pair_at_the_threshold_is_merged():
    for dtype in (np.float32, np.float64):
        for threshold in np.arange(0, 100) / 100:
            graph = mention_graph([0], [1], np.array([threshold], dtype), 2)
            found = partition(graph, nil_linkage="average", nil_threshold=threshold)
            assert found.labels.tolist() == [0, 0], (dtype, threshold)


@pytest.mark.parametrize("method", METHODS)
def test_a_partition_links_alike_and_clusters_the_others_by_average_linkage(method):
    rng = np.random.default_rng(2)
    for _ in range(200):
        weight = rng.integers(0, 6, 40) / 6
        graph = mention_graph(*rng.integers(0, 15, (2, 40)), weight, 12, n_entities=3)
        single = partition(graph, method, (0.4, 0.2))
        found = partition(graph, method, (0.4, 0.2), nil_linkage="average", nil_threshold=0.5)
        np.testing.assert_array_equal(found.entity, single.entity)
        np.testing.assert_array_equal(found.parent, single.parent)
        nil = np.append(np.zeros(3, bool), found.entity < 0)
        inside = nil[graph.source] & nil[graph.target]  # whatever the mention threshold
        alone = mention_graph(graph.source[inside], graph.target[inside], weight[inside], 15)
        np.testing.assert_array_equal(found.labels[nil], average_tree(alone).cut(0.5)[nil])
        weakest = found.weakest_joins()
        assert (weakest <= 0.5).all()
        clusters, sizes = np.unique(found.labels[nil], return_counts=True)
        np.testing.assert_array_equal(np.flatnonzero(weakest > -np.inf), clusters[sizes > 1])
