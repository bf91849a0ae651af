"""The arborescence partition: the procedure of the ArboEL paper (section 2.3), found by contraction.

The procedure examines the edges from the heaviest to the lightest and deletes an edge when its target can still be
reached from an entity without it. What it leaves is the spanning forest, rooted at entities, whose weights sorted in
descending order are lexicographically smallest. Chu-Liu/Edmonds contraction on the raw weights finds that forest:
each node takes its lightest edge from outside, cycles are contracted to one node, and the nodes inside a cycle keep
the edges they took but for the one through which the outside enters.

A path is grown backwards along lightest edges (Gabow, Galil, Spencer and Tarjan 1986): it ends at an entity, or at a
node that is known to be reached, or closes a cycle, which is contracted in place. Each contracted node keeps its
members in a mergeable heap, by the lightest edge of each that may still come from outside; a member's own edges are
sorted, so that the heap holds mentions and not edges. O(edges log mentions) time.
"""

from typing import NamedTuple

import numba
import numpy as np

from clustering.arrays import Ids, Weights
from clustering.graph import Graph
from clustering.ordering import by_weight
from clustering.pruning import Doors
from clustering.union_find import find, join, singletons

_NEW, _ON_PATH, _REACHED, _UNREACHABLE = 0, 1, 2, 3
_NONE = _BY_DOOR = -1


def arborescence_forest(graph: Graph, entrances: Doors, edges: Ids) -> Ids:
    """Find the edge over which each mention is reached; -1 where no entity reaches it.

    Args:
        graph: the graph.
        entrances: the lightest entity edge of each mention.
        edges: ids of the edges between mentions that can matter.

    """
    lists = _lists(
        graph.source,
        graph.target,
        graph.weight,
        graph.n_entities,
        graph.n_mentions,
        by_weight(graph, edges, directed=True),
    )
    return _expand(entrances.edge, lists.edge, *_contract(entrances, lists))


class _Lists(NamedTuple):
    """The edges between mentions, listed by their target and in order within a list; mentions count from 0."""

    start: Ids
    """(mentions + 1,) the edges into ``v`` stand at ``start[v] .. start[v + 1] - 1``."""
    edge: Ids
    source: Ids
    weight: Weights


@numba.njit(cache=True)
def _lists(
    source: Ids, target: Ids, weight: Weights, n_entities: int, n_mentions: int, ordered: Ids
) -> _Lists:
    start = np.zeros(n_mentions + 1, ordered.dtype)
    for i in ordered:
        start[target[i] - n_entities + 1] += 1
    for v in range(n_mentions):
        start[v + 1] += start[v]
    edge = np.empty_like(ordered)
    place = start[:-1].copy()
    for i in ordered:
        v = target[i] - n_entities
        edge[place[v]] = i
        place[v] += 1
    list_source = np.empty(len(edge), source.dtype)
    list_weight = np.empty(len(edge), weight.dtype)
    for e in range(len(edge)):
        list_source[e], list_weight[e] = source[edge[e]] - n_entities, weight[edge[e]]
    return _Lists(start, edge, list_source, list_weight)


class _Heaps(NamedTuple):
    """Skew heaps of mentions, the one with the lightest current edge on top; a heap is its top, or -1."""

    source: Ids
    """(edges,) as in the lists."""
    current: Ids
    """(mentions,) place of the mention's current edge: the lightest that may still come from outside."""
    weight: Weights
    """(mentions,) weight of that edge."""
    left: Ids
    right: Ids


