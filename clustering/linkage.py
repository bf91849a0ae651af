"""Single linkage: constrained by entities (`undirected_forest`), and as a merge tree of the mentions.

Both are read from a minimum spanning forest (`clustering.spanning`), in which all entities are one node, so that no
component is joined to an entity twice.
"""

from dataclasses import dataclass

import numpy as np

from .arrays import Bools, Edges, Ids, Weights
from .forest import EntityEdges, Forest, hang_on_entities
from .graph import Graph
from .kernels import kernel
from .spanning import joining_edges, spanning_forest
from .union_find import find, join, singletons


def undirected_forest(entity_edges: EntityEdges, edges: Edges) -> tuple[Forest, Edges]:
    """Join mentions over the lightest edges first, but never two components with an entity (Angell et al. 2021).

    Given the edges that can matter, from the smaller mention to the larger, return the parents of the linked mentions,
    and the joining edges of the components without an entity.
    """
    joining, is_linked, hangs = spanning_forest(entity_edges, edges)
    forest = hang_on_entities(entity_edges, hangs)
    _orient(joining, is_linked, forest)
    return forest, joining.take(~is_linked[joining.target])


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
    joining = joining_edges(graph)
    left, right = merges(graph.n_mentions, joining.source, joining.target)
    return MergeTree(graph.n_mentions, left, right, joining.weight, joining.source, joining.target)


@kernel
def _orient(joining: Edges, is_linked: Bools, forest: Forest) -> None:
    """Direct the edges of the linked trees away from their entities, by removing leaf after leaf.

    Each mention has the number of its remaining edges and the exclusive or of their indices, which is the index of the
    edge to its parent if one is left. Mentions that hang on the entity itself are never removed.
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
    sets, smallest = singletons(n_leaves, source), np.arange(n_leaves).astype(source.dtype)
    node = smallest.copy()  # of each set, as is the smallest leaf, by its root
    left, right = np.empty_like(source), np.empty_like(source)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if smallest[a] > smallest[b]:
            a, b = b, a
        left[i], right[i], first = node[a], node[b], smallest[a]
        root = join(sets, a, b)
        smallest[root], node[root] = first, n_leaves + i
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
