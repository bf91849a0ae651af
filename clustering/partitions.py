"""Partitions of a graph by four methods: `partition` and its result."""

from dataclasses import dataclass

import numpy as np

from .arborescence import arborescence_forest
from .arrays import Bools, Edges, Ids, Threshold, Weights, concatenated
from .average import average_tree
from .decisions import DECIDED, Decisions, ends_of, keep_apart
from .forest import Forest, hang_on_entities, lightest_entity_edges, surviving_edges
from .graph import Graph, limits
from .kernels import kernel
from .linkage import MergeTree, undirected_forest
from .methods import METHODS, NIL_LINKAGES, Method, NilLinkage
from .minimax import minimax_forest
from .spanning import joining_edges
from .union_find import label_components

_NONE: Ids = np.empty(0, np.int64)  # unlike a slice, it takes no view, which would keep all edges in memory


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
    """(nodes,) weight of the edge from the parent, NaN without a parent, -inf if people decided on the edge."""
    bottleneck: Weights
    """(nodes,) heaviest edge between the node and its entity; -inf for an entity or without other edges than
    decisions, inf for NIL. Below a mention that was decided to be a new entity, the heaviest edge from that mention."""
    nil_edges: Edges
    """Edges between mentions of the same NIL cluster: under single linkage, edges within the threshold that connect the
    cluster; under average linkage, all edges between them."""
    nil_tree: MergeTree | None = None
    """Merge tree of the NIL mentions under average linkage, with mention ``i`` as leaf ``i``; otherwise None."""
    follows: Ids | None = None
    """(mentions,) with decisions: the last mention on the way from the root to the mention, both included, that hangs
    there by a decision; -1 without one."""

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

    def joins(self) -> Edges:
        """Return the edges that join the mentions of NIL clusters, which are numbered from 0 here, without a circle.

        They are the minimum spanning forest. Under average linkage, they are between the smallest mentions of two parts
        that are merged, and weigh the average dissimilarity of the parts.
        """
        if (tree := self.nil_tree) is None:
            return joining_edges(Graph(*self.nil_edges, n_entities=self.n_entities, n_nodes=len(self.labels)))
        labels = self.labels[self.n_entities :]
        return Edges(tree.source, tree.target, tree.height).take(labels[tree.source] == labels[tree.target])

    def weakest_joins(self) -> Weights:
        """Return the weight of the heaviest of the `joins` of each NIL cluster, at its label; -inf elsewhere; (nodes,).

        At a threshold below it, the cluster falls apart.
        """
        joins, labels = self.joins(), self.labels[self.n_entities :]
        heaviest: Weights = np.full(len(self.labels), -np.inf, joins.weight.dtype)
        np.maximum.at(heaviest, labels[joins.source], joins.weight)
        return heaviest