@numba.njit(cache=True)
def _contract(entrances: Doors, lists: _Lists) -> tuple[Ids, Ids, Ids]:
    """Contract cycles until every mention is decided.

    Returns the contraction tree (its leaves are the mentions) as ``up``, the node that each node was contracted into,
    ``leaf``, the mention through which each node was entered (-1: not at all), and ``place``, that of the edge in the
    lists, or -1 where it was the mention's door.
    """
    n = len(entrances.entity)
    up = np.full(2 * n, _NONE, lists.source.dtype)
    leaf = np.full(2 * n, _NONE, lists.source.dtype)
    place = np.full(2 * n, _BY_DOOR, lists.start.dtype)
    n_tree = n
    sets = singletons(n, lists.source)
    # What follows is kept for the root of each set: its state, its node in the tree, its lightest door, its members.
    state = np.zeros(n, np.uint8)
    node = np.arange(n).astype(lists.source.dtype)
    door, heap, path = node.copy(), node.copy(), node.copy()
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
            m = heap[v] = _lightest_from_outside(
                lists, heaps, heap[v], v, entrances.weight[door[v]], sets, state
            )
            if m != _NONE:
                leaf[node[v]], place[node[v]] = m, heaps.current[m]
                origin = find(sets, lists.source[heaps.current[m]])
                if state[origin] == _NEW:
                    path[depth] = origin
                    depth += 1
                    continue
                if state[origin] == _ON_PATH:
                    merged, lightest, root, member = _NONE, door[v], v, _NONE
                    while member != origin:
                        depth -= 1
                        member = path[depth]
                        up[node[member]] = n_tree
                        merged = _meld(heaps, merged, heap[member])
                        lightest = _lighter_door(entrances, lightest, door[member])
                        if member != v:
                            root = join(sets, root, member)
                    node[root], door[root], heap[root] = n_tree, lightest, merged
                    n_tree += 1
                    path[depth] = root
                    depth += 1
                    continue
            elif entrances.entity[door[v]] != _NONE:
                leaf[node[v]], place[node[v]] = door[v], _BY_DOOR
            else:
                leaf[node[v]] = _NONE
                state[v] = _UNREACHABLE
                depth -= 1
                continue
            while depth > 0:
                depth -= 1
                state[path[depth]] = _REACHED
    return up[:n_tree], leaf[:n_tree], place[:n_tree]


@numba.njit(cache=True)
def _lightest_from_outside(
    lists: _Lists, heaps: _Heaps, top: int, root: int, door: float, sets: Ids, state: Ids
) -> int:
    """Discard edges from inside the set ``root``, from unreachable mentions and no lighter than ``door``."""
    m = top
    while m != _NONE:
        e, end = heaps.current[m], lists.start[m + 1]
        while e < end:
            origin = find(sets, lists.source[e])
            if origin != root and state[origin] != _UNREACHABLE:
                break
            e += 1
        if e == heaps.current[m] and heaps.weight[m] < door:
            return m
        rest = _meld(heaps, heaps.left[m], heaps.right[m])
        heaps.left[m] = heaps.right[m] = _NONE
        if e < end and lists.weight[e] < door:
            heaps.current[m] = e
            heaps.weight[m] = lists.weight[e]
            rest = _meld(heaps, rest, m)
        m = rest
    return m


@numba.njit(cache=True)
def _expand(door_edge: Ids, list_edge: Ids, up: Ids, leaf: Ids, place: Ids) -> Ids:
    """Undo the contraction from the last node to the first: what is entered from outside gives up its own edge."""
    reached_by = np.full(len(door_edge), _NONE, door_edge.dtype)
    given_up = np.zeros(len(up), np.bool_)
    for c in range(len(up) - 1, -1, -1):
        if up[c] != _NONE and leaf[up[c]] == _NONE:
            leaf[c] = _NONE
        m = leaf[c]
        if given_up[c] or m == _NONE:
            continue
        reached_by[m] = door_edge[m] if place[c] == _BY_DOOR else list_edge[place[c]]
        while m != c:
            given_up[m] = True
            m = up[m]
    return reached_by


@numba.njit(cache=True)
def _lighter_door(entrances: Doors, a: int, b: int) -> int:
    if entrances.weight[a] != entrances.weight[b]:
        return a if entrances.weight[a] < entrances.weight[b] else b
    if entrances.entity[a] != entrances.entity[b]:
        return a if entrances.entity[a] < entrances.entity[b] else b
    return min(a, b)


@numba.njit(cache=True)
def _lighter(heaps: _Heaps, a: int, b: int) -> bool:
    if heaps.weight[a] != heaps.weight[b]:
        return bool(heaps.weight[a] < heaps.weight[b])
    source_a, source_b = heaps.source[heaps.current[a]], heaps.source[heaps.current[b]]
    return bool(source_a < source_b or (source_a == source_b and a < b))


@numba.njit(cache=True)
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
