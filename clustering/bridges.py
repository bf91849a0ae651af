"""Bridges: the edges of a tree that hold its large parts together."""

import numpy as np

from .arrays import Edges, Ids, id_dtype
from .kernels import kernel
from .ordering import by_weight
from .union_find import find, join, singletons


def bridges(edges: Edges, *, n_nodes: int) -> tuple[Edges, Ids]:
    """Return the edges of a forest by weight, and the number of nodes of the two parts that each joins; (edges, 2).

    The parts of an edge remain if the edge and all heavier edges are removed from the tree, as at a lower threshold. A
    single wrong edge joins two complete clusters, so both its parts are large. The *sides* that remain if only the edge
    is removed would not show it: every edge between the wrong edge and the middle of a part has large sides, even the
    lightest. O(edges log edges) time, without recursion. Raise ValueError if the edges have a cycle.

    >>> edges = Edges(np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]), np.array([0.1, 0.2, 0.9, 0.1]))
    >>> ordered, parts = bridges(edges, n_nodes=5)
    >>> ordered.source.tolist(), parts.tolist()
    ([0, 3, 1, 2], [[1, 1], [1, 1], [2, 1], [3, 2]])
    """
    ordered = by_weight(edges)
    parts = _parts(ordered.source, ordered.target, np.ones(n_nodes, id_dtype(n_nodes)))
    if len(parts) < len(ordered.source):
        i = len(parts)
        raise ValueError(f"the edges are not a forest: another path joins {ordered.source[i]} and {ordered.target[i]}")
    return ordered, parts


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
