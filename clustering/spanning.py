"""The minimum spanning forest of mentions, where all entities are one node.

The edges join components from the lightest to the heaviest (Kruskal 1956), in the order (weight, source, target). The
lightest ones, about two for each mention, come first. They join most of what will be joined, so that most of the other
edges are dropped before they are sorted (Osipov, Sanders and Singler 2009). O(edges log edges) time.
"""

from functools import partial

import numpy as np

from .arrays import Bools, Edges, Ids, Weights, concatenated
from .forest import EntityEdges, no_entity_edges, surviving_edges
from .graph import Graph
from .kernels import kernel
from .ordering import by_weight
from .progress import in_parallel
from .union_find import find, join, roots, singletons

_LIGHT = 2
_LEAST, _CHUNK = 1 << 17, 1 << 20


def joining_edges(graph: Graph) -> Edges:
    """Return the minimum spanning forest of the mentions of a graph, from 0; directions and entities are ignored."""
    none = no_entity_edges(graph)
    return spanning_forest(none, surviving_edges(graph, none.weight, np.inf, directed=False))[0]


def spanning_forest(entity_edges: EntityEdges, edges: Edges) -> tuple[Edges, Bools, Bools]:
    """Return the spanning forest of the edges between mentions and the lightest entity edges of the mentions.

    It has the joining edges between mentions, in order; whether it connects each mention to an entity; and whether it
    has the lightest entity edge of each mention. An edge between mentions counts both ways; its source is the smaller.
    """
    n = len(entity_edges.entity)
    edges = entity_edges.beside(edges)
    sets = singletons(n + 1, edges.target)  # the last is the node of all entities
    heaviest = pivot(edges.weight, min(_LIGHT * n, len(edges.weight) // 2))
    is_light = edges.weight <= heaviest
    joining = _joining(edges if is_light.all() else edges.take(np.flatnonzero(is_light)), sets)
    if heaviest < np.inf:
        joins = ~is_light
        in_parallel(partial(_drop_inner, edges, roots(sets), joins), range(0, len(joins), _CHUNK))
        joining = concatenated([joining, _joining(edges.take(np.flatnonzero(joins)), sets)])
    component, hangs = roots(sets), np.zeros(n, np.bool_)
    hangs[joining.target[joining.source < 0]] = True
    return joining.take(joining.source >= 0), component[:n] == component[n], hangs


def pivot(weight: Weights, n_light: int) -> float:
    """Return about the weight of the ``n_light``-th edge; infinity if parting the edges there would gain nothing."""
    if len(weight) < max(_LEAST, 2 * n_light):
        return np.inf
    sample = np.sort(weight[:: len(weight) >> 12 | 1])
    return float(sample[len(sample) * n_light // len(weight)])


def _joining(edges: Edges, sets: Ids) -> Edges:
    """Join components by edges, from the lightest to the heaviest, and return the edges that do, in this order."""
    ordered = by_weight(edges)
    return ordered.take(np.flatnonzero(_join(ordered, sets)))


@kernel
def _join(edges: Edges, sets: Ids) -> Bools:
    joins = np.zeros(len(edges.source), np.bool_)
    for i in range(len(joins)):
        u = edges.source[i]
        a, b = find(sets, u if u >= 0 else len(sets) - 1), find(sets, edges.target[i])
        if a != b:
            join(sets, a, b)
            joins[i] = True
    return joins


@kernel
def _drop_inner(edges: Edges, component: Ids, joins: Bools, begin: int) -> None:
    """Unmark the edges of a chunk that lie inside a component."""
    for i in range(begin, min(begin + _CHUNK, len(joins))):
        if joins[i]:
            joins[i] = component[max(edges.source[i], -1)] != component[edges.target[i]]  # the last is of entities
