"""The minimax partition: equation 1 of the ArboEL paper.

Each mention gets an entity with the smallest bottleneck, the heaviest edge on the best path. Prim's algorithm with
several sources finds it: entities are reached at the start, and the mention at the end of the lightest edge that leaves
them is attached repeatedly. Every path is then a minimax path, and with distinct weights the forest is unique.

Most of Prim's queue is not needed. Edges are sorted once and read in that order; an edge whose source is reached
attaches its target at once. Only edges whose source is not yet reached have to wait; once it is reached, they come
before the next edge in the order. If many wait, they are forgotten, and the edges are read again from the lightest,
which finds them in order: reading on is much faster than a large queue, which is spread over the memory.

If there are many edges, the light ones and the lightest entity edge, which are Prim's first steps, are read first. They
reach most mentions, so that most of the heavier edges need not be sorted. O(edges log edges) time.
"""

from heapq import heappop, heappush

import numpy as np

from .arrays import Bools, Edges, Ids
from .forest import EntityEdges, Forest, unreached
from .kernels import kernel
from .ordering import by_weight
from .spanning import pivot

_LIGHT = 3
_SHARE = 16
"""The edges are read again if more wait than one for this many edges read; each edge is forgotten once at most."""


def minimax_forest(entity_edges: EntityEdges, edges: Edges) -> Forest:
    """Return the forest of minimax paths over the entity edges and the edges between mentions that can matter."""
    n_mentions = len(entity_edges.entity)
    forest, reached = unreached(n_mentions, edges.source, edges.weight), np.zeros(n_mentions, np.bool_)
    edges = entity_edges.beside(edges)
    if len(entrances := np.flatnonzero(edges.source < 0)) == 0:
        return forest
    if (heaviest := pivot(edges.weight, _LIGHT * n_mentions)) < np.inf:
        is_light = edges.weight <= heaviest
        weight = edges.weight[entrances]
        lightest = entrances[weight == weight.min()]
        is_light[lightest[np.lexsort((edges.target[lightest], edges.source[lightest]))[0]]] = True
        _attach(edges.take(is_light), reached, forest)
        edges = edges.take(~reached[edges.target])
    _attach(edges, reached, forest)
    return forest


def _attach(edges: Edges, reached: Bools, forest: Forest) -> None:
    """Attach the mentions that can be reached over these edges, which lead to mentions that are not yet reached."""
    ordered = by_weight(edges)
    rank = _grow(ordered.source, ordered.target, *_list_by_tail(ordered.source, ordered.target, len(reached)), reached)
    new = np.flatnonzero(rank >= 0)
    forest.parent[new], forest.weight[new] = ordered.source[rank[new]], ordered.weight[rank[new]]


@kernel
def _grow(tail: Ids, head: Ids, start: Ids, outward: Ids, reached: Bools) -> Ids:
    """Return the rank of the edge that reaches each mention, or -1; edge ``r`` leads from tail to head."""
    reached_by = np.full(len(reached), -1, np.int32)
    waits = np.full(len(reached), len(tail), np.int32)  # the least rank that waits for the mention; -1 once reached
    waiting = [np.int64(0)]
    waiting.clear()
    next_rank = -1
    while next_rank + 1 < len(tail):
        next_rank += 1
        if reached[head[next_rank]] or (tail[next_rank] >= 0 and not reached[tail[next_rank]]):
            continue
        limit = np.int64(next_rank) << 32
        edge = limit | head[next_rank]
        while True:
            v = edge & 0xFFFFFFFF
            if not reached[v]:
                reached[v], reached_by[v], waits[v] = True, edge >> 32, -1
                for i in range(start[v], start[v + 1]):
                    if outward[i] >= limit:
                        break
                    end, rank = outward[i] & 0xFFFFFFFF, outward[i] >> 32
                    if rank < waits[end]:
                        waits[end] = rank
                        heappush(waiting, outward[i])
            if len(waiting) * _SHARE > next_rank:
                waiting.clear()
                next_rank = -1
            if len(waiting) == 0:
                break
            edge = heappop(waiting)
    return reached_by


@kernel
def _list_by_tail(tail: Ids, head: Ids, n_mentions: int) -> tuple[Ids, Ids]:
    """List the edges out of each mention, ascending, rank above head as one integer; of ``u`` from ``start[u]`` on."""
    start = np.zeros(n_mentions + 1, np.int32)
    for u in tail:
        if u >= 0:
            start[u + 1] += 1
    for u in range(n_mentions):
        start[u + 1] += start[u]
    outward = np.empty(start[-1], np.int64)
    place = start[:-1].copy()
    for rank in range(len(tail)):
        u = tail[rank]
        if u >= 0:
            outward[place[u]] = (np.int64(rank) << 32) | head[rank]
            place[u] += 1
    return start, outward
