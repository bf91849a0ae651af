"""Exact local pruning: what each mention's own list already decides.

Two facts make the engine fast. A mention's lightest entity edge dominates its other entity edges under every method.
And an edge between mentions that is heavier than the lightest entity edge of its target (for ``undirected``: of both
its ends) can never be part of the result. Ties are decided by (weight, source id, target id), and entity ids are
smaller than mention ids, so an edge as heavy as the entity edge goes too.
"""

from typing import NamedTuple

import numba
import numpy as np

from clustering.arrays import Ids, Weights, id_dtype
from clustering.graph import Graph


class Doors(NamedTuple):
    """The lightest entity edge of each mention: where an entity can enter."""

    edge: Ids
    """(mentions,) edge id, -1 where the mention has no entity edge."""
    entity: Ids
    """(mentions,) entity id, -1 where there is none."""
    weight: Weights
    """(mentions,) dissimilarity, infinite where there is none."""


def doors(graph: Graph, limit: float, *, directed: bool) -> Doors:
    """Find the lightest entity edge of each mention among those not heavier than ``limit``.

    If not ``directed``, an edge from a mention to an entity counts as well.
    """
    edge = np.full(graph.n_mentions, -1, id_dtype(graph.n_edges))
    entity = np.full(graph.n_mentions, -1, graph.source.dtype)
    weight = np.full(graph.n_mentions, np.inf, graph.weight.dtype)
    _doors(graph.source, graph.target, graph.weight, graph.n_entities, limit, directed, edge, entity, weight)
    return Doors(edge, entity, weight)


def mention_edges(graph: Graph, door: Weights, limit: float, *, directed: bool) -> Ids:
    """Ids of the edges between mentions that can matter, in the order of the graph.

    They are not heavier than ``limit``, and lighter than the ``door`` of their target or, if not ``directed``, of
    either end.
    """
    arrays = graph.source, graph.target, graph.weight, graph.n_entities, door, limit, directed
    nothing = np.empty(0, id_dtype(graph.n_edges))
    kept = np.empty(_mention_edges(*arrays, nothing), nothing.dtype)
    _mention_edges(*arrays, kept)
    return kept


@numba.njit(cache=True)
def _doors(
    source: Ids,
    target: Ids,
    weight: Weights,
    n_entities: int,
    limit: float,
    directed: bool,
    edge: Ids,
    entity: Ids,
    lightest: Weights,
) -> None:
    for i in range(len(source)):
        u, v = source[i], target[i]
        if not directed and v < n_entities:
            u, v = v, u
        if u < n_entities <= v and weight[i] <= limit:
            m = v - n_entities
            if weight[i] < lightest[m] or (weight[i] == lightest[m] and u < entity[m]):
                edge[m], entity[m], lightest[m] = i, u, weight[i]


@numba.njit(cache=True)
def _mention_edges(
    source: Ids,
    target: Ids,
    weight: Weights,
    n_entities: int,
    door: Weights,
    limit: float,
    directed: bool,
    kept: Ids,
) -> int:
    """Write as many ids as there is room for in ``kept``, and count them all."""
    n_kept = 0
    for i in range(len(source)):
        u, v, w = source[i] - n_entities, target[i] - n_entities, weight[i]
        if u >= 0 and v >= 0 and u != v and w <= limit and (w < door[v] or (not directed and w < door[u])):
            if n_kept < len(kept):
                kept[n_kept] = i
            n_kept += 1
    return n_kept
