"""The minimum spanning forest of mentions, where all entities are one node.

In each round, every component of mentions takes the lightest edge that leaves it, or its lightest entity edge, all at
once (Boruvka 1926). Then each component becomes one node, the edges are renamed, and those inside a node are dropped:
a component that has an entity becomes part of the node of all entities, and needs no edge any more. Since nodes are
numbered from 0 again, the later rounds stay in the cache.

The lightest edges, about two for each mention, have their rounds first. They join most of what will be joined, so that
most of the other edges are dropped when they are renamed for the first time (as in filter-Kruskal, Osipov, Sanders and
Singler 2009). O(edges log mentions) time. Ranges of the edges are handled in threads; as the order (weight, source,
target) decides, the result does not depend on their number.
"""

import os
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .arrays import Bools, Edges, Ids, Weights, id_dtype
from .forest import EntityEdges, lighter_entity_edge, no_entity_edges, surviving_edges
from .graph import Graph
from .kernels import kernel
from .ordering import before
from .progress import in_parallel
from .union_find import top

_LIGHT = 2
_LEAST = 1 << 17


class Spanning(NamedTuple):
    """The spanning forest."""

    joining: Ids  # indices of the edges between mentions
    is_linked: Bools  # (mentions,) whether the forest connects the mention to an entity
    hangs: Bools  # (mentions,) whether the mention's lightest entity edge is in the forest


class _Ends(NamedTuple):
    """Edges between components; all arrays have the length of the given edges and are overwritten."""

    a: Ids
    b: Ids
    weight: Weights
    edge: Ids  # index in the given edges


class _Lightest(NamedTuple):
    """The lightest edge out of each component, and of the node of all entities, which needs none."""

    weight: Weights  # without such an edge, the weight of the component's lightest entity edge
    place: Ids  # in the `_Ends`, or -1


def joining_edges(graph: Graph) -> Edges:
    """Return the minimum spanning forest of the mentions of a graph, from 0; directions and entities are ignored."""
    none = no_entity_edges(graph)
    edges = surviving_edges(graph, none.weight, np.inf, directed=False)
    return edges.take(spanning_forest(none, edges).joining)


def spanning_forest(entity_edges: EntityEdges, edges: Edges) -> Spanning:
    """Return the spanning forest of the edges between mentions and the lightest entity edges of the mentions.

    An edge between two mentions counts in both directions; its source is the smaller mention.
    """
    n = len(entity_edges.entity)
    ids = id_dtype(len(edges.source))
    a, b, weight = np.empty_like(edges.source), np.empty_like(edges.target), np.empty_like(edges.weight)
    ends = _Ends(a, b, weight, np.empty(len(a), ids))
    heaviest = pivot(edges.weight, _LIGHT * n)
    n_light = _split(edges, heaviest, ends)
    rounds = _Rounds(entity_edges, edges, ends)
    rounds.run(0, n_light, heaviest)
    if heaviest < np.inf:
        rounds.run(n_light, len(edges.source), np.inf)
    return Spanning(np.concatenate(rounds.joining), rounds.component == rounds.n, rounds.hangs)


