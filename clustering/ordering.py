"""The order of edges in all methods: by weight, then source, then target."""

import os
from functools import partial
from heapq import heapify, heappop

import numpy as np

from .arrays import Edges, Ids, Weights
from .kernels import kernel
from .progress import in_parallel

_SHORT, _LONG, _CHUNK, _LEAST, _FEW = 16, 1 << 16, 1 << 20, 1 << 17, 1 << 12


def by_weight(edges: Edges) -> Edges:
    """Return the edges, sorted by (weight, source, target).

    One integer per edge holds the bits of its weight, rounded to float32, above its index. Sorting integers is many
    times faster than sorting indices by floats; runs of equal rounded weights are put in exact order once the edges
    are moved, when they are adjacent. Raise ValueError for 2^31 edges or more.
    """
    if len(edges.weight) >= 2**31:
        raise ValueError(f"cannot sort {len(edges.weight):,} edges; the maximum is 2^31 - 1, so use fewer neighbours")
    if len(edges.weight) < _FEW:  # loading the kernels would take longer
        return edges.take(np.lexsort((edges.target, edges.source, edges.weight)))
    with np.errstate(over="ignore"):
        bits = (edges.weight.astype(np.float32) + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    keys = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(np.int64) << 32
    keys |= np.arange(len(keys))
    in_parallel(np.ndarray.sort, np.array_split(keys, min(os.cpu_count() or 1, len(keys) // _LEAST + 1)))
    keys.sort(kind="stable")  # merges the sorted parts
    ordered = Edges(np.empty_like(edges.source), np.empty_like(edges.target), np.empty_like(edges.weight))
    in_parallel(partial(_move, edges, keys, ordered), range(0, len(keys), _CHUNK))
    for begin, end in _sort_runs(keys, ordered):
        run = ordered.take(slice(begin, end))
        order = np.lexsort((run.target, run.source, run.weight))
        for array in run:
            array[:] = array[order]
    return ordered


@kernel
def _move(edges: Edges, keys: Ids, ordered: Edges, begin: int) -> None:
    """Write a chunk of the edges in the order of the keys."""
    for rank in range(begin, min(begin + _CHUNK, len(keys))):
        i = keys[rank] & 0xFFFFFFFF
        ordered.source[rank], ordered.target[rank] = edges.source[i], edges.target[i]
        ordered.weight[rank] = edges.weight[i]


@kernel
def _sort_runs(keys: Ids, ordered: Edges) -> list[tuple[int, int]]:
    """Sort the short runs of equal rounded weights, and return the long ones."""
    long_runs = [(0, 0) for _ in range(0)]
    begin = 0
    for i in range(len(keys)):
        if i + 1 == len(keys) or keys[i + 1] >> 32 != keys[begin] >> 32:
            if i - begin >= _LONG:
                long_runs.append((begin, i + 1))
            elif i > begin:
                sort_run(ordered.weight, ordered.source, ordered.target, begin, i + 1)
            begin = i + 1
    return long_runs


@kernel
def sort_run(weight: Weights, source: Ids, target: Ids, begin: int, end: int) -> None:
    """Sort a run of edges by (weight, source, target), without recursion."""
    if end - begin > _SHORT:
        heap = [(weight[i], source[i], target[i], i) for i in range(begin, end)]
        heapify(heap)
        for i in range(begin, end):
            weight[i], source[i], target[i], _ = heappop(heap)
        return
    for i in range(begin + 1, end):
        w, u, v, hole = weight[i], source[i], target[i], i
        while hole > begin and (w, u, v) < (weight[hole - 1], source[hole - 1], target[hole - 1]):
            weight[hole], source[hole], target[hole] = weight[hole - 1], source[hole - 1], target[hole - 1]
            hole -= 1
        weight[hole], source[hole], target[hole] = w, u, v
