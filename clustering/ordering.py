"""Edges in the one order that decides everything: by weight, then source id, then target id."""

import numba
import numpy as np

from clustering.arrays import Ids, Weights
from clustering.graph import Graph


def by_weight(graph: Graph, edges: Ids, *, directed: bool) -> Ids:
    """Sort edge ids by (weight, source, target); if not ``directed``, by (weight, smaller end, larger end).

    One integer a edge holds the bits of its weight, rounded to float32, above its place in ``edges``. Integers sort
    several times faster than an argsort of floats; runs of equal rounded weights are then put in exact order.
    """
    if len(edges) > 2**32:
        raise ValueError(f"{len(edges):,} edges to sort; at most 2^32 can be held at once")
    keys = _keys(graph.weight, edges)
    keys.sort()
    ordered = _places(keys, edges)
    _order_ties(graph.source, graph.target, graph.weight, directed, ordered)
    return ordered


@numba.njit(cache=True)
def _keys(weight: Weights, edges: Ids) -> Ids:
    keys = np.empty(len(edges), np.int64)
    bits = np.empty(1, np.float32)
    as_int = bits.view(np.int32)
    for i in range(len(edges)):
        bits[0] = weight[edges[i]] + 0.0  # -0.0 becomes 0.0
        high = np.int64(as_int[0])
        if high < 0:
            high ^= 0x7FFFFFFF
        keys[i] = (high << 32) | i
    return keys


@numba.njit(cache=True)
def _places(keys: Ids, edges: Ids) -> Ids:
    ordered = np.empty_like(edges)
    for i in range(len(keys)):
        ordered[i] = edges[keys[i] & 0xFFFFFFFF]
    return ordered


@numba.njit(cache=True)
def _order_ties(source: Ids, target: Ids, weight: Weights, directed: bool, ordered: Ids) -> None:
    begin = 0
    for i in range(1, len(ordered) + 1):
        if i == len(ordered) or np.float32(weight[ordered[i]]) != np.float32(weight[ordered[begin]]):
            if i - begin > 1:
                _heap_sort(source, target, weight, directed, ordered[begin:i])
            begin = i


@numba.njit(cache=True)
def _heap_sort(source: Ids, target: Ids, weight: Weights, directed: bool, run: Ids) -> None:
    """Sort in place without recursion or extra memory, whatever the length of the run."""
    for root in range(len(run) // 2 - 1, -1, -1):
        _sift_down(source, target, weight, directed, run, root, len(run))
    for end in range(len(run) - 1, 0, -1):
        run[0], run[end] = run[end], run[0]
        _sift_down(source, target, weight, directed, run, 0, end)


@numba.njit(cache=True)
def _sift_down(
    source: Ids, target: Ids, weight: Weights, directed: bool, run: Ids, root: int, end: int
) -> None:
    while True:
        child = 2 * root + 1
        if child >= end:
            return
        if child + 1 < end and _before(source, target, weight, directed, run[child], run[child + 1]):
            child += 1
        if not _before(source, target, weight, directed, run[root], run[child]):
            return
        run[root], run[child] = run[child], run[root]
        root = child


@numba.njit(cache=True)
def _before(source: Ids, target: Ids, weight: Weights, directed: bool, a: int, b: int) -> bool:
    if weight[a] != weight[b]:
        return bool(weight[a] < weight[b])
    first_a, last_a, first_b, last_b = source[a], target[a], source[b], target[b]
    if not directed:
        first_a, last_a = min(first_a, last_a), max(first_a, last_a)
        first_b, last_b = min(first_b, last_b), max(first_b, last_b)
    return bool(first_a < first_b or (first_a == first_b and last_a < last_b))
