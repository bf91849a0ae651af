"""The arborescence partition: the procedure of the ArboEL paper (section 2.3), found by contraction.

The procedure examines the edges from the heaviest to the lightest and deletes an edge when its target can still be
reached from an entity without it. The remaining edges are the spanning forest, rooted at entities, whose weights,
sorted in descending order, are lexicographically smallest. Chu-Liu/Edmonds contraction on the raw weights finds that
forest: each node takes its lightest edge from outside, cycles are contracted to one node, and the nodes inside a cycle
keep the edges they took, except the node that an edge from outside enters.

A path is grown backwards along lightest edges (Gabow, Galil, Spencer and Tarjan 1986) until it ends at an entity or at
a node that is known to be reached, or closes a cycle, which is contracted in place. Each contracted node keeps its
members in a heap, ordered by the lightest edge of each that may still come from outside; of the heaps of a cycle, the
smaller ones are added to the largest. Only nodes on the path need a heap. The edges of a member are sorted, so that the
heap holds mentions rather than edges. O((edges + mentions log mentions) log mentions) time.
"""

from heapq import heappop, heappush, heapreplace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import Edges, Ids, Weights, id_dtype
from .forest import EntityEdges, Forest, lighter_entity_edge, unreached
from .kernels import kernel
from .ordering import sort_run
from .union_find import find, join, singletons

States = npt.NDArray[np.uint8]
_NEW, _ON_PATH, _REACHED, _UNREACHABLE = 0, 1, 2, 3
_NONE = _FROM_ENTITY = -1

_Heap: TypeAlias = list[tuple[float, int, int]]
"""Weight, source and target of the current edge of each mention, the lightest edge that may still come from outside."""


def arborescence_forest(entity_edges: EntityEdges, edges: Edges) -> Forest:
    """Return the forest, rooted at entities, whose weights in descending order are lexicographically smallest.

    There must be a mention.
    """
    from scipy.sparse import csr_array

    place = edges.target, np.arange(len(edges.target), dtype=id_dtype(len(edges.target)))
    into = csr_array((edges.weight, place), shape=(len(entity_edges.entity), len(edges.target)))
    lists = _Lists(into.indptr, edges.source[into.indices], into.data)
    _sort_lists(lists)
    forest = unreached(len(entity_edges.entity), edges.source, edges.weight)
    _expand(entity_edges, lists, *_contract(entity_edges, lists), forest)
    return forest


class _Lists(NamedTuple):
    """The edges between mentions, listed by their target, lightest first."""

    start: Ids  # (mentions + 1,) the edges into ``v`` are at ``start[v] .. start[v + 1] - 1``.
    source: Ids
    weight: Weights


@kernel
def _sort_lists(lists: _Lists) -> None:
    """Sort each list by weight and source; its targets are equal, so that the sources can stand for them."""
    for v in range(len(lists.start) - 1):
        sort_run(lists.weight, lists.source, lists.source, lists.start[v], lists.start[v + 1])


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
    # Kept for the root of each set: its state, its node in the tree, the mention that its lightest entity edge enters.
    state = np.zeros(n, np.uint8)
    node = np.arange(n).astype(lists.source.dtype)
    entry, path = node.copy(), node.copy()
    current = lists.start[:-1].copy()  # the current edge of each mention
    # Only the sets on the path have heaps, which are kept by their places on it.
    heaps: list[_Heap] = [[(entity_edges.weight[0], entity_edges.entity[0], 0)]]

    for begin in range(n):
        path[0] = find(sets, begin)
        depth = 1 if state[path[0]] == _NEW else 0
        if depth > 0:
            _begin(lists, heaps[0], path[0])
        while depth > 0:
            v = path[depth - 1]
            state[v] = _ON_PATH
            limit = entity_edges.weight[entry[v]]
            m = _lightest_from_outside(lists, current, heaps[depth - 1], v, limit, sets, state)
            if m != _NONE:
                leaf[node[v]], place[node[v]] = m, current[m]
                origin = find(sets, lists.source[current[m]])
                if state[origin] == _NEW:
                    path[depth] = origin
                    if depth == len(heaps):
                        heaps.append(heaps[0][:0])
                    _begin(lists, heaps[depth], origin)
                    depth += 1
                    continue
                if state[origin] == _ON_PATH:
                    lightest, root, member, top = entry[v], v, _NONE, depth
                    while member != origin:
                        depth -= 1
                        member = path[depth]
                        up[node[member]] = n_tree
                        lightest = lighter_entity_edge(entity_edges, lightest, entry[member])
                        if member != v:
                            root = join(sets, root, member)
                    _merge(lists, current, heaps, depth, top, root, sets)
                    node[root], entry[root] = n_tree, lightest
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
def _begin(lists: _Lists, heap: _Heap, m: int) -> None:
    """Make the heap of a single mention, which is empty if no edge leads to the mention."""
    heap.clear()
    e = lists.start[m]
    if e < lists.start[m + 1]:
        heap.append((lists.weight[e], lists.source[e], int(m)))


@kernel
def _lightest_from_outside(
    lists: _Lists, current: Ids, heap: _Heap, root: int, limit: float, sets: Ids, state: States
) -> int:
    """Discard edges from inside the set ``root``, from unreachable mentions, and not lighter than ``limit``."""
    while len(heap) > 0 and heap[0][0] < limit:  # the others of the heap are no lighter
        m = heap[0][2]
        e, end = current[m], lists.start[m + 1]
        while e < end:
            origin = find(sets, lists.source[e])
            if origin != root and state[origin] != _UNREACHABLE:
                break
            e += 1
        if e == current[m]:
            return m
        current[m] = e
        if e < end and lists.weight[e] < limit:
            heapreplace(heap, (lists.weight[e], lists.source[e], m))
        else:
            heappop(heap)
    return _NONE


@kernel
def _merge(lists: _Lists, current: Ids, heaps: list[_Heap], first: int, last: int, root: int, sets: Ids) -> None:
    """Move the mentions of the heaps ``first .. last - 1`` to the first place.

    The smaller heaps are added to the largest, without the mentions whose edges all come from inside the set ``root``.
    """
    large = first
    for other in range(first + 1, last):
        if len(heaps[other]) > len(heaps[large]):
            large = other
    heaps[first], heaps[large] = heaps[large], heaps[first]
    heap = heaps[first]
    for other in range(first + 1, last):
        for _, _, m in heaps[other]:
            e, end = current[m], lists.start[m + 1]
            while e < end and find(sets, lists.source[e]) == root:
                e += 1
            current[m] = e
            if e < end:
                heappush(heap, (lists.weight[e], lists.source[e], m))


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
