"""The spanning tree of a complete graph; `differential.trees` compares it with the partition of that graph."""

import tracemalloc

import numpy as np

from clustering.dense import spanning_tree


def test_a_large_cluster_is_bounded_in_memory():
    rng = np.random.default_rng(0)
    vectors, root = (rng.normal(size=shape).astype(np.float32) for shape in ((5000, 4), 5000))
    given = vectors.copy()
    tracemalloc.start()
    spanning_tree(vectors, root)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6, "5000 x 5000 products would be 200 MB"
    assert np.array_equal(vectors, given)
