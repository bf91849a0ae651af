"""The arborescence partition: the procedure of the ArboEL paper (section 2.3), found by contraction.

The procedure examines the edges from the heaviest to the lightest and deletes an edge when its target can still be
reached from an entity without it. The remaining edges are the spanning forest, rooted at entities, whose weights,
sorted in descending order, are lexicographically smallest. Chu-Liu/Edmonds contraction on the raw weights finds that
forest: each node takes its lightest edge from outside, cycles are contracted to one node, and the nodes inside a cycle
keep the edges they took, except the node that an edge from outside enters.

A path is grown backwards along lightest edges (Gabow, Galil, Spencer and Tarjan 1986) until it ends at an entity or at
a node that is known to be reached, or closes a cycle, which is contracted in place. Each contracted node keeps its
members in a heap, ordered by the lightest edge of each that may still come from outside; of the heaps of a cycle, the
smaller ones are added to the largest. Heaps are arrays, and only nodes on the path need one. The edges of a member are
sorted, so that the heap holds mentions rather than edges. O((edges + mentions log mentions) log mentions) time.
"""

from typing import NamedTuple

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


def arborescence_forest(entity_edges: EntityEdges, edges: Edges) -> Forest:
    """Return the forest, rooted at entities, whose weights in descending order are lexicographically smallest."""
    from scipy.sparse import csr_array

    place = edges.target, np.arange(len(edges.target), dtype=id_dtype(len(edges.target)))
    into = csr_array((edges.weight, place), shape=(len(entity_edges.entity), len(edges.target)))
    lists = _Lists(into.indptr, edges.source[into.indices], into.data, into.indptr[:-1].copy())
    forest = unreached(len(entity_edges.entity), edges.source, edges.weight)
    _expand(entity_edges, lists, *_contract(entity_edges, lists), forest)
    return forest


class _Lists(NamedTuple):
    """The edges between mentions, listed by their target, lightest first."""

    start: Ids  # (mentions + 1,) the edges into ``v`` are at ``start[v] .. start[v + 1] - 1``.
    source: Ids
    weight: Weights
    current: Ids  # (mentions,) the place of the lightest edge into the mention that may still come from outside


class _Heap(NamedTuple):
    """A heap of mentions, the one with the lightest current edge first; the children of ``i`` are at ``4 i + 1 ..``."""

    weight: Weights  # of the current edge of each mention
    mention: Ids


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
    for v in range(n):  # the targets of a list are equal, so that the sources can stand for them
        sort_run(lists.weight, lists.source, lists.source, lists.start[v], lists.start[v + 1])
    sets = singletons(n, lists.source)
    # Kept for the root of each set: its state, its node in the tree, the mention that its lightest entity edge enters.
    state = np.zeros(n, np.uint8)
    node = np.arange(n).astype(lists.source.dtype)
    entry, path = node.copy(), node.copy()
    # Only the sets on the path have heaps, which are kept by their places on it.
    size = np.zeros(n, np.int64)
    alone = _Heap(np.empty(n, lists.weight.dtype), np.empty(n, lists.source.dtype))  # for heaps of one mention
    heaps = [_Heap(alone.weight[:1], alone.mention[:1])]

    for begin in range(n):
        path[0] = find(sets, begin)
        depth = 1 if state[path[0]] == _NEW else 0
        if depth > 0:
            size[0] = _alone(lists, heaps[0], path[0])
        while depth > 0:
            v = path[depth - 1]
            state[v] = _ON_PATH
            limit = entity_edges.weight[entry[v]]
            heap, n_held = heaps[depth - 1], size[depth - 1]
            m, size[depth - 1] = _lightest_from_outside(lists, heap, n_held, v, limit, sets, state)
            if m != _NONE:
                leaf[node[v]], place[node[v]] = m, lists.current[m]
                origin = find(sets, lists.source[lists.current[m]])
                if state[origin] == _NEW:
                    path[depth] = origin
                    if depth == len(heaps):
                        heaps.append(_Heap(alone.weight[depth : depth + 1], alone.mention[depth : depth + 1]))
                    size[depth] = _alone(lists, heaps[depth], origin)
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
                    size[depth] = _merge(lists, heaps, size, depth, top, root, sets)
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
def _alone(lists: _Lists, heap: _Heap, m: int) -> int:
    """Make the heap of a single mention; return its size, 0 if no edge leads to the mention."""
    if lists.start[m] == lists.start[m + 1]:
        return 0
    heap.weight[0], heap.mention[0] = lists.weight[lists.start[m]], m
    return 1


