"""Partitions of a graph by four methods: `partition` and its result."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .arborescence import arborescence_forest
from .arrays import Edges, Ids, Threshold, Weights
from .average import average_tree
from .forest import Forest, hang_on_entities, lightest_entity_edges, with_entity_edges
from .graph import Graph, limits
from .kernels import kernel
from .linkage import MergeTree, merge_tree, undirected_forest
from .methods import METHODS, NIL_LINKAGES, Method, NilLinkage
from .minimax import minimax_forest
from .pruning import surviving_edges
from .union_find import find, join, singletons

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Partition:
    """Clusters with at most one entity each, and the forest that explains them.

    Entities are the nodes ``0 .. n_entities - 1``, and mention ``i`` is the node ``n_entities + i``. The mentions of an
    entity form a tree under it. Mentions that no entity reaches are NIL, and are clustered among themselves.
    """

    labels: Ids
    """(nodes,) smallest node id in the node's cluster."""
    entity: Ids
    """(mentions,) entity of the mention's cluster, -1 for NIL."""
    parent: Ids
    """(nodes,) parent in the forest, -1 for entities and NIL mentions."""
    weight: Weights
    """(nodes,) weight of the edge from the parent, NaN without a parent."""
    bottleneck: Weights
    """(nodes,) heaviest edge between the node and its entity; -inf for an entity, inf for NIL."""
    nil_edges: Edges
    """Edges between mentions of the same NIL cluster: under single linkage, edges within the threshold that connect the
    cluster; under average linkage, all edges between them."""
    nil_tree: MergeTree | None = None
    """Merge tree of the NIL mentions under average linkage, with mention ``i`` as leaf ``i``; otherwise None."""

    @property
    def n_entities(self) -> int:
        """Number of entity nodes; mentions come after them."""
        return len(self.labels) - len(self.entity)

    def __repr__(self) -> str:
        linked = int((self.entity >= 0).sum())
        return f"Partition({self.n_entities:,} entities, {linked:,} linked mentions, {len(self.entity) - linked:,} NIL)"

    def path(self, mention: int) -> list[int]:
        """Return the nodes from the entity to a mention, both included; for NIL, only the mention.

        ``mention`` is a node: ``n_entities + i`` for mention ``i``. Raise IndexError for an unknown node.
        """
        if not 0 <= mention < len(self.parent):
            raise IndexError(f"node {mention} is outside 0 .. {len(self.parent) - 1}")
        nodes = [int(mention)]
        while self.parent[nodes[-1]] >= 0:
            nodes.append(int(self.parent[nodes[-1]]))
        return nodes[::-1]

    def edges(self) -> Edges:
        """Return each linked mention's edge from its parent, then `nil_edges` with only the lightest of duplicates."""
        linked = np.flatnonzero(self.parent >= 0)
        order = np.lexsort((self.nil_edges.weight, self.nil_edges.target, self.nil_edges.source))
        source, target, weight = (array[order] for array in self.nil_edges)
        first = np.ones(len(order), np.bool_)
        first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
        return Edges(
            np.concatenate([self.parent[linked], source[first]]),
            np.concatenate([linked.astype(self.parent.dtype), target[first]]),
            np.concatenate([self.weight[linked], weight[first]]),
        )

    def weakest_joins(self) -> Edges:
        """Return the edge that joined the last two parts of each NIL cluster of two or more mentions.

        It is the heaviest edge of the cluster's minimum spanning tree: at a threshold below its weight, the cluster
        falls apart. Edges are ordered by the label of the cluster. Under average linkage, source and target are the
        smallest mentions of the two parts, and the weight is the average dissimilarity between the parts.
        """
        tree, shift = self.nil_tree, self.n_entities
        if tree is None:
            tree, shift = merge_tree(Graph(*self.nil_edges, n_entities=0, n_nodes=len(self.labels))), 0
        joins = Edges(tree.source + shift, tree.target + shift, tree.height)
        joins = joins.take(self.labels[joins.source] == self.labels[joins.target])
        label = self.labels[joins.source]
        _, last = np.unique(label[::-1], return_index=True)
        return joins.take(len(label) - 1 - last)

    def to_networkx(self) -> "networkx.DiGraph[int]":
        """Return a `networkx.DiGraph`: nodes with ``kind`` and ``cluster`` (label), and `edges` with ``weight``."""
        import networkx

        graph = networkx.DiGraph()
        for node, label in enumerate(self.labels.tolist()):
            graph.add_node(node, kind="entity" if node < self.n_entities else "mention", cluster=label)
        graph.add_weighted_edges_from(zip(*(array.tolist() for array in self.edges()), strict=True))
        return graph


