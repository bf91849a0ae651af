"""Disjoint sets as an integer array, with functions for numba kernels.

``sets[i]`` is the parent of ``i``, or minus the size of its set if ``i`` is a root.
"""

import numpy as np

from .arrays import Ids
from .kernels import kernel


@kernel
def singletons(n: int, ids: Ids) -> Ids:
    """Return ``n`` sets of one element each, with the dtype of ``ids``."""
    return np.full(n, -1, ids.dtype)


@kernel
def find(sets: Ids, i: int) -> int:
    """Return the root of the set of ``i``, with path halving."""
    while sets[i] >= 0:
        parent = sets[i]
        if sets[parent] >= 0:
            sets[i] = sets[parent]
        i = parent
    return i


@kernel
def join(sets: Ids, a: int, b: int) -> int:
    """Join the sets of two different roots, the smaller below the larger, and return the new root."""
    if sets[a] > sets[b]:
        a, b = b, a
    sets[a] += sets[b]
    sets[b] = a
    return a


@kernel
def roots(sets: Ids) -> Ids:
    """Return the root of the set of each element."""
    root = np.empty_like(sets)
    for i in range(len(sets)):
        root[i] = find(sets, i)
    return root


@kernel
def label_components(source: Ids, target: Ids, labels: Ids) -> None:
    """Label each node of these edges by the smallest node id of its connected component."""
    if len(source) == 0:
        return
    sets = singletons(len(labels), labels)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if a != b:
            join(sets, a, b)
    smallest = np.full(len(labels), -1, labels.dtype)
    for node in range(len(labels)):
        root = find(sets, node)
        if smallest[root] < 0:
            smallest[root] = node
        if sets[root] < -1:
            labels[node] = smallest[root]
