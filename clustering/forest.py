"""The lightest entity edge of each mention, the edges that can matter beside it, and forests: parents of mentions.

A node is its id minus ``n_entities``: mentions are numbered from 0, and entities are negative.

Two facts make the engine fast. A mention's lightest entity edge dominates its other entity edges under every method.
And an edge between mentions that is heavier than the lightest entity edge of its target (for ``undirected``: of both
its ends) can never be part of the result. Ties are decided by (weight, source id, target id), and entity ids are
smaller than mention ids, so an edge as heavy as the entity edge is dropped too.
"""

from typing import NamedTuple

import numpy as np

from .arrays import Bools, Edges, Ids, Weights, concatenated
from .graph import Graph
from .kernels import kernel
from .progress import in_parallel

_CHUNK = 1 << 20


class EntityEdges(NamedTuple):
    """The lightest entity edge of each mention."""

    entity: Ids  # (mentions,) the entity, which is negative; 0 without an entity edge
    weight: Weights  # (mentions,) dissimilarity; infinity without an entity edge

    def beside(self, edges: Edges) -> Edges:
        """Return edges between mentions, followed by these edges."""
        if not len(linked := np.flatnonzero(self.entity).astype(edges.target.dtype)):
            return edges
        return concatenated([edges, Edges(self.entity[linked], linked, self.weight[linked])])


def lightest_entity_edges(graph: Graph, limit: float, *, directed: bool) -> EntityEdges:
    """Return the lightest entity edge of each mention up to ``limit``; if not ``directed``, in either direction."""
    lightest = no_entity_edges(graph)
    _find(graph.edges, graph.n_entities, limit, directed, lightest)
    return lightest


def no_entity_edges(graph: Graph) -> EntityEdges:
    """Return the entity edges of a graph in which no mention has one."""
    n = graph.n_mentions
    return EntityEdges(np.zeros(n, graph.source.dtype), np.full(n, np.inf, graph.weight.dtype))


@kernel
def lighter_entity_edge(entity_edges: EntityEdges, a: int, b: int) -> int:
    """Return which of two mentions has the lighter entity edge, by (weight, entity, mention)."""
    one = entity_edges.weight[a], entity_edges.entity[a], a
    other = entity_edges.weight[b], entity_edges.entity[b], b
    return a if one < other else b


@kernel
def _find(edges: Edges, n_entities: int, limit: float, directed: bool, nearest: EntityEdges) -> None:
    (source, target, weight), (entity, lightest) = edges, nearest
    for i in range(len(source)):
        u, v = source[i] - n_entities, target[i] - n_entities
        if not directed and v < 0:
            u, v = v, u
        if not u < 0 <= v or weight[i] > limit:
            continue
        if weight[i] < lightest[v] or (weight[i] == lightest[v] and u < entity[v]):
            entity[v], lightest[v] = u, weight[i]


def surviving_edges(graph: Graph, bound: Weights, limit: float, *, directed: bool) -> Edges:
    """Select the edges between mentions that can matter.

    They are not heavier than ``limit``, and lighter than ``bound``, (mentions,) the weight of the lightest entity edge,
    of their target or, if not ``directed``, of at least one end; if not ``directed``, their source is the smaller end.
    Mentions are numbered from 0.
    """
    given = graph.edges
    # The memory is taken only where edges are written.
    kept = Edges(np.empty_like(given.source), np.empty_like(given.target), np.empty_like(given.weight))

    def select(begin: int) -> Edges:
        chunk = slice(begin, begin + _CHUNK)
        n_kept = _select(given.take(chunk), graph.n_entities, bound, limit, directed, kept.take(chunk))
        return kept.take(slice(begin, begin + n_kept))

    return concatenated(in_parallel(select, range(0, max(graph.n_edges, 1), _CHUNK)))


@kernel
def _select(given: Edges, n_entities: int, bound: Weights, limit: float, directed: bool, kept: Edges) -> int:
    """Write the edges that can matter, and return their number."""
    n_kept = 0
    for i in range(len(given.source)):
        u, v, w = given.source[i] - n_entities, given.target[i] - n_entities, given.weight[i]
        if u >= 0 and v >= 0 and u != v and w <= limit and (w < bound[v] or (not directed and w < bound[u])):
            kept.source[n_kept] = u if directed else min(u, v)
            kept.target[n_kept] = v if directed else max(u, v)
            kept.weight[n_kept] = w
            n_kept += 1
    return n_kept


class Forest(NamedTuple):
    """Parents of mentions; mentions are numbered from 0, entities are negative."""

    parent: Ids  # (mentions,) the parent of the mention; the mention itself if no entity reaches it
    weight: Weights  # (mentions,) weight of the edge from the parent; NaN if no entity reaches the mention

    @property
    def is_reached(self) -> Bools:
        """(mentions,) whether an entity reaches the mention."""
        return ~np.isnan(self.weight)


def unreached(n_mentions: int, ids: Ids, weights: Weights) -> Forest:
    """Return a forest without edges, with the dtypes of ``ids`` and ``weights``."""
    return Forest(np.arange(n_mentions, dtype=ids.dtype), np.full(n_mentions, np.nan, weights.dtype))


def hang_on_entities(entity_edges: EntityEdges, hangs: Bools) -> Forest:
    """Return the forest in which the parent of each mention that ``hangs`` on its nearest entity is this entity."""
    (parent, weight), (entity, lightest) = unreached(len(hangs), *entity_edges), entity_edges
    return Forest(np.where(hangs, entity, parent), np.where(hangs, lightest, weight))
