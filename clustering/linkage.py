"""Single linkage: constrained by entities (`undirected_forest`), as a merge tree of the mentions, and its `bridges`.

The first two are read from a minimum spanning forest, in which all entities are one node. Mentions are joined along the
edges from the lightest to the heaviest (Kruskal 1956). The lightest edges, about two for each mention, are sorted
first. They join most of what will be joined, so that most of the other edges are inside a component and need not be
sorted (filter-Kruskal, Osipov, Sanders and Singler 2009).
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Bools, Edges, Ids, Weights, concatenated
from .forest import EntityEdges, Forest, no_entity_edges, surviving_edges, unreached, with_entity_edges
from .graph import Graph
from .kernels import kernel
from .ordering import by_weight, pivot
from .union_find import find, join, roots, singletons

_LIGHT = 2


def undirected_forest(entity_edges: EntityEdges, edges: Edges) -> tuple[Forest, Edges]:
    """Join mentions over the lightest edges first, but never two components with an entity (Angell et al. 2021).

    Given the edges that can matter, from the smaller mention to the larger, return the parents of the linked mentions,
    and the joining edges of the components without an entity.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    n = len(entity_edges.entity)
    joining = spanning_forest(entity_edges, edges)
    source = np.where(joining.source < 0, n, joining.source)
    graph = csr_array((np.ones(len(source), np.int8), (source, joining.target)), shape=(n + 1, n + 1))
    above = breadth_first_order(graph, n, directed=False)[1]  # the node before each mention that is linked, or below 0
    is_linked = above[joining.target] >= 0
    tree, down = joining.take(is_linked), (above[joining.target] == source)[is_linked]
    child = np.where(down, tree.target, tree.source)
    forest = unreached(n, edges.source, edges.weight)
    forest.parent[child], forest.weight[child] = np.where(down, tree.source, tree.target), tree.weight
    return forest, joining.take(~is_linked)


def spanning_forest(entity_edges: EntityEdges, edges: Edges) -> Edges:
    """Return the edges of the spanning forest by (weight, source, target).

    They are some of the edges between mentions, from the smaller to the larger, and of the entity edges.
    """
    n = len(entity_edges.entity)
    edges = with_entity_edges(edges, entity_edges)
    sets, joining = singletons(n + 1, edges.source), []  # the last set is that of all entities
    heaviest = pivot(edges.weight, _LIGHT * n)
    if heaviest < np.inf:
        is_light = edges.weight <= heaviest
        joining.append(_joined(edges.take(is_light), sets))
        component = roots(sets)
        across = component[np.maximum(edges.source, -1)] != component[edges.target]
        edges = edges.take(~is_light & across)
    return concatenated([*joining, _joined(edges, sets)])


def _joined(edges: Edges, sets: Ids) -> Edges:
    """Join sets by the edges, and return those that join two, ordered by (weight, source, target)."""
    ordered = by_weight(edges)
    return ordered.take(_join_all(ordered.source, ordered.target, sets))


@kernel
def _join_all(source: Ids, target: Ids, sets: Ids) -> Bools:
    """Join sets in the order of the edges, and return which edges join two."""
    joins = np.zeros(len(source), np.bool_)
    for i in range(len(source)):
        a, b = find(sets, source[i] if source[i] >= 0 else len(sets) - 1), find(sets, target[i])
        if a != b:
            joins[i] = True
            join(sets, a, b)
    return joins


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
    edges = surviving_edges(graph, none.weight, np.inf, directed=False)
    joining = spanning_forest(none, edges)
    left, right = merges(graph.n_mentions, joining.source, joining.target)
    return MergeTree(graph.n_mentions, left, right, joining.weight, joining.source, joining.target)


def bridges(edges: Edges, *, n_nodes: int) -> tuple[Edges, Ids]:
    """Return the edges of a forest by weight, and the number of nodes of the two parts that each joins; (edges, 2).

    The parts of an edge remain if the edge and all heavier edges are removed from the tree, as at a lower threshold. A
    single wrong edge joins two complete clusters, so both its parts are large. The *sides* that remain if only the edge
    is removed would not show it: every edge between the wrong edge and the middle of a part has large sides, even the
    lightest. O(edges log edges) time, without recursion. Raise ValueError if the edges have a cycle.

    >>> edges = Edges(np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]), np.array([0.1, 0.2, 0.9, 0.1]))
    >>> ordered, parts = bridges(edges, n_nodes=5)
    >>> ordered.source.tolist(), parts.tolist()
    ([0, 3, 1, 2], [[1, 1], [1, 1], [2, 1], [3, 2]])
    """
    ordered = by_weight(edges)
    parts = _parts(ordered.source, ordered.target, n_nodes)
    if len(parts) < len(ordered.source):
        i = len(parts)
        raise ValueError(f"the edges are not a forest: another path joins {ordered.source[i]} and {ordered.target[i]}")
    return ordered, parts


@kernel
def merges(n_leaves: int, source: Ids, target: Ids) -> tuple[Ids, Ids]:
    """Return the two nodes that each merge joins, given a leaf of each."""
    sets = singletons(n_leaves, source)
    node = np.arange(n_leaves).astype(source.dtype)  # of each root, as its smallest leaf
    smallest, left, right = node.copy(), np.empty_like(source), np.empty_like(source)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if smallest[a] > smallest[b]:
            a, b = b, a
        left[i], right[i] = node[a], node[b]
        root = join(sets, a, b)
        node[root], smallest[root] = n_leaves + i, smallest[a]
    return left, right


@kernel
def _cut(n_leaves: int, left: Ids, right: Ids) -> Ids:
    label = np.empty(n_leaves + len(left), left.dtype)
    label[:n_leaves] = np.arange(n_leaves)
    for i in range(len(left)):
        label[n_leaves + i] = label[left[i]]
    for i in range(len(left) - 1, -1, -1):
        label[left[i]] = label[right[i]] = label[n_leaves + i]
    return label[:n_leaves].copy()


@kernel
def _parts(source: Ids, target: Ids, n_nodes: int) -> Ids:
    """Count the nodes that each edge joins, from the first to the last; stop at an edge that closes a cycle."""
    sets = singletons(n_nodes, source)
    parts = np.empty((len(source), 2), source.dtype)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if a == b:
            return parts[:i]
        parts[i, 0], parts[i, 1] = -sets[a], -sets[b]
        join(sets, a, b)
    return parts
