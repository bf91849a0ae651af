"""The merge tree: every threshold of single linkage; `differential.trees` compares its cuts with SciPy."""

import numpy as np
import pytest
from engine_builders import mention_graph

from clustering import merge_tree


def test_entities_and_their_edges_are_left_out():
    graph = mention_graph([0, 1, 2, 0, 3], [2, 3, 3, 1, 0], [-9.0, -9.0, 1.0, -9.0, -9.0], 2, n_entities=2)
    tree = merge_tree(graph)
    assert tree.n_leaves == 2
    assert (tree.source.tolist(), tree.target.tolist(), tree.height.tolist()) == ([0], [1], [1.0])
    assert tree.cut(0).tolist() == [0, 1]


def test_a_cut_at_a_height_of_float32_keeps_it():
    tree = merge_tree(mention_graph([0], [1], np.array([0.1], np.float32), 2))
    assert float(tree.height[0]) > 0.1
    assert tree.cut(0.1).tolist() == [0, 0]
    assert tree.cut(0.0999).tolist() == [0, 1]


def test_a_cut_at_nan_is_an_error():
    tree = merge_tree(mention_graph([0], [1], [1.0], 2))
    with pytest.raises(ValueError, match="nan"):
        tree.cut(np.nan)


def test_a_path_of_a_million_mentions_is_cut_anywhere():
    n = 1_000_000
    height = np.random.default_rng(0).permutation(n - 1).astype(np.float32)
    tree = merge_tree(mention_graph(np.arange(n - 1), np.arange(1, n), height, n))
    assert (tree.cut() == 0).all()
    heavy = np.flatnonzero(height > n // 2) + 1
    starts = np.concatenate([[0], heavy])
    expected = np.repeat(starts, np.diff(np.append(starts, n)))
    np.testing.assert_array_equal(tree.cut(n // 2), expected)
