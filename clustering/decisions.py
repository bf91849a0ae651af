"""What people decided about the mentions of a graph, which `partition` obeys.

A decision is an edge lighter than any dissimilarity, so that every method takes it first: from its root to a mention,
or both ways between mentions that are the same, as if they were one. There are more roots than entities: one for each
new entity, and one for all mentions whose entity is outside the knowledge base. After the forest, the mentions of that
last root and those that no root reaches are clustered by the edges between mentions, whatever root they came from.

A mention that is not an entity has no edge from it, nor have the mentions that are the same. If others still lead it to
that entity, it is isolated: the edges between it and other mentions are left out, and the forest is made again, until
no mention is wrong. All that are wrong are isolated at once, so that no order matters.

Mentions that differ constrain the result. In a cluster that violates this, the edges that hold it together join its
nodes again, from the lightest to the heaviest, by (weight, source, target), and those that would join such a pair are
left out (Kruskal). Parts without a root become NIL.
"""

from typing import NamedTuple

import numpy as np

from .arrays import Bools, Edges, Ids, concatenated, pairs_of
from .forest import Forest
from .graph import Graph
from .kernels import kernel
from .methods import Method
from .union_find import find, join, label_components, roots, singletons

UNDECIDED, OUTSIDE, NEW = -1, -2, -3
"""Values of `Decisions.root` that are no entity: none, outside the knowledge base, and the new entity 0."""
_BY_PERSON = float(np.float32(-3e38))
_PASSED_ON = float(np.float32(-2.5e38))
DECIDED = float(np.float32(-2e38))  # edges up to this weight are decisions


class Decisions(NamedTuple):
    """Decisions about the mentions of a graph, which are numbered from 0."""

    root: Ids
    """(mentions,) the entity of the mention, `UNDECIDED`, `OUTSIDE`, or `NEW` - i for the new entity i."""
    passed_on: Bools
    """(mentions,) whether the root was decided for another mention of the same name, and is weaker than decisions."""
    alone: Bools
    """(mentions,) whether no other mention may follow this one."""
    same: Ids
    """(pairs, 2) mentions that are the same; chains of pairs join all their mentions."""
    different: Ids
    """(pairs, 2) mentions that differ."""
    wrong: Ids
    """(pairs, 2) mentions and entities that they are not."""

    @property
    def n_new(self) -> int:
        """Number of new entities."""
        return max(0, NEW + 1 - int(self.root.min(initial=0)))

    def applied(self, graph: Graph, method: Method, isolated: Bools) -> Graph:
        """Return the graph with the additional roots and the decided edges, and without the edges that are ruled out.

        The edges between other mentions and those marked in ``isolated``, (mentions,), are left out too; for
        ``independent``, all given edges between mentions.
        """
        n, more = graph.n_entities, self.n_new + 1
        source, target = (np.where(ids < n, ids, ids + more).astype(ids.dtype) for ids in (graph.source, graph.target))
        between = (source >= n + more) & (target >= n + more)
        given = Edges(source, target, graph.weight)
        is_kept = ~between | self._may_follow(given, n + more, method, isolated)
        is_kept[self._wrong_edges(given, n + more, between)] = False
        same = self.same_edges(graph)
        same = Edges(same.source + n + more, same.target + n + more, same.weight)
        edges = concatenated([given.take(is_kept), self._root_edges(n), same])
        ids = (edges.source.astype(source.dtype), edges.target.astype(source.dtype))
        return Graph(*ids, edges.weight.astype(graph.weight.dtype), n + more, graph.n_nodes + more)

    def _may_follow(self, edges: Edges, n_roots: int, method: Method, isolated: Bools) -> Bools:
        """Return whether the target of each edge between mentions may follow its source; (edges,)."""
        if method == "independent":
            return np.zeros(len(edges.source), np.bool_)
        none = np.zeros(n_roots, np.bool_)
        leads_none, follows_none = np.append(none, self.alone | isolated), np.append(none, isolated)
        if method == "undirected":
            follows_none = leads_none
        return ~(leads_none[edges.source] | follows_none[edges.target])

    def _wrong_edges(self, edges: Edges, n_roots: int, between: Bools) -> Ids:
        """Return the places of the edges between a mention and an entity that it is not, in either direction."""
        mention, entity = self.wrong_ones().T.astype(np.int64)
        is_about = np.zeros(n_roots + len(self.root), np.bool_)
        is_about[mention + n_roots] = True
        place = np.flatnonzero((is_about[edges.source] | is_about[edges.target]) & ~between)
        ends = edges.source[place].astype(np.int64), edges.target[place].astype(np.int64)
        pair = np.minimum(*ends) * len(self.root) + np.maximum(*ends) - n_roots
        return place[np.isin(pair, entity * len(self.root) + mention)]

    def _root_edges(self, n_entities: int) -> Edges:
        """Return the edges from the roots, the entities and those that are added, to the mentions decided for them."""
        mention = np.flatnonzero(self.root != UNDECIDED)
        root, n_new = self.root[mention], self.n_new
        root = np.where(root >= 0, root, np.where(root == OUTSIDE, n_entities + n_new, n_entities + NEW - root))
        return Edges(root, mention + n_entities + n_new + 1, np.where(self.passed_on[mention], _PASSED_ON, _BY_PERSON))

    def same_edges(self, graph: Graph) -> Edges:
        """Return the edges both ways between mentions that are the same, numbered from 0."""
        both = np.concatenate([self.same, self.same[:, ::-1]]).astype(graph.source.dtype)
        return Edges(both[:, 0], both[:, 1], np.full(len(both), _BY_PERSON, graph.weight.dtype))

    def wrong_ones(self) -> Ids:
        """Return the pairs in ``wrong``, each for its mention and for all mentions that are the same; (pairs, 2)."""
        group = np.arange(len(self.root))
        label_components(self.same[:, 0], self.same[:, 1], group)
        order = np.argsort(group, kind="stable")
        place, pair = pairs_of(group[order], group[self.wrong[:, 0]])
        return np.column_stack([order[place], self.wrong[pair, 1]])

    def check(self, graph: Graph) -> None:
        """Raise ValueError if the decisions are about other mentions or entities than those of the graph."""
        for column in (self.root, self.passed_on, self.alone):
            if len(column) != graph.n_mentions:
                raise ValueError(f"the decisions are about {len(column)} mentions; the graph has {graph.n_mentions}")
        mentions = np.concatenate([self.same.ravel(), self.different.ravel(), self.wrong[:, 0]])
        entities = np.concatenate([self.root[self.root >= 0], self.wrong[:, 1]])
        for name, ids, n in (("mention", mentions, graph.n_mentions), ("entity", entities, graph.n_entities)):
            if (unknown := ids[(ids < 0) | (ids >= n)]).size:
                raise ValueError(f"a decision has the {name} {unknown[0]}, but they are numbered from 0 to {n - 1}")


