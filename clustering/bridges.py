"""Bridges: the edges of a tree that hold its large parts together."""

from typing import NamedTuple

import numpy as np

from .arrays import Edges, Ids, id_dtype
from .kernels import kernel
from .ordering import by_weight
from .union_find import find, join, singletons


class Bridges(NamedTuple):
    """The edges of trees, sorted by the size of the parts that they join, largest first."""

    edges: Edges
    parts: Ids  # (edges, 2) number of nodes that lighter edges connect with the source, and with the target
    sides: Ids  # (edges, 2) number of nodes of the tree on the side of the source, and on the side of the target

    def first(self, most: int) -> "Bridges":
        """Return at most so many, and only those whose smaller part is at least a tenth of that of the first."""
        smaller = self.parts[:most].min(axis=1)
        n = int((smaller >= smaller[:1] / 10).sum())
        return Bridges(self.edges.take(slice(n)), self.parts[:n], self.sides[:n])


def bridges(edges: Edges, *, n_nodes: int) -> Bridges:
    """Rank the edges of a forest by the smaller of the two parts that they join; the heavier edge wins ties.

    The parts of an edge remain if the edge and all heavier edges are removed from the tree, as at a lower threshold;
    its sides remain if only the edge is removed. A single wrong edge joins two complete clusters, so both its parts are
    large. Ranking by the smaller *side* would not find it: every edge between the wrong edge and the middle of a part
    also has large sides, even the lightest. O(edges log edges) time, without recursion. Raise ValueError if the edges
    have a cycle.

    >>> edges = Edges(np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]), np.array([0.1, 0.2, 0.9, 0.1]))
    >>> ranked = bridges(edges, n_nodes=5)
    >>> ranked.edges.source.tolist(), ranked.parts.tolist(), ranked.sides.tolist()
    ([2, 1, 0, 3], [[3, 2], [2, 1], [1, 1], [1, 1]], [[3, 2], [2, 3], [1, 4], [4, 1]])
    """
    size = np.ones(n_nodes, id_dtype(n_nodes))
    ordered = by_weight(edges)
    parts, sides = _parts(ordered.source, ordered.target, size), _sides(ordered.source, ordered.target, size)
    if len(parts) < len(ordered.source):
        i = len(parts)
        raise ValueError(f"the edges are not a forest: another path joins {ordered.source[i]} and {ordered.target[i]}")
    rank = np.lexsort((ordered.target, ordered.source, -ordered.weight, -parts.min(axis=1)))
    return Bridges(ordered.take(rank), parts[rank], sides[rank])


@kernel
def _parts(source: Ids, target: Ids, size: Ids) -> Ids:
    """Count the nodes that each edge joins, from the first to the last; stop at an edge that closes a cycle."""
    sets = singletons(len(size), size)
    count = size.copy()  # by root
    parts = np.empty((len(source), 2), size.dtype)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if a == b:
            return parts[:i]
        parts[i, 0], parts[i, 1] = count[a], count[b]
        count[join(sets, a, b)] = parts[i, 0] + parts[i, 1]
    return parts


@kernel
def _sides(source: Ids, target: Ids, size: Ids) -> Ids:
    """Count both sides of each edge, by removing leaf after leaf.

    Each node has the number of its remaining edges and the exclusive or of their indices. If one edge is left, this is
    the index of the edge to the rest of the tree.
    """
    degree, places = np.zeros_like(size), np.zeros(len(size), np.int64)
    for i in range(len(source)):
        for node in (source[i], target[i]):
            degree[node] += 1
            places[node] ^= i
    below = size.copy()  # of a node and all nodes that hung on it when it was removed
    taken = np.empty(len(size), size.dtype)
    over = np.empty(len(size), np.int64)  # the edge over which it hung
    n_taken = 0
    for begin in range(len(size)):
        node = begin
        while degree[node] == 1:
            i = places[node]
            other = source[i] if target[i] == node else target[i]
            taken[n_taken], over[n_taken] = node, i
            n_taken += 1
            below[other] += below[node]
            degree[node] = 0
            degree[other] -= 1
            places[other] ^= i
            node = other
    whole = below.copy()  # correct at the last node of a tree, then at all others
    sides = np.zeros((len(source), 2), size.dtype)
    for k in range(n_taken - 1, -1, -1):
        node, i = taken[k], over[k]
        other = source[i] if target[i] == node else target[i]
        whole[node] = whole[other]
        end = 0 if source[i] == node else 1
        sides[i, end], sides[i, 1 - end] = below[node], whole[node] - below[node]
    return sides
