"""The minimax partition: equation 1 of the ArboEL paper.

Each mention gets an entity with the smallest bottleneck, the heaviest edge on the best path. Prim's algorithm with
several sources finds it: entities are reached at the start, and the mention at the end of the lightest edge that leaves
the reached nodes is attached repeatedly. Every path is then a minimax path, and with distinct weights the forest is
unique.

Most of Prim's queue is not needed. Edges are sorted once and read in that order; an edge whose source is reached
attaches its target at once. Only edges whose source is not yet reached have to wait; once it is reached, they come
before the next edge in the order. O(edges log edges) time, nearly all of it for the sort.
"""

from heapq import heappop, heappush
from typing import Any

import numpy as np

from .arrays import Edges, Ids
from .forest import Forest, unreached
from .kernels import kernel
from .ordering import by_weight


def minimax_forest(n_mentions: int, edges: Edges) -> Forest:
    """Return the forest of minimax paths over the edges that can matter, which come from `with_entity_edges`."""
    ordered = by_weight(edges)
    tail, head = edges.source[ordered], edges.target[ordered]
    rank = _grow(n_mentions, tail, head, ordered)
    forest = unreached(len(rank), edges.source, edges.weight)
    reached = np.flatnonzero(rank >= 0)
    forest.parent[reached], forest.weight[reached] = tail[rank[reached]], edges.weight[ordered[rank[reached]]]
    return forest


@kernel
def _grow(n_mentions: int, tail: Ids, head: Ids, ordered: Ids) -> Ids:
    """Return the rank of the edge that reaches each mention, or -1; edge ``r`` leads from tail to head."""
    start, outward = _ranks_by_tail(tail, n_mentions, ordered)
    reached_by = np.full(n_mentions, -1, ordered.dtype)
    reached = np.zeros(n_mentions, np.bool_)  # takes a quarter of the cache
    waits = np.full(n_mentions, len(ordered), ordered.dtype)  # the least rank that waits for the mention
    for next_rank in range(len(ordered)):
        if reached[head[next_rank]] or (tail[next_rank] >= 0 and not reached[tail[next_rank]]):
            continue
        waiting: list[Any] = [next_rank]
        while waiting:
            rank = heappop(waiting)
            v = head[rank]
            if reached[v]:
                continue
            reached[v] = True
            reached_by[v] = rank
            for i in range(start[v], start[v + 1]):
                if outward[i] > next_rank:
                    break
                end = head[outward[i]]
                if not reached[end] and outward[i] < waits[end]:
                    waits[end] = outward[i]
                    heappush(waiting, np.int64(outward[i]))
    return reached_by


@kernel
def _ranks_by_tail(tail: Ids, n_mentions: int, ordered: Ids) -> tuple[Ids, Ids]:
    """List the ranks of the edges out of each mention, ascending: those of ``u`` from ``start[u]`` on."""
    start = np.zeros(n_mentions + 1, ordered.dtype)
    for u in tail:
        if u >= 0:
            start[u + 1] += 1
    for u in range(n_mentions):
        start[u + 1] += start[u]
    outward = np.empty(start[-1], ordered.dtype)
    place = start[:-1].copy()
    for rank in range(len(tail)):
        u = tail[rank]
        if u >= 0:
            outward[place[u]] = rank
            place[u] += 1
    return start, outward