def partition(
    graph: Graph,
    method: Method = "arborescence",
    threshold: Threshold = None,
    *,
    nil_linkage: NilLinkage = "single",
    nil_threshold: float | None = None,
) -> Partition:
    """Cluster mentions and entities so that no cluster has two entities.

    Args:
        graph: edges as dissimilarities; smaller is closer.
        method: ``"arborescence"``, the procedure of the ArboEL paper (section 2.3), which follows each mention's
            lightest edge; ``"minimax"``, the paper's equation 1, which gives each mention an entity with the smallest
            bottleneck, the heaviest edge of a path; ``"undirected"``, single linkage that never joins two entities
            (Angell et al. 2021); ``"independent"``, which gives each mention its nearest entity.
        threshold: edges heavier than this are removed first (an edge exactly at the threshold is kept); a pair
            ``(entity, mention)`` sets one threshold for edges from entities and one for edges between mentions; None
            removes no edge.
        nil_linkage: how to cluster the mentions that no entity reaches: ``"single"``, by the edges among them that
            the mention threshold keeps; or ``"average"``, by all edges among them, as `average_tree` defines it, where
            weights must be 1 minus a similarity from 0 to 1.
        nil_threshold: largest average dissimilarity of clusters that average linkage merges; None merges all that have
            a similarity. Single linkage ignores it.

    Ties are broken by (weight, source id, target id), never by the order of the edges. O(edges log edges) time, nearly
    linear in practice. Raise ValueError for an unknown method or linkage, or a threshold that is NaN, and for average
    linkage the errors of `average_tree`.

    In the smallest graph on which the first two methods differ, node 4, a mention, either follows its lightest edge,
    from node 3, or takes the entity with the smaller bottleneck.

    >>> graph = Graph.from_edges([2, 3, 0], [3, 4, 4], [-1, -5, -4], n_entities=3, n_nodes=5)
    >>> partition(graph).entity.tolist(), partition(graph, "minimax").entity.tolist()
    ([2, 2], [2, 0])
    >>> partition(graph).path(4)
    [2, 3, 4]
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r} is not one of {', '.join(METHODS)}")
    if nil_linkage not in NIL_LINKAGES:
        raise ValueError(f"nil_linkage={nil_linkage!r} is not one of {', '.join(NIL_LINKAGES)}")
    if nil_linkage == "average" and nil_threshold is not None and np.isnan(nil_threshold):
        raise ValueError(f"nil_threshold={nil_threshold} is not a number; use None for no limit")
    forest, nil = _forest(graph, method, threshold)
    if nil_linkage == "single":
        return _describe(graph, forest, nil)
    nil = _among_nil(forest, Edges(graph.source - graph.n_entities, graph.target - graph.n_entities, graph.weight))
    tree = average_tree(Graph(*nil, n_entities=0, n_nodes=graph.n_mentions))
    label = tree.cut(np.inf if nil_threshold is None else nil_threshold)
    return _describe(graph, forest, nil.take(label[nil.source] == label[nil.target]), tree)


def _forest(graph: Graph, method: Method, threshold: Threshold) -> tuple[Forest, Edges]:
    """Return the forest of the linked mentions, and the remaining edges among the others."""
    entity_limit, mention_limit = limits(graph, threshold)
    directed = method != "undirected"
    entity_edges = lightest_entity_edges(graph, entity_limit, directed=directed)
    if method == "independent" and entity_edges.entity.all():
        none = Edges(graph.source[:0], graph.target[:0], graph.weight[:0])
        return hang_on_entities(entity_edges), none
    edges = surviving_edges(graph, entity_edges, mention_limit, directed=directed)
    if method == "undirected":
        return undirected_forest(entity_edges, edges)
    if method == "minimax":
        edges = with_entity_edges(entity_edges, edges)
        forest = minimax_forest(graph.n_mentions, edges)
    elif method == "arborescence":
        forest = arborescence_forest(entity_edges, edges)
    else:
        forest = hang_on_entities(entity_edges)
    return forest, _among_nil(forest, edges)


def _among_nil(forest: Forest, edges: Edges) -> Edges:
    nil = ~forest.is_reached
    if not nil.any():
        return edges.take(slice(0))
    edges = edges.take((edges.source >= 0) & (edges.target >= 0))  # without entity edges
    return edges.take(nil[edges.source] & nil[edges.target])


def _describe(graph: Graph, forest: Forest, nil: Edges, tree: MergeTree | None = None) -> Partition:
    """Make the partition from the forest and the edges between NIL mentions, in node ids."""
    n_entities = graph.n_entities
    parent = np.full(graph.n_nodes, -1, graph.source.dtype)
    weight = np.full(graph.n_nodes, np.nan, graph.weight.dtype)
    parent[n_entities:] = np.where(forest.is_reached, forest.parent + n_entities, -1)
    weight[n_entities:] = forest.weight
    nil_edges = Edges(nil.source + n_entities, nil.target + n_entities, nil.weight)
    labels, bottleneck = _trace(parent, weight, n_entities)
    _label_components(nil_edges.source, nil_edges.target, labels)
    mentions = labels[n_entities:]
    entity = np.where(mentions < n_entities, mentions, -1)
    return Partition(labels, entity, parent, weight, bottleneck, nil_edges, tree)


@kernel
def _trace(parent: Ids, weight: Weights, n_entities: int) -> tuple[Ids, Weights]:
    """Return the root of each node and the heaviest edge on the way; each node is visited once."""
    n = len(parent)
    root = np.full(n, -1, parent.dtype)
    bottleneck = np.full(n, -np.inf, weight.dtype)
    climb = np.empty(n, parent.dtype)
    for begin in range(n):
        v, depth = begin, 0
        while root[v] < 0 and parent[v] >= 0:
            climb[depth] = v
            depth += 1
            v = parent[v]
        if root[v] < 0:
            root[v] = v
            if v >= n_entities:
                bottleneck[v] = np.inf
        while depth > 0:
            depth -= 1
            below = climb[depth]
            root[below] = root[v]
            bottleneck[below] = max(bottleneck[v], weight[below])
            v = below
    return root, bottleneck


@kernel
def _label_components(source: Ids, target: Ids, labels: Ids) -> None:
    """Label every node of these edges with the smallest node id of its connected component."""
    if len(source) == 0:
        return
    sets = singletons(len(labels), labels)
    for i in range(len(source)):
        a, b = find(sets, source[i]), find(sets, target[i])
        if a != b:
            join(sets, a, b)
    smallest = np.full(len(labels), -1, labels.dtype)
    for node in range(len(labels)):
        root = find(sets, node)
        if smallest[root] < 0:
            smallest[root] = node
        if sets[root] < -1:
            labels[node] = smallest[root]
