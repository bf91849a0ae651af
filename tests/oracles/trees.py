"""Trees of mentions: average linkage by brute force, components, and the graphs that a spanning tree stands for."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import clustering.dense
from clustering import Graph
from clustering.dense import spanning_tree
from clustering.vectors import unit

UNIT = 2**20


def brute_force(source, target, weight, n):
    """Merge the best of all pairs of clusters, again and again: (parts, height) of each merge, in order."""
    similarity = {}
    for u, v, w in zip(source.tolist(), target.tolist(), weight.tolist(), strict=True):
        pair = min(u, v), max(u, v)
        similarity[pair] = max(math.ceil(min(1, max(0, 1 - w)) * UNIT), similarity.get(pair, 0)) if u != v else 0
    clusters, merges = [[i] for i in range(n)], []
    while True:
        found = []
        for a, b in combinations(clusters, 2):
            total = sum(similarity.get((min(i, j), max(i, j)), 0) for i in a for j in b)
            found += [(-Fraction(total, len(a) * len(b)), a[0], b[0], a, b)] * (total > 0)
        if not found:
            return merges
        average, *_, a, b = min(found)
        clusters = sorted([*(c for c in clusters if c not in (a, b)), sorted(a + b)])
        merges.append(((tuple(a), tuple(b)), float(1 + average / UNIT)))


def merges_of(tree):
    """The same for a tree."""
    nodes, merges = [(i,) for i in range(tree.n_leaves)], []
    for left, right, height in zip(tree.left.tolist(), tree.right.tolist(), tree.height.tolist(), strict=True):
        assert nodes[left][0] < nodes[right][0]
        merges.append(((nodes[left], nodes[right]), pytest.approx(height, abs=1e-15)))
        nodes.append(tuple(sorted(nodes[left] + nodes[right])))
    return merges


def component_labels(source, target, n):
    """The smallest node of each node's component."""
    component = connected_components(coo_array((np.ones(len(source)), (source, target)), shape=(n, n)))[1]
    first = np.unique(component, return_index=True)[1]
    return first[component]


def complete_graph(vectors, root, metric):
    n = len(vectors)
    rows = np.asarray(vectors, np.float32)
    rows = (unit(rows) if metric == "cosine" else rows).astype(np.float64)
    weight = -(rows @ rows.T) if metric == "dot" else 1 - rows @ rows.T
    if metric == "cosine":
        weight[np.abs(weight) < 1e-6] = 0  # what clustering.vectors takes for rounding
    source, target = np.nonzero(~np.eye(n, dtype=bool))
    ends = np.r_[np.zeros(n, np.int64), source + 1], np.r_[np.arange(n) + 1, target + 1]
    lengths = np.r_[root, weight[source, target]].astype(np.float32)
    return Graph.from_edges(*ends, lengths, n_entities=1, n_nodes=n + 1)


def grown(vectors, root, metric, whole):
    """The tree, from all products at once or from those of one node after the other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clustering.dense, "_WHOLE", whole)
        return spanning_tree(vectors, root, metric=metric)