def pivot(weight: Weights, n_light: int) -> float:
    """Return about the weight of the ``n_light``-th edge; infinity if parting the edges there would gain nothing."""
    if len(weight) < max(_LEAST, 2 * n_light):
        return np.inf
    sample = np.sort(weight[:: len(weight) >> 12 | 1])
    return float(sample[len(sample) * n_light // len(weight)])


class _Rounds:
    """The state between the rounds: the components, and what has joined them."""

    def __init__(self, entity_edges: EntityEdges, edges: Edges, ends: _Ends) -> None:
        self.entity_edges, self.edges, self.ends = entity_edges, edges, ends
        self.n = len(entity_edges.entity)  # components; this number is also the node of all entities
        ids = edges.source.dtype
        self.component = np.arange(self.n, dtype=ids)  # of each mention
        self.entry = self.component.copy()  # of each component: the mention that its lightest entity edge enters
        self.hangs = np.zeros(self.n, np.bool_)
        self.joining: list[Ids] = []  # of each round

    def run(self, begin: int, end: int, heaviest: float) -> None:
        """Join components by the edges in a range, none heavier than ``heaviest``, until none joins two of them."""
        n_parts = min(os.cpu_count() or 1, (end - begin) // _LEAST + 1)
        bounds = np.linspace(begin, end, n_parts + 1).astype(int).tolist()
        parts = list(pairwise(bounds))
        if self.joining:
            parts = in_parallel(partial(_rename, self.ends, self.component), parts)
        unfinished = True
        while unfinished:
            unfinished = any(begin < end for begin, end in parts)
            label = self._join(in_parallel(self._lightest, parts), heaviest)
            parts = in_parallel(partial(_rename, self.ends, label), parts)

    def _lightest(self, part: tuple[int, int]) -> _Lightest:
        weight = np.append(self.entity_edges.weight[self.entry], self.edges.weight.dtype.type(-np.inf))
        lightest = _Lightest(weight, np.full(self.n + 1, -1, self.ends.edge.dtype))
        _find_lightest(self.edges, self.ends, part, lightest)
        return lightest

    def _join(self, found: list[_Lightest], heaviest: float) -> Ids:
        """Join by the lightest edges that each range has, and return the new number of each component."""
        for other in found[1:]:
            _merge(self.edges, self.ends, other, found[0])
        label = np.empty(self.n + 1, self.entry.dtype)
        joining, self.entry = _join(self.entity_edges, self.ends, found[0], self.entry, heaviest, label, self.hangs)
        self.joining.append(joining)
        self.component = label[self.component]
        self.n = len(self.entry)
        return label


@kernel
def _split(edges: Edges, heaviest: float, ends: _Ends) -> int:
    """Write the edges up to the heaviest light one first, then the others; return the number of the first."""
    low, high = 0, len(edges.source)
    for i in range(len(edges.source)):
        w = edges.weight[i]
        if w <= heaviest:
            p = low
            low += 1
        else:
            high -= 1
            p = high
        ends.a[p], ends.b[p], ends.weight[p], ends.edge[p] = edges.source[i], edges.target[i], w, i
    return low


@kernel
def _rename(ends: _Ends, label: Ids, part: tuple[int, int]) -> tuple[int, int]:
    """Rename the ends of the edges in a range, and drop those inside a node; return the remaining range."""
    left = part[0]
    for p in range(part[0], part[1]):
        a, b = label[ends.a[p]], label[ends.b[p]]
        if a != b:
            ends.a[left], ends.b[left], ends.weight[left], ends.edge[left] = a, b, ends.weight[p], ends.edge[p]
            left += 1
    return part[0], left


@kernel
def _find_lightest(edges: Edges, ends: _Ends, part: tuple[int, int], lightest: _Lightest) -> None:
    for p in range(part[0], part[1]):
        w = ends.weight[p]
        for c in (ends.a[p], ends.b[p]):
            if w > lightest.weight[c]:
                continue
            if w == lightest.weight[c]:
                held = lightest.place[c]
                if held < 0:  # an entity edge comes first
                    continue
                # Without a call, as numba counts the references to all arrays that are passed.
                i, j = ends.edge[p], ends.edge[held]
                u, v = edges.source[i], edges.source[j]
                if u > v or (u == v and edges.target[i] >= edges.target[j]):
                    continue
            lightest.weight[c], lightest.place[c] = w, p


@kernel
def _merge(edges: Edges, ends: _Ends, found: _Lightest, lightest: _Lightest) -> None:
    """Keep the lighter of the edges that two ranges have for each component."""
    for c in range(len(found.place)):
        p, held = found.place[c], lightest.place[c]
        if p >= 0 and (held < 0 or before(edges, ends.edge[p], ends.edge[held])):
            lightest.weight[c], lightest.place[c] = found.weight[c], p


@kernel
def _join(
    entity_edges: EntityEdges, ends: _Ends, lightest: _Lightest, entry: Ids, heaviest: float, label: Ids, hangs: Bools
) -> tuple[Ids, Ids]:
    """Join the components, number them anew in the order of their last members, and return edges and entries.

    A component without an edge lighter than its entity edge hangs on the entity, unless the heavier edges, which come
    later, may be lighter.
    """
    n = len(entry)
    up = np.arange(n + 1).astype(label.dtype)  # a component joined to another, with a larger number
    joining = np.empty(n, ends.edge.dtype)
    n_joining, n_left = 0, n
    for c in range(n):
        p, x, y = lightest.place[c], c, n
        if p >= 0:
            x, y = ends.a[p], ends.b[p]
        elif entity_edges.entity[entry[c]] >= 0 or lightest.weight[c] > heaviest:
            continue
        x, y = top(up, x), top(up, y)
        if x == y:  # both sides took the same edge
            continue
        n_left -= 1
        if p >= 0:
            joining[n_joining] = ends.edge[p]
            n_joining += 1
        else:
            hangs[entry[c]] = True
        x, y = min(x, y), max(x, y)
        up[x] = y
        if y < n:
            entry[y] = lighter_entity_edge(entity_edges, entry[x], entry[y])
    entries = np.empty(n_left, entry.dtype)
    number = n_left
    for c in range(n, -1, -1):
        if up[c] == c:
            label[c] = number
            if c < n:
                entries[number] = entry[c]
            number -= 1
        else:
            label[c] = label[up[c]]
    return joining[:n_joining], entries
