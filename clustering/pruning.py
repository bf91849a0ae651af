"""Exact local pruning: drop edges that cannot matter, given only the edges of one mention.

Two facts make the engine fast. A mention's lightest entity edge dominates its other entity edges under every method.
And an edge between mentions that is heavier than the lightest entity edge of its target (for ``undirected``: of both
its ends) can never be part of the result. Ties are decided by (weight, source id, target id), and entity ids are
smaller than mention ids, so an edge as heavy as the entity edge is dropped too.
"""

import numpy as np

from .arrays import Edges, Weights
from .graph import Graph
from .kernels import in_parallel, kernel

_CHUNK = 1 << 20


def surviving_edges(graph: Graph, bound: Weights, limit: float, *, directed: bool) -> Edges:
    """Select the edges between mentions that can matter.

    They are not heavier than ``limit``, and lighter than ``bound``, (mentions,) the weight of the lightest entity edge,
    of their target or, if not ``directed``, of at least one end; if not ``directed``, their source is the smaller end.
    Mentions are numbered from 0.
    """
    given, begins = graph.edges, range(0, graph.n_edges, _CHUNK)

    def empty(n: int) -> Edges:
        return Edges(np.empty(n, given.source.dtype), np.empty(n, given.target.dtype), np.empty(n, given.weight.dtype))

    def select(chunk: int, kept: Edges) -> int:
        some = given.take(slice(begins[chunk], begins[chunk] + _CHUNK))
        return _select(some, graph.n_entities, bound, limit, directed, kept)

    counts = in_parallel(lambda chunk: select(chunk, empty(0)), range(len(begins)))
    kept, ends = empty(sum(counts)), np.cumsum(counts)
    in_parallel(
        lambda chunk: select(chunk, kept.take(slice(ends[chunk] - counts[chunk], ends[chunk]))), range(len(ends))
    )
    return kept


@kernel
def _select(given: Edges, n_entities: int, bound: Weights, limit: float, directed: bool, kept: Edges) -> int:
    """Write the edges that can matter, as many as there is room for, and return their number."""
    n_kept = 0
    for i in range(len(given.source)):
        u, v, w = given.source[i] - n_entities, given.target[i] - n_entities, given.weight[i]
        if u >= 0 and v >= 0 and u != v and w <= limit and (w < bound[v] or (not directed and w < bound[u])):
            if n_kept < len(kept.source):
                kept.source[n_kept] = u if directed else min(u, v)
                kept.target[n_kept] = v if directed else max(u, v)
                kept.weight[n_kept] = w
            n_kept += 1
    return n_kept
