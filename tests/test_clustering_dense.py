"""The spanning tree of a complete graph; `differential.trees` compares it with the partition of that graph."""

import tracemalloc

import numpy as np

import clustering.dense
from clustering.dense import spanning_tree


def drawn(seed, n, dim):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)).astype(np.float32), rng.normal(size=n).astype(np.float32)


def test_a_large_cluster_gets_its_rows_one_by_one(monkeypatch):
    vectors, root = drawn(0, 600, 16)
    at_once = spanning_tree(vectors, root)
    monkeypatch.setattr(clustering.dense, "_WHOLE", 0)
    one_by_one = spanning_tree(vectors, root)
    assert at_once.parent.tolist() == one_by_one.parent.tolist()
    assert at_once.weight.tolist() == one_by_one.weight.tolist()


def test_a_large_cluster_is_bounded_in_memory():
    vectors, root = drawn(0, 5000, 4)
    given = vectors.copy()
    tracemalloc.start()
    spanning_tree(vectors, root)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6, "5000 x 5000 products would be 200 MB"
    assert np.array_equal(vectors, given)
