"""The lightest entity edge of each mention, and forests: the parent of each mention.

A node is its id minus ``n_entities``: mentions are numbered from 0, and entities are negative.
"""

from typing import NamedTuple

import numpy as np

from .arrays import Bools, Edges, Ids, Weights, concatenated
from .graph import Graph
from .kernels import kernel


class EntityEdges(NamedTuple):
    """The lightest entity edge of each mention."""

    entity: Ids  # (mentions,) the entity, which is negative; 0 without an entity edge
    weight: Weights  # (mentions,) dissimilarity; infinity without an entity edge


def lightest_entity_edges(graph: Graph, limit: float, *, directed: bool) -> EntityEdges:
    """Return the lightest entity edge of each mention, not heavier than ``limit``.

    If not ``directed``, edges from mentions to entities count too.
    """
    lightest = no_entity_edges(graph)
    _find(graph.edges, graph.n_entities, limit, directed, lightest)
    return lightest


def no_entity_edges(graph: Graph) -> EntityEdges:
    """Return the entity edges of a graph in which no mention has one."""
    return EntityEdges(
        np.zeros(graph.n_mentions, graph.source.dtype), np.full(graph.n_mentions, np.inf, graph.weight.dtype)
    )


def with_entity_edges(entity_edges: EntityEdges, edges: Edges) -> Edges:
    """Append the entity edges to the edges between mentions."""
    target = np.flatnonzero(entity_edges.entity).astype(edges.target.dtype)
    return concatenated([edges, Edges(entity_edges.entity[target], target, entity_edges.weight[target])])


@kernel
def lighter_entity_edge(entity_edges: EntityEdges, a: int, b: int) -> int:
    """Return which of two mentions has the lighter entity edge, by (weight, entity, mention)."""
    if entity_edges.weight[a] != entity_edges.weight[b]:
        return a if entity_edges.weight[a] < entity_edges.weight[b] else b
    if entity_edges.entity[a] != entity_edges.entity[b]:
        return a if entity_edges.entity[a] < entity_edges.entity[b] else b
    return min(a, b)


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


def hang_on_entities(entity_edges: EntityEdges) -> Forest:
    """Return the forest in which the parent of each mention is its nearest entity, if it has one."""
    forest = unreached(len(entity_edges.entity), entity_edges.entity, entity_edges.weight)
    is_linked = entity_edges.entity < 0
    return Forest(
        np.where(is_linked, entity_edges.entity, forest.parent), np.where(is_linked, entity_edges.weight, forest.weight)
    )
