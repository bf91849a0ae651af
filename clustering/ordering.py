"""The order of edges in all methods: by weight, then source, then target."""

from heapq import heapify, heappop

import numpy as np

from .arrays import Edges, Ids, id_dtype
from .kernels import kernel

_SHORT, _LONG = 16, 1 << 16


def by_weight(edges: Edges) -> Ids:
    """Return the indices of the edges, sorted by (weight, source, target).

    One integer per edge holds the bits of its weight, rounded to float32, above its index. Sorting integers is many
    times faster than sorting indices by floats; runs of equal rounded weights are then put in exact order. Raise
    ValueError for 2^32 edges or more.
    """
    if len(edges.weight) >= 2**32:
        raise ValueError(f"cannot sort {len(edges.weight):,} edges; the maximum is 2^32 - 1, so use fewer neighbours")
    keys = np.empty(len(edges.weight), np.int64)
    _keys(edges, keys)
    keys = _sorted(keys, np.empty_like(keys))
    places = np.empty(len(keys), id_dtype(len(keys)))
    for begin, end in _places(edges, keys, places):
        run = places[begin:end]
        places[begin:end] = run[np.lexsort((edges.target[run], edges.source[run], edges.weight[run]))]
    return places


@kernel
def _keys(edges: Edges, keys: Ids) -> None:
    bits = np.empty(1, np.float32)
    as_int = bits.view(np.int32)
    for i in range(len(keys)):
        bits[0] = edges.weight[i] + 0.0  # -0.0 becomes 0.0
        high = np.int64(as_int[0])
        if high < 0:
            high ^= 0x7FFFFFFF
        keys[i] = ((high + 2**31) << 32) | i


@kernel
def _sorted(keys: Ids, spare: Ids) -> Ids:
    """Sort by the upper half of each key, keeping the order of equal ones; both arrays are overwritten.

    Counting sort by 11 bits at a time, from the lowest (radix sort); the sign bit makes the last 10 bits 11.
    """
    for shift in (32, 43, 54):
        place = np.zeros(2049, np.int64)
        for key in keys:
            place[((key >> shift) & 2047) + 1] += 1
        for digit in range(2048):
            place[digit + 1] += place[digit]
        for key in keys:
            digit = (key >> shift) & 2047
            spare[place[digit]] = key
            place[digit] += 1
        keys, spare = spare, keys
    return keys


@kernel
def _places(edges: Edges, keys: Ids, places: Ids) -> list[tuple[int, int]]:
    """Return the indices in the sorted keys, with short runs of equal weights ordered, and the long runs."""
    long_runs = [(0, 0) for _ in range(0)]
    begin = 0
    for i in range(len(keys)):
        places[i] = keys[i] & 0xFFFFFFFF
        if i + 1 == len(keys) or keys[i + 1] >> 32 != keys[begin] >> 32:
            if i - begin >= _LONG:
                long_runs.append((begin, i + 1))
            elif i > begin:
                _sort_places(edges, places[begin : i + 1])
            begin = i + 1
    return long_runs


@kernel
def _sort_places(edges: Edges, places: Ids) -> None:
    """Sort indices of edges by (weight, source, target), without recursion."""
    if len(places) > _SHORT:
        heap = [(edges.weight[i], edges.source[i], edges.target[i], i) for i in places]
        heapify(heap)
        for i in range(len(places)):
            places[i] = heappop(heap)[3]
        return
    for i in range(1, len(places)):
        place, hole = places[i], i
        while hole > 0 and before(edges, place, places[hole - 1]):
            places[hole] = places[hole - 1]
            hole -= 1
        places[hole] = place


@kernel
def before(edges: Edges, a: int, b: int) -> bool:
    """Return whether the edge at index ``a`` comes before the edge at ``b``."""
    if edges.weight[a] != edges.weight[b]:
        return bool(edges.weight[a] < edges.weight[b])
    if edges.source[a] != edges.source[b]:
        return bool(edges.source[a] < edges.source[b])
    return bool(edges.target[a] < edges.target[b])