def partition(
    graph: Graph,
    method: Method = "arborescence",
    threshold: Threshold = None,
    *,
    nil_linkage: NilLinkage = "single",
    nil_threshold: float | None = None,
    decisions: Decisions | None = None,
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
        decisions: what people decided about the mentions, which every method obeys, whatever the thresholds.

    Ties are broken by (weight, source id, target id), never by the order of the edges. O(edges log edges) time, nearly
    linear in practice. Raise ValueError for an unknown method or linkage, a threshold that is NaN, or decisions that do
    not fit the graph, and for average linkage the errors of `average_tree`.

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
    nil_limit = None if nil_linkage == "single" else np.inf if nil_threshold is None else nil_threshold
    if decisions is not None:
        return _obey(graph, decisions, method, threshold, nil_limit)
    forest, nil = _forest(graph, method, limits(graph, threshold))
    if nil_limit is None:
        return _describe(graph, forest, nil)
    nil, tree = _average(graph, _among_nil(forest.is_reached, graph.edges_by_mention), nil_limit)
    return _describe(graph, forest, nil, tree)


def _forest(graph: Graph, method: Method, thresholds: tuple[float, float]) -> tuple[Forest, Edges]:
    """Return the forest of the linked mentions, and the remaining edges among the others; mentions count from 0."""
    entity_limit, mention_limit = thresholds
    directed = method != "undirected"
    entity_edges = lightest_entity_edges(graph, entity_limit, directed=directed)
    edges = surviving_edges(graph, entity_edges.weight, mention_limit, directed=directed)
    if method == "undirected":
        return undirected_forest(entity_edges, edges)
    if method == "minimax":
        forest = minimax_forest(entity_edges, edges)
    elif method == "arborescence" and entity_edges.entity.any():
        forest = arborescence_forest(entity_edges, edges)
    else:
        forest = hang_on_entities(entity_edges, entity_edges.entity < 0)
    return forest, _among_nil(forest.is_reached, edges)


def _among_nil(is_reached: Bools, edges: Edges) -> Edges:
    """Return the edges between mentions that are not reached; they count from 0, and entities are negative."""
    if is_reached.all():
        return edges.take(_NONE)
    is_nil = np.append(~is_reached, False)  # the last stands for all entities
    among = is_nil[np.maximum(edges.source, -1)] & is_nil[np.maximum(edges.target, -1)]
    return edges if among.all() else edges.take(among)


def _average(graph: Graph, nil: Edges, limit: float) -> tuple[Edges, MergeTree]:
    """Return the edges inside the clusters of average linkage, and its tree."""
    tree = average_tree(Graph(*nil, n_entities=0, n_nodes=graph.n_mentions), limit)
    label = tree.cut(limit)
    return nil.take((label[nil.source] == label[nil.target]) | (nil.weight <= DECIDED)), tree


def _obey(
    graph: Graph, decisions: Decisions, method: Method, threshold: Threshold, nil_limit: float | None
) -> Partition:
    """Make the partition that obeys decisions, see `clustering.decisions`; without a limit, by single linkage."""
    decisions.check(graph)
    entity_limit, mention_limit = (max(limit, DECIDED) for limit in limits(graph, threshold))
    extended, forest = _decided_forest(graph, decisions, method, (entity_limit, mention_limit))
    root, follows = ends_of(forest.parent), _last_decided(forest)
    is_reached = root < -1  # roots are negative; the last, -1, is that of all entities outside the knowledge base
    edges = concatenated([graph.edges_by_mention, decisions.same_edges(graph)])
    if nil_limit is None:
        edges = edges.take((edges.weight <= mention_limit) & (edges.source != edges.target))
    nil, tree = _among_nil(is_reached, edges), None
    if nil_limit is not None:
        nil, tree = _average(graph, nil, nil_limit)
    mentions = np.arange(graph.n_mentions, dtype=root.dtype)
    linked = Forest(np.where(is_reached, forest.parent, mentions), np.where(is_reached, forest.weight, np.nan))
    kept, nil = keep_apart(linked, nil, root, decisions.different, extended.n_entities)
    follows[linked.is_reached & ~kept.is_reached] = -1
    kept, nil = kept._replace(weight=_undecided(kept.weight)), nil._replace(weight=_undecided(nil.weight))
    return _without_more_roots(_describe(extended, kept, nil, tree), graph, follows)


def _decided_forest(
    graph: Graph, decisions: Decisions, method: Method, thresholds: tuple[float, float]
) -> tuple[Graph, Forest]:
    """Return the graph to which decisions are applied, and its forest, in which no mention hangs on a wrong entity."""
    isolated = np.zeros(graph.n_mentions, np.bool_)
    wrong, entity = decisions.wrong_ones().T
    while True:
        extended = decisions.applied(graph, method, isolated)
        forest, _ = _forest(extended, "arborescence" if method == "independent" else method, thresholds)
        misled = wrong[ends_of(forest.parent)[wrong] + extended.n_entities == entity]
        if isolated[misled].all():
            return extended, forest
        isolated[misled] = True


def _last_decided(forest: Forest) -> Ids:
    """Return `Partition.follows`: the last mention on the way to each mention that hangs there by a decision, or -1."""
    is_decided = forest.weight <= DECIDED
    last = ends_of(np.where(is_decided, np.arange(len(forest.parent), dtype=forest.parent.dtype), forest.parent))
    last[(last < 0) | ~is_decided[np.maximum(last, 0)]] = -1
    return last


def _undecided(weight: Weights) -> Weights:
    return np.where(weight <= DECIDED, -np.inf, weight).astype(weight.dtype)


def _without_more_roots(extended: Partition, graph: Graph, follows: Ids) -> Partition:
    """Remove the roots beyond the entities of the graph; mentions below such a root are a cluster without an entity."""
    n, more = graph.n_entities, extended.n_entities - graph.n_entities
    labels = np.delete(extended.labels, np.s_[n : n + more])
    mentions = labels[n:]
    is_new = np.flatnonzero((mentions >= n) & (mentions < n + more))
    smallest = np.full(more, graph.n_nodes + more, labels.dtype)
    np.minimum.at(smallest, mentions[is_new] - n, is_new + n + more)
    mentions[is_new] = smallest[mentions[is_new] - n]
    mentions[mentions >= n] -= more
    parent = np.delete(extended.parent, np.s_[n : n + more])
    hangs_on_new = (parent >= n) & (parent < n + more)
    parent = np.where(hangs_on_new, -1, np.where(parent >= n, parent - more, parent)).astype(parent.dtype)
    weight, bottleneck = (np.delete(column, np.s_[n : n + more]) for column in (extended.weight, extended.bottleneck))
    weight[hangs_on_new] = np.nan
    nil = Edges(extended.nil_edges.source - more, extended.nil_edges.target - more, extended.nil_edges.weight)
    entity = np.where(mentions < n, mentions, -1)
    return Partition(labels, entity, parent, weight, bottleneck, nil, extended.nil_tree, follows)


def _describe(graph: Graph, forest: Forest, nil: Edges, tree: MergeTree | None = None) -> Partition:
    """Make the partition from the forest and the edges between NIL mentions, in node ids."""
    n_entities = graph.n_entities
    parent = np.full(graph.n_nodes, -1, graph.source.dtype)
    weight = np.full(graph.n_nodes, np.nan, graph.weight.dtype)
    parent[n_entities:] = np.where(forest.is_reached, forest.parent + n_entities, -1)
    weight[n_entities:] = forest.weight
    nil_edges = Edges(nil.source + n_entities, nil.target + n_entities, nil.weight)
    labels, bottleneck = _trace(parent, weight, n_entities)
    label_components(nil_edges.source, nil_edges.target, labels)
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
