"""Bridges: the edges of a tree that hold its large parts together."""

from typing import NamedTuple

import numpy as np

from .arrays import Edges, Ids, id_dtype
from .kernels import kernel
from .ordering import by_weight
from .union_find import find, join, label_components, singletons


class Bridges(NamedTuple):
    """The edges of trees, sorted by the size of the parts that they join, largest first."""

    edges: Edges
    parts: Ids  # (edges, 2) number of nodes that lighter edges connect with the source, and with the target
    n_nodes: int

    def n_first(self, most: int) -> int:
        """Return how many edges, at most `most`, have a smaller part of at least a tenth of that of the first."""
        smaller = self.parts[:most].min(axis=1)
        return int((smaller >= smaller[:1] / 10).sum())

    def sides(self, place: int) -> list[int]:
        """Return the numbers of nodes of the tree on the side of the source and on that of the target of an edge."""
        others = self.edges.take(np.arange(len(self.parts)) != place)
        label = np.arange(self.n_nodes, dtype=others.source.dtype)
        label_components(others.source, others.target, label)
        return [int((label == label[ends[place]]).sum()) for ends in self.edges[:2]]


def bridges(edges: Edges, *, n_nodes: int) -> Bridges:
    """Rank the edges of a forest by the smaller of the two parts that they join; the heavier edge wins ties.

    The parts of an edge remain if the edge and all heavier edges are removed from the tree, as at a lower threshold;
    its sides remain if only the edge is removed. A single wrong edge joins two complete clusters, so both its parts are
    large. Ranking by the smaller *side* would not find it: every edge between the wrong edge and the middle of a part
    also has large sides, even the lightest. O(edges log edges) time, without recursion. Raise ValueError if the edges
    have a cycle.

    >>> edges = Edges(np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]), np.array([0.1, 0.2, 0.9, 0.1]))
    >>> ranked = bridges(edges, n_nodes=5)
    >>> ranked.edges.source.tolist(), ranked.parts.tolist(), ranked.sides(0)
    ([2, 1, 0, 3], [[3, 2], [2, 1], [1, 1], [1, 1]], [3, 2])
    """
    ordered = by_weight(edges)
    parts = _parts(ordered.source, ordered.target, np.ones(n_nodes, id_dtype(n_nodes)))
    if len(parts) < len(ordered.source):
        i = len(parts)
        raise ValueError(f"the edges are not a forest: another path joins {ordered.source[i]} and {ordered.target[i]}")
    rank = np.lexsort((ordered.target, ordered.source, -ordered.weight, -parts.min(axis=1)))
    return Bridges(ordered.take(rank), parts[rank], n_nodes)


@kernel
def _parts(source: Ids, target: Ids, count: Ids) -> Ids:
    """Count the nodes that each edge joins, from the first to the last; stop at an edge that closes a cycle.

    ``count`` is 1 for each node, and is overwritten.
    """
    sets = singletons(len(count), count)
    parts = np.empty((len(source), 2), count.dtype)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if a == b:
            return parts[:i]
        parts[i, 0], parts[i, 1] = count[a], count[b]
        count[join(sets, a, b)] = parts[i, 0] + parts[i, 1]
    return parts
