"""Single linkage: constrained by entities (`undirected_forest`), and as a merge tree of the mentions (`merge_tree`).

Both come from one procedure after Boruvka (1926): in each round, every component without an entity takes the lightest
edge that leaves it, or its lightest entity edge, all at once. Taking the edges from the lightest to the heaviest would
use each of these edges too: when its turn comes, its component is not yet connected to the outside and has no entity.
So no sort is needed. After each round, the edges that can no longer matter are dropped: those inside a component, those
between two components that have an entity, and those heavier than the lightest entity edges of both sides. O(edges log
mentions) time; in practice, the second round sees a fraction of the edges.
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Bools, Edges, Ids, Weights
from .forest import EntityEdges, Forest, lighter_entity_edge, no_entity_edges, unreached
from .graph import Graph
from .kernels import kernel
from .ordering import before, by_weight
from .pruning import surviving_edges
from .union_find import find, join, singletons


def undirected_forest(entity_edges: EntityEdges, edges: Edges) -> tuple[Forest, Edges]:
    """Join mentions over the lightest edges first, but never two components with an entity (Angell et al. 2021).

    Given the edges that can matter, from the smaller mention to the larger, return the parents of the linked mentions,
    and the joining edges of the components without an entity.
    """
    joining, is_linked, hangs = _joining_edges(entity_edges, edges)
    forest = unreached(len(is_linked), edges.source, edges.weight)
    forest.parent[hangs], forest.weight[hangs] = entity_edges.entity[hangs], entity_edges.weight[hangs]
    _orient(joining, is_linked, forest)
    nil = ~is_linked[joining.target]
    return forest, joining.take(nil)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class MergeTree:
    """Linkage of mentions at every threshold: merge ``i`` makes node ``n_leaves + i`` from two earlier nodes.

    Leaves are the mentions, counted from 0. The numbering is that of `scipy.cluster.hierarchy.linkage`, but mentions
    that no edge connects are never merged, so there may be fewer than ``n_leaves - 1`` merges.
    """

    n_leaves: int
    left: Ids  # (merges,) the joined node that contains the smallest leaf of both
    right: Ids  # (merges,) the other joined node
    height: Weights  # (merges,) weight of the joining edge, ascending; for average linkage see `average_tree`
    source: Ids  # (merges,) smaller end of the joining edge, a leaf; for average linkage see `average_tree`
    target: Ids  # (merges,) its larger end

    def __repr__(self) -> str:
        return f"MergeTree({self.n_leaves:,} leaves, {len(self.height):,} merges)"

    def cut(self, threshold: float = np.inf) -> Ids:
        """Label each leaf with the smallest leaf of its cluster, after all merges of at most the height ``threshold``.

        O(leaves) time, independent of the number of edges. Raise ValueError if ``threshold`` is NaN.

        >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3], [0.1, 0.5, 0.2], n_entities=0, n_nodes=4)
        >>> tree = merge_tree(graph)
        >>> tree.cut(0.2).tolist(), tree.cut().tolist()
        ([0, 0, 2, 2], [0, 0, 0, 0])
        """
        if np.isnan(threshold):
            raise ValueError(f"threshold={threshold} is not a number; use infinity to join all connected leaves")
        with np.errstate(over="ignore"):
            limit = self.height.dtype.type(threshold)
        merges = int(np.searchsorted(self.height, limit, side="right"))
        return _cut(self.n_leaves, self.left[:merges], self.right[:merges])


def merge_tree(graph: Graph) -> MergeTree:
    """Build the merge tree of single linkage of the mention edges of a graph, ignoring directions and entities."""
    none = no_entity_edges(graph)
    joining, _, _ = _joining_edges(none, surviving_edges(graph, none, np.inf, directed=False))
    joining = joining.take(by_weight(joining))
    left, right = merges(graph.n_mentions, joining.source, joining.target)
    return MergeTree(graph.n_mentions, left, right, joining.weight, joining.source, joining.target)


def _joining_edges(entity_edges: EntityEdges, edges: Edges) -> tuple[Edges, Bools, Bools]:
    """Return the edges of the forest, the mentions with an entity, and which of these have an entity edge."""
    own = Edges(edges.source.copy(), edges.target.copy(), edges.weight.copy())  # dropped edges are overwritten
    source, target, weight, is_linked, hangs = _boruvka(entity_edges, own)
    return Edges(source, target, weight), is_linked, hangs


@kernel
def _boruvka(entity_edges: EntityEdges, edges: Edges) -> tuple[Ids, Ids, Weights, Bools, Bools]:
    n = len(entity_edges.entity)
    joining = Edges(np.empty(n, edges.source.dtype), np.empty(n, edges.source.dtype), np.empty(n, edges.weight.dtype))
    n_joining = 0
    hangs = np.zeros(n, np.bool_)
    sets = singletons(n, edges.source)
    # Kept for the root of each set: whether it has an entity, the mention that its lightest entity edge enters, and
    # its lightest edge.
    linked = np.zeros(n, np.bool_)
    entry = np.arange(n).astype(edges.source.dtype)
    lightest = np.empty(n, np.int64)
    left = len(edges.source)
    while left > 0:
        left = _lightest_edges(entity_edges, edges, left, sets, linked, entry, lightest)
        for root in range(n):
            if lightest[root] >= 0 and not edges.weight[lightest[root]] < entity_edges.weight[entry[root]]:
                lightest[root] = -1
                linked[root] = hangs[entry[root]] = True
        for root in range(n):
            if lightest[root] < 0:
                continue
            u, v, w = edges.source[lightest[root]], edges.target[lightest[root]], edges.weight[lightest[root]]
            a, b = find(sets, u), find(sets, v)
            if a == b:  # both sides took the same edge
                continue
            nearest, holds_entity = lighter_entity_edge(entity_edges, entry[a], entry[b]), linked[a] or linked[b]
            a = join(sets, a, b)
            entry[a], linked[a] = nearest, holds_entity
            joining.source[n_joining], joining.target[n_joining], joining.weight[n_joining] = u, v, w
            n_joining += 1
    for root in range(n):
        if sets[root] < 0 and not linked[root] and entity_edges.entity[entry[root]] < 0:
            linked[root] = hangs[entry[root]] = True
    is_linked = np.empty(n, np.bool_)
    for m in range(n):
        is_linked[m] = linked[find(sets, m)]
    return joining.source[:n_joining], joining.target[:n_joining], joining.weight[:n_joining], is_linked, hangs


@kernel
def _lightest_edges(
    entity_edges: EntityEdges, edges: Edges, n_edges: int, sets: Ids, linked: Bools, entry: Ids, lightest: Ids
) -> int:
    """Drop the edges that no longer matter, in place, and find the lightest edge out of each component.

    Components with an entity, or without an outgoing edge, get -1. Returns the number of remaining edges.
    """
    lightest[:] = -1
    left = 0
    for i in range(n_edges):
        u, v, w = edges.source[i], edges.target[i], edges.weight[i]
        a, b = find(sets, u), find(sets, v)
        if a == b:
            continue
        a_needs = not linked[a] and w < entity_edges.weight[entry[a]]
        b_needs = not linked[b] and w < entity_edges.weight[entry[b]]
        if not a_needs and not b_needs:
            continue
        edges.source[left], edges.target[left], edges.weight[left] = u, v, w
        if not linked[a] and (lightest[a] < 0 or before(edges, left, lightest[a])):
            lightest[a] = left
        if not linked[b] and (lightest[b] < 0 or before(edges, left, lightest[b])):
            lightest[b] = left
        left += 1
    return left


@kernel
def _orient(joining: Edges, is_linked: Bools, forest: Forest) -> None:
    """Direct the edges of the linked trees away from their entities, by removing leaf after leaf.

    Each mention has the number of its remaining edges and the exclusive or of their indices. If one edge is left, this
    is the index of the edge to its parent. Mentions that hang on the entity itself already have a parent and are never
    removed.
    """
    degree = np.zeros(len(forest.parent), joining.source.dtype)
    places = np.zeros(len(forest.parent), joining.source.dtype)
    for i in range(len(joining.source)):
        u, v = joining.source[i], joining.target[i]
        if is_linked[v]:
            degree[u] += 1
            degree[v] += 1
            places[u] ^= i
            places[v] ^= i
    for begin in range(len(degree)):
        m = begin
        while degree[m] == 1 and forest.parent[m] >= 0:
            i = places[m]
            other = joining.source[i] if joining.target[i] == m else joining.target[i]
            forest.parent[m], forest.weight[m] = other, joining.weight[i]
            degree[m] = 0
            degree[other] -= 1
            places[other] ^= i
            m = other


@kernel
def merges(n_leaves: int, source: Ids, target: Ids) -> tuple[Ids, Ids]:
    """Return the two nodes that each merge joins, given a leaf of each."""
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


@kernel
def _cut(n_leaves: int, left: Ids, right: Ids) -> Ids:
    label = np.empty(n_leaves + len(left), left.dtype)
    for leaf in range(n_leaves):
        label[leaf] = leaf
    for i in range(len(left)):
        label[n_leaves + i] = label[left[i]]
    for i in range(len(left) - 1, -1, -1):
        label[left[i]] = label[right[i]] = label[n_leaves + i]
    return label[:n_leaves].copy()
