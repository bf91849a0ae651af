"""Single linkage: constrained by entities (`undirected_forest`), and as a merge tree of the mentions (`merge_tree`)."""

from dataclasses import dataclass


import numba
import numpy as np

from clustering.arrays import Ids, Weights
from clustering.graph import Graph
from clustering.ordering import by_weight
from clustering.pruning import Doors, mention_edges
from clustering.union_find import find, join, singletons


def undirected_forest(graph: Graph, entrances: Doors, edges: Ids) -> tuple[Ids, Ids]:
    """Join mentions over the lightest edges first, never two components that both hold an entity (Angell et al. 2021).

    Args:
        graph: the graph, its directions ignored.
        entrances: the lightest entity edge of each mention.
        edges: ids of the edges between mentions that can matter.

    Returns:
        (mentions,) the edge over which each mention hangs on its entity's tree, -1 where there is no entity; and the
        ids of the joining edges of the components without an entity.

    """
    ordered = by_weight(graph, np.concatenate([edges, entrances.edge[entrances.edge >= 0]]), directed=False)
    joining = _kruskal(graph.source, graph.target, graph.n_entities, graph.n_mentions, ordered)
    reached_by = _orient(graph.source, graph.target, graph.n_entities, graph.n_mentions, joining)
    ends = np.maximum(graph.source[joining], graph.target[joining]) - graph.n_entities
    return reached_by, joining[reached_by[ends] < 0]


@dataclass(frozen=True, eq=False, slots=True)
class MergeTree:
    """Single linkage of mentions at every threshold: merge ``i`` makes node ``n_leaves + i`` of two smaller ones.

    Leaves are the mentions, counted from 0. The numbering is that of `scipy.cluster.hierarchy.linkage`, but mentions
    that no edge connects are never merged, so that there may be fewer than ``n_leaves - 1`` merges.
    """

    n_leaves: int
    left: Ids
    """(merges,) node that holds the smaller leaf."""
    right: Ids
    """(merges,) the other node."""
    height: Weights
    """(merges,) weight of the joining edge, ascending."""
    source: Ids
    """(merges,) one end of the joining edge, a leaf."""
    target: Ids
    """(merges,) its other end."""

    def cut(self, threshold: float = np.inf) -> Ids:
        """Label each leaf by the smallest leaf of its cluster, joining over edges not heavier than ``threshold``.

        O(leaves) time, whatever the number of edges was.

        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3], [0.1, 0.5, 0.2], n_entities=0, n_nodes=4)
        >>> tree = merge_tree(graph)
        >>> tree.cut(0.2).tolist(), tree.cut().tolist()
        ([0, 0, 2, 2], [0, 0, 0, 0])
        """
        limit = self.height.dtype.type(threshold)
        merges = int(np.searchsorted(self.height, limit, side="right"))
        return _cut(self.n_leaves, self.left[:merges], self.right[:merges])


def merge_tree(graph: Graph) -> MergeTree:
    """Build the merge tree of the mention edges of a graph, directions and entities ignored."""
    open_doors = np.full(graph.n_mentions, np.inf, graph.weight.dtype)
    edges = mention_edges(graph, open_doors, np.inf, directed=False)
    ordered = by_weight(graph, edges, directed=False)
    joining = _kruskal(graph.source, graph.target, graph.n_entities, graph.n_mentions, ordered)
    source, target = graph.source[joining] - graph.n_entities, graph.target[joining] - graph.n_entities
    left, right = _merges(graph.n_mentions, source, target)
    return MergeTree(graph.n_mentions, left, right, graph.weight[joining], source, target)


@numba.njit(cache=True)
def _kruskal(source: Ids, target: Ids, n_entities: int, n_mentions: int, ordered: Ids) -> Ids:
    """Ids of the edges that join, lightest first; an entity edge gives an entity to a component that has none."""
    sets = singletons(n_mentions, source)
    linked = np.zeros(n_mentions, np.bool_)
    joining = np.empty(n_mentions, ordered.dtype)
    n_joining = 0
    for e in ordered:
        u, v = source[e] - n_entities, target[e] - n_entities
        a = find(sets, max(u, v))
        b = find(sets, min(u, v)) if min(u, v) >= 0 else -1
        if a == b or (linked[a] and (b < 0 or linked[b])):
            continue
        if b < 0:
            linked[a] = True
        else:
            linked[join(sets, a, b)] = linked[a] or linked[b]
        joining[n_joining] = e
        n_joining += 1
    return joining[:n_joining].copy()


@numba.njit(cache=True)
def _orient(source: Ids, target: Ids, n_entities: int, n_mentions: int, joining: Ids) -> Ids:
    """Turn the edges of each tree away from its entity, by breadth-first search."""
    start = np.zeros(n_mentions + 1, joining.dtype)
    for e in joining:
        for end in (source[e], target[e]):
            if end >= n_entities:
                start[end - n_entities + 1] += 1
    for m in range(n_mentions):
        start[m + 1] += start[m]
    incident = np.empty(start[-1], joining.dtype)
    place = start[:-1].copy()
    reached_by = np.full(n_mentions, -1, joining.dtype)
    queue = np.empty(n_mentions, source.dtype)
    n_queued = 0
    for e in joining:
        for end in (source[e], target[e]):
            if end >= n_entities:
                incident[place[end - n_entities]] = e
                place[end - n_entities] += 1
        if min(source[e], target[e]) < n_entities:
            m = max(source[e], target[e]) - n_entities
            reached_by[m] = e
            queue[n_queued] = m
            n_queued += 1
    done = 0
    while done < n_queued:
        m = queue[done]
        done += 1
        for i in range(start[m], start[m + 1]):
            e = incident[i]
            other = (source[e] if target[e] == m + n_entities else target[e]) - n_entities
            if other >= 0 and reached_by[other] < 0:
                reached_by[other] = e
                queue[n_queued] = other
                n_queued += 1
    return reached_by


@numba.njit(cache=True)
def _merges(n_leaves: int, source: Ids, target: Ids) -> tuple[Ids, Ids]:
    sets = singletons(n_leaves, source)
    node = np.arange(n_leaves).astype(source.dtype)  # by root
    smallest = node.copy()  # by root
    left, right = np.empty_like(source), np.empty_like(source)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if smallest[a] > smallest[b]:
            a, b = b, a
        left[i], right[i] = node[a], node[b]
        least = smallest[a]
        root = join(sets, a, b)
        node[root], smallest[root] = n_leaves + i, least
    return left, right


@numba.njit(cache=True)
def _cut(n_leaves: int, left: Ids, right: Ids) -> Ids:
    label = np.empty(n_leaves + len(left), left.dtype)
    for leaf in range(n_leaves):
        label[leaf] = leaf
    for i in range(len(left)):
        label[n_leaves + i] = label[left[i]]
    for i in range(len(left) - 1, -1, -1):
        label[left[i]] = label[right[i]] = label[n_leaves + i]
    return label[:n_leaves].copy()
