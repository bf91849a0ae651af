"""The lightest entity edge of each mention: where an entity can enter.

From here on nodes are numbered so that mentions count from 0 and entities are negative: node id minus ``n_entities``.
"""

from typing import NamedTuple

import numba
import numpy as np

from clustering.arrays import Edges, Ids, Weights, concatenated
from clustering.graph import Graph


class Doors(NamedTuple):
    """The lightest entity edge of each mention: where an entity can enter."""

    entity: Ids
    """(mentions,) entity, a negative number; 0 where the mention has no entity edge."""
    weight: Weights
    """(mentions,) dissimilarity, infinite where there is none."""


def doors(graph: Graph, limit: float, *, directed: bool) -> Doors:
    """Find the lightest entity edge of each mention among those not heavier than ``limit``.

    If not ``directed``, an edge from a mention to an entity counts as well.
    """
    found = no_doors(graph)
    _doors(graph.source, graph.target, graph.weight, graph.n_entities, limit, directed, *found)
    return found


def no_doors(graph: Graph) -> Doors:
    """Return doors that are all closed."""
    return Doors(np.zeros(graph.n_mentions, graph.source.dtype), np.full(graph.n_mentions, np.inf, graph.weight.dtype))


def with_doors(entrances: Doors, edges: Edges) -> Edges:
    """Append the doors to the edges between mentions, as edges."""
    entered = np.flatnonzero(entrances.entity).astype(edges.target.dtype)
    return concatenated([edges, Edges(entrances.entity[entered], entered, entrances.weight[entered])])


@numba.njit(cache=True)
def lighter_door(entrances: Doors, a: int, b: int) -> int:
    """Return which of two mentions has the lighter door, by (weight, entity, mention)."""
    if entrances.weight[a] != entrances.weight[b]:
        return a if entrances.weight[a] < entrances.weight[b] else b
    if entrances.entity[a] != entrances.entity[b]:
        return a if entrances.entity[a] < entrances.entity[b] else b
    return min(a, b)


@numba.njit(cache=True)
def _doors(
    source: Ids,
    target: Ids,
    weight: Weights,
    n_entities: int,
    limit: float,
    directed: bool,
    entity: Ids,
    lightest: Weights,
) -> None:
    for i in range(len(source)):
        u, v = source[i] - n_entities, target[i] - n_entities
        if not directed and v < 0:
            u, v = v, u
        if not u < 0 <= v or weight[i] > limit:
            continue
        if weight[i] < lightest[v] or (weight[i] == lightest[v] and u < entity[v]):
            entity[v], lightest[v] = u, weight[i]
