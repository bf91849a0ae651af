"""The arborescence partition: the procedure of the ArboEL paper (section 2.3), found by contraction.

The procedure examines the edges from the heaviest to the lightest and deletes an edge when its target can still be
reached from an entity without it. The remaining edges are the spanning forest, rooted at entities, whose weights,
sorted in descending order, are lexicographically smallest. Chu-Liu/Edmonds contraction on the raw weights finds that
forest: each node takes its lightest edge from outside, cycles are contracted to one node, and the nodes inside a cycle
keep the edges they took, except the node that an edge from outside enters.

A path is grown backwards along lightest edges (Gabow, Galil, Spencer and Tarjan 1986) until it ends at an entity or at
a node that is known to be reached, or closes a cycle, which is contracted in place. Each contracted node keeps its
members in a mergeable heap, ordered by the lightest edge of each that may still come from outside. The edges of a
member are sorted, so that the heap holds mentions rather than edges. O(edges log mentions) time.
"""

from heapq import heapify, heappop
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Edges, Ids, Weights, id_dtype
from .forest import EntityEdges, Forest, lighter_entity_edge, unreached
from .kernels import kernel
from .union_find import find, join, singletons

States = npt.NDArray[np.uint8]
_NEW, _ON_PATH, _REACHED, _UNREACHABLE = 0, 1, 2, 3
_NONE = _FROM_ENTITY = -1
_SHORT = 16


def arborescence_forest(entity_edges: EntityEdges, edges: Edges) -> Forest:
    """Return the forest, rooted at entities, whose weights in descending order are lexicographically smallest.

    ``edges`` are those between mentions that `clustering.pruning.surviving_edges` selects.
    """
    lists = _lists(len(entity_edges.entity), edges)
    forest = unreached(len(entity_edges.entity), edges.source, edges.weight)
    _expand(entity_edges, lists, *_contract(entity_edges, lists), forest)
    return forest


class _Lists(NamedTuple):
    """The edges between mentions, listed by their target, lightest first."""

    start: Ids  # (mentions + 1,) the edges into ``v`` are at ``start[v] .. start[v + 1] - 1``.
    source: Ids
    weight: Weights


def _lists(n_mentions: int, edges: Edges) -> _Lists:
    start: Ids = np.zeros(n_mentions + 1, id_dtype(len(edges.source)))
    lists = _Lists(start, np.empty_like(edges.source), np.empty_like(edges.weight))
    _list_by_target(edges, lists)
    return lists


@kernel
def _list_by_target(edges: Edges, lists: _Lists) -> None:
    start = lists.start
    for v in edges.target:
        start[v + 1] += 1
    for v in range(len(start) - 1):
        start[v + 1] += start[v]
    for i in range(len(edges.target)):
        # Fill each list from its end, so that afterwards `start[v + 1]` is the beginning of the list of `v`.
        v = edges.target[i] + 1
        start[v] -= 1
        lists.source[start[v]], lists.weight[start[v]] = edges.source[i], edges.weight[i]
    for v in range(len(start) - 1):
        start[v] = start[v + 1]
    start[-1] = len(edges.target)
    for v in range(len(start) - 1):
        _sort(lists, start[v], start[v + 1])


@kernel
def _sort(lists: _Lists, begin: int, end: int) -> None:
    """Sort a list by (weight, source), without recursion."""
    source, weight = lists.source, lists.weight
    if end - begin > _SHORT:
        heap = [(weight[i], source[i]) for i in range(begin, end)]
        heapify(heap)
        for i in range(begin, end):
            weight[i], source[i] = heappop(heap)
        return
    for i in range(begin + 1, end):
        w, u, hole = weight[i], source[i], i
        while hole > begin and (w < weight[hole - 1] or (w == weight[hole - 1] and u < source[hole - 1])):
            weight[hole], source[hole] = weight[hole - 1], source[hole - 1]
            hole -= 1
        weight[hole], source[hole] = w, u


class _Heaps(NamedTuple):
    """Skew heaps of mentions, the one with the lightest current edge on top; a heap is its top, or -1."""

    source: Ids  # (edges,) as in the lists
    current: Ids  # (mentions,) index of the mention's current edge: the lightest that may still come from outside
    weight: Weights  # (mentions,) weight of that edge
    left: Ids
    right: Ids