def ends_of(up: Ids) -> Ids:
    """Follow ``up`` from each node to the end: a node that is its own ``up``, or a negative number."""
    end = up.copy()
    while True:
        further = np.where(end >= 0, end[np.maximum(end, 0)], end)  # twice as far each time
        if (further == end).all():
            return end
        end = further


def keep_apart(forest: Forest, nil: Edges, top: Ids, pairs: Ids, n_roots: int) -> tuple[Forest, Edges]:
    """Leave out edges, as the module says, so that no cluster has both mentions of a pair in ``pairs``, (pairs, 2).

    ``nil`` are the edges between NIL mentions, and ``top`` is the root of each mention that is reached. Mentions are
    numbered from 0, and roots are negative.
    """
    pairs = (pairs + n_roots).astype(top.dtype)
    n_nodes = n_roots + len(top)
    label = np.arange(n_nodes, dtype=top.dtype)
    label[n_roots:] = np.where(forest.is_reached, top + n_roots, label[n_roots:])
    label_components(nil.source + n_roots, nil.target + n_roots, label)
    if not len(pairs := pairs[label[pairs[:, 0]] == label[pairs[:, 1]]]):
        return forest, nil
    reached = np.flatnonzero(forest.is_reached).astype(top.dtype)
    tree = Edges(forest.parent[reached], reached, forest.weight[reached])
    edges = concatenated([tree, nil])
    edges = Edges(edges.source + n_roots, edges.target + n_roots, edges.weight)
    violates = np.zeros(n_nodes, np.bool_)
    violates[label[pairs[:, 0]]] = True
    place = np.flatnonzero(violates[label[edges.target]])
    some = edges.take(place)
    place = place[np.lexsort((some.target, some.source, some.weight))]
    kept, part = _join_but(edges.take(place), pairs[:, 0].copy(), pairs[:, 1].copy(), n_nodes)
    holds = np.ones(len(edges.source), np.bool_)
    holds[place[~kept]] = False
    is_rooted = np.zeros(n_nodes, np.bool_)
    is_rooted[part[:n_roots]] = True
    stays = forest.is_reached & is_rooted[part[n_roots:]] | (forest.is_reached & ~violates[label[n_roots:]])
    inner = holds[: len(reached)] & ~stays[reached]  # the edges that hold a part without a root together
    parent = np.where(stays, forest.parent, np.arange(len(top), dtype=top.dtype))
    nil = concatenated([nil.take(holds[len(reached) :]), tree.take(inner)])
    return Forest(parent, np.where(stays, forest.weight, np.nan).astype(forest.weight.dtype)), nil


@kernel
def _join_but(edges: Edges, first: Ids, second: Ids, n_nodes: int) -> tuple[Bools, Ids]:
    """Join nodes by edges in this order but for the pairs; return which edges were kept, and the part of each node."""
    sets = singletons(n_nodes, edges.source)
    is_end = np.zeros(n_nodes, np.bool_)  # of the root of a part: whether an end of a pair is in it
    is_end[first] = True
    is_end[second] = True
    kept = np.ones(len(edges.source), np.bool_)
    for i in range(len(edges.source)):
        a, b = find(sets, edges.source[i]), find(sets, edges.target[i])
        if a == b:
            continue
        if is_end[a] and is_end[b]:
            for j in range(len(first)):
                one, other = find(sets, first[j]), find(sets, second[j])
                if (one == a and other == b) or (one == b and other == a):
                    kept[i] = False
                    break
        if kept[i]:
            is_end[join(sets, a, b)] = is_end[a] or is_end[b]
    return kept, roots(sets)