@kernel
def _lightest_from_outside(
    lists: _Lists, heap: _Heap, size: int, root: int, limit: float, sets: Ids, state: States
) -> tuple[int, int]:
    """Discard edges from inside the set ``root``, from unreachable mentions, and not lighter than ``limit``."""
    while size > 0 and heap.weight[0] < limit:  # the others of the heap are no lighter
        m = heap.mention[0]
        e, end = lists.current[m], lists.start[m + 1]
        while e < end:
            origin = find(sets, lists.source[e])
            if origin != root and state[origin] != _UNREACHABLE:
                break
            e += 1
        if e == lists.current[m]:
            return m, size
        if e < end and lists.weight[e] < limit:
            lists.current[m] = e
            _sink(heap, size, lists.weight[e], m, lists)
        else:
            size -= 1
            if size > 0:
                _sink(heap, size, heap.weight[size], heap.mention[size], lists)
    return _NONE, size


@kernel
def _merge(lists: _Lists, heaps: list[_Heap], size: Ids, first: int, last: int, root: int, sets: Ids) -> int:
    """Move the mentions of the heaps ``first .. last - 1`` to the first place, and return their number.

    The smaller heaps are added to the largest, without the mentions whose edges all come from inside the set ``root``.
    """
    large = first + np.argmax(size[first:last])
    heap, n_held, most = heaps[large], size[large], size[first:last].sum()
    if most > len(heap.weight):
        heap = _Heap(np.empty(2 * most, lists.weight.dtype), np.empty(2 * most, lists.source.dtype))
        heap.weight[:n_held], heap.mention[:n_held] = heaps[large].weight[:n_held], heaps[large].mention[:n_held]
    for other in range(first, last):
        if other == large:
            continue
        for m in heaps[other].mention[: size[other]]:
            e, end = lists.current[m], lists.start[m + 1]
            while e < end and find(sets, lists.source[e]) == root:
                e += 1
            lists.current[m] = e
            if e < end:
                _push(heap, n_held, lists.weight[e], m, lists)
                n_held += 1
    heaps[large] = heaps[first]
    heaps[first] = heap
    return int(n_held)


@kernel
def _sink(heap: _Heap, size: int, weight: float, mention: int, lists: _Lists) -> None:
    """Replace the first mention of a heap."""
    weights, mentions = heap.weight, heap.mention
    hole = 0
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        w, m = weights[child], mentions[child]
        for other in range(child + 1, min(child + 4, size)):
            if weights[other] <= w and _before(weights[other], mentions[other], w, m, lists):
                child, w, m = other, weights[other], mentions[other]
        if weight < w or _before(weight, mention, w, m, lists):
            break
        weights[hole], mentions[hole] = w, m
        hole = child
    weights[hole], mentions[hole] = weight, mention


@kernel
def _push(heap: _Heap, size: int, weight: float, mention: int, lists: _Lists) -> None:
    """Add a mention to a heap that has room for it."""
    weights, mentions = heap.weight, heap.mention
    hole = size
    while hole > 0:
        above = (hole - 1) >> 2
        w, m = weights[above], mentions[above]
        if w < weight or _before(w, m, weight, mention, lists):
            break
        weights[hole], mentions[hole] = w, m
        hole = above
    weights[hole], mentions[hole] = weight, mention


@kernel
def _before(weight: float, mention: int, other_weight: float, other: int, lists: _Lists) -> bool:
    """Compare the current edges of two mentions by (weight, source, target)."""
    if weight != other_weight:
        return bool(weight < other_weight)
    source, other_source = lists.source[lists.current[mention]], lists.source[lists.current[other]]
    return bool(source < other_source or (source == other_source and mention < other))


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
