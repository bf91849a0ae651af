"""Exact local pruning: what each mention's own list already decides.

Two facts make the engine fast. A mention's lightest entity edge dominates its other entity edges under every method.
And an edge between mentions that is heavier than the lightest entity edge of its target (for ``undirected``: of both
its ends) can never be part of the result. Ties are decided by (weight, source id, target id), and entity ids are
smaller than mention ids, so an edge as heavy as the entity edge goes too.
"""

import numba
import numpy as np

from clustering.arrays import Edges, Ids, Weights, concatenated
from clustering.doors import Doors
from clustering.graph import Graph

_CHUNK = 1 << 20


def surviving_edges(graph: Graph, entrances: Doors, limit: float, *, directed: bool) -> Edges:
    """Select the edges between mentions that can matter, in the order of the graph.

    They are not heavier than ``limit``, and lighter than the door of their target or, if not ``directed``, of either
    end; if not ``directed``, their source is the smaller end. Mentions count from 0.
    """
    ids, weights = graph.source.dtype, graph.weight.dtype
    room = min(_CHUNK, graph.n_edges)
    buffer = Edges(np.empty(room, ids), np.empty(room, ids), np.empty(room, weights))
    kept = [Edges(np.empty(0, ids), np.empty(0, ids), np.empty(0, weights))]
    for begin in range(0, graph.n_edges, _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        arrays = graph.source[chunk], graph.target[chunk], graph.weight[chunk]
        n_kept = _select(*arrays, graph.n_entities, entrances.weight, limit, directed, buffer)
        kept.append(buffer.take(np.arange(n_kept)))
    return concatenated(kept)


@numba.njit(cache=True)
def _select(
    source: Ids,
    target: Ids,
    weight: Weights,
    n_entities: int,
    door: Weights,
    limit: float,
    directed: bool,
    kept: Edges,
) -> int:
    n_kept = 0
    for i in range(len(source)):
        u, v, w = source[i] - n_entities, target[i] - n_entities, weight[i]
        if u >= 0 and v >= 0 and u != v and w <= limit and (w < door[v] or (not directed and w < door[u])):
            kept.source[n_kept] = u if directed else min(u, v)
            kept.target[n_kept] = v if directed else max(u, v)
            kept.weight[n_kept] = w
            n_kept += 1
    return n_kept