@kernel
def _contract(entity_edges: EntityEdges, lists: _Lists) -> tuple[Ids, Ids, Ids]:
    """Contract cycles until every mention is decided.

    Returns the contraction tree (its leaves are the mentions) as ``up``, the node that each node was contracted into,
    ``leaf``, the mention through which each node was entered (-1: not at all), and ``place``, that of the edge in the
    lists, or -1 where it was the mention's entity edge.
    """
    n = len(entity_edges.entity)
    up = np.full(2 * n, _NONE, lists.source.dtype)
    leaf = np.full(2 * n, _NONE, lists.source.dtype)
    place = np.full(2 * n, _FROM_ENTITY, lists.start.dtype)
    n_tree = n
    sets = singletons(n, lists.source)
    # Kept for the root of each set: its state, its node in the tree, the mention that its lightest entity edge enters,
    # its members.
    state = np.zeros(n, np.uint8)
    node = np.arange(n).astype(lists.source.dtype)
    entry, heap, path = node.copy(), node.copy(), node.copy()
    none = np.full(n, _NONE, lists.source.dtype)
    weight = np.empty(n, lists.weight.dtype)
    for v in range(n):
        if lists.start[v] == lists.start[v + 1]:
            heap[v] = _NONE
        else:
            weight[v] = lists.weight[lists.start[v]]
    heaps = _Heaps(lists.source, lists.start[:-1].copy(), weight, none, none.copy())

    for begin in range(n):
        path[0] = find(sets, begin)
        depth = 1 if state[path[0]] == _NEW else 0
        while depth > 0:
            v = path[depth - 1]
            state[v] = _ON_PATH
            m = heap[v] = _lightest_from_outside(lists, heaps, heap[v], v, entity_edges.weight[entry[v]], sets, state)
            if m != _NONE:
                leaf[node[v]], place[node[v]] = m, heaps.current[m]
                origin = find(sets, lists.source[heaps.current[m]])
                if state[origin] == _NEW:
                    path[depth] = origin
                    depth += 1
                    continue
                if state[origin] == _ON_PATH:
                    merged, lightest, root, member = _NONE, entry[v], v, _NONE
                    while member != origin:
                        depth -= 1
                        member = path[depth]
                        up[node[member]] = n_tree
                        merged = _meld(heaps, merged, heap[member])
                        lightest = lighter_entity_edge(entity_edges, lightest, entry[member])
                        if member != v:
                            root = join(sets, root, member)
                    node[root], entry[root], heap[root] = n_tree, lightest, merged
                    n_tree += 1
                    path[depth] = root
                    depth += 1
                    continue
            elif entity_edges.entity[entry[v]] < 0:
                leaf[node[v]], place[node[v]] = entry[v], _FROM_ENTITY
            else:
                leaf[node[v]] = _NONE
                state[v] = _UNREACHABLE
                depth -= 1
                continue
            while depth > 0:
                depth -= 1
                state[path[depth]] = _REACHED
    return up[:n_tree], leaf[:n_tree], place[:n_tree]


@kernel
def _lightest_from_outside(
    lists: _Lists, heaps: _Heaps, top: int, root: int, limit: float, sets: Ids, state: States
) -> int:
    """Discard edges from inside the set ``root``, from unreachable mentions, and not lighter than ``limit``."""
    m = top
    while m != _NONE and heaps.weight[m] < limit:  # the others of the heap are no lighter
        e, end = heaps.current[m], lists.start[m + 1]
        while e < end:
            origin = find(sets, lists.source[e])
            if origin != root and state[origin] != _UNREACHABLE:
                break
            e += 1
        if e == heaps.current[m]:
            return m
        rest = _meld(heaps, heaps.left[m], heaps.right[m])
        heaps.left[m] = heaps.right[m] = _NONE
        if e < end and lists.weight[e] < limit:
            heaps.current[m] = e
            heaps.weight[m] = lists.weight[e]
            rest = _meld(heaps, rest, m)
        m = rest
    return _NONE


@kernel
def _expand(entity_edges: EntityEdges, lists: _Lists, up: Ids, leaf: Ids, place: Ids, forest: Forest) -> None:
    """Undo the contraction from the last node to the first: a node entered from outside gives up its own edge."""
    given_up = np.zeros(len(up), np.bool_)
    for c in range(len(up) - 1, -1, -1):
        if up[c] != _NONE and leaf[up[c]] == _NONE:
            leaf[c] = _NONE
        m = leaf[c]
        if given_up[c] or m == _NONE:
            continue
        if place[c] == _FROM_ENTITY:
            forest.parent[m], forest.weight[m] = entity_edges.entity[m], entity_edges.weight[m]
        else:
            forest.parent[m], forest.weight[m] = lists.source[place[c]], lists.weight[place[c]]
        while m != c:
            given_up[m] = True
            m = up[m]


@kernel
def _lighter(heaps: _Heaps, a: int, b: int) -> bool:
    if heaps.weight[a] != heaps.weight[b]:
        return bool(heaps.weight[a] < heaps.weight[b])
    source_a, source_b = heaps.source[heaps.current[a]], heaps.source[heaps.current[b]]
    return bool(source_a < source_b or (source_a == source_b and a < b))


@kernel
def _meld(heaps: _Heaps, a: int, b: int) -> int:
    """Meld two skew heaps from the top down (Sleator and Tarjan 1986) and return the new top."""
    if a == _NONE:
        return b
    if b == _NONE:
        return a
    if _lighter(heaps, b, a):
        a, b = b, a
    top = a
    while True:
        rest = heaps.right[a]
        heaps.right[a] = heaps.left[a]
        if rest == _NONE:
            heaps.left[a] = b
            return top
        if _lighter(heaps, b, rest):
            rest, b = b, rest
        heaps.left[a] = rest
        a = rest
