"""Bins of connected components: partitioned one by one, they give the `partition` of the whole graph, to the last bit.

Entities connect nothing. Two mentions are connected by an edge that can matter (see `clustering.pruning`), by an edge
between mentions that may be NIL, and by people who decided that they are the same, that they differ, or that both are
one new entity. More edges than needed only make components larger. In a bin, entities and mentions are numbered in the
order of their ids, so that ties between edges end alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from .arrays import Edges, Ids, Weights, concatenated, id_dtype
from .bridges import Bridges, bridges
from .decisions import DECIDED, NEW, OUTSIDE, UNDECIDED, Decisions
from .forest import lightest_entity_edges
from .graph import Graph, limits
from .kernels import kernel
from .linkage import MergeTree, merge_tree, merges
from .partitions import Partition
from .union_find import find, join, join_all, label_components, label_sets, singletons

_TARGET, _EITHER, _BOTH, _ALL = range(4)
"""Ends of an edge at which it must be lighter than the bound; `_ALL` edges count."""


class _Rule(NamedTuple):
    """Which edges between mentions count: not heavier than ``limit``, and lighter than the bound at some ends."""

    bound: Weights  # (mentions,)
    limit: float
    ends: int


class Bin(NamedTuple):
    """A graph of some components, which `partition` can take alone."""

    graph: Graph
    decisions: Decisions | None
    mentions: Ids
    """(mentions of the bin,) their numbers in the whole graph, ascending."""
    entities: Ids
    """(entities of the bin,) their ids in the whole graph, ascending."""

    def bridges(self) -> Bridges:
        """Rank the edges of the minimum spanning forest of the mentions, numbered from 0 in the bin."""
        tree = merge_tree(self.graph)
        return bridges(Edges(tree.source, tree.target, tree.height), n_nodes=tree.n_leaves)


@dataclass(frozen=True, eq=False, slots=True)
class Bins:
    """The components of a graph, packed into bins of at most ``size`` mentions; a larger component has its own bin."""

    graph: Graph
    decisions: Decisions | None
    bin: Ids
    """(mentions,) the bin of each mention."""
    mentions: Ids
    """(mentions,) the mentions of one bin after the other, ascending in each."""
    begin: Ids
    """(bins + 1,) where each bin begins in ``mentions``."""
    number: Ids
    """(mentions,) number of each mention in its bin."""
    edges: Ids
    """Indices of the edges of one bin after the other, in their order."""
    edges_begin: Ids
    """(bins + 1,) where each bin begins in ``edges``."""

    @classmethod
    def of(cls, graph: Graph, size: int, decisions: Decisions | None = None, **how: Any) -> Self:
        """Label the components and pack them in the order of their smallest mentions; ``how`` is for `partition`.

        Besides the graph, this takes about 24 bytes for each mention and 4 for each edge that is kept.
        """
        method, nil_linkage = how.get("method", "arborescence"), how.get("nil_linkage", "single")
        entity_limit, mention_limit = limits(graph, how.get("threshold"))
        if decisions is not None:
            decisions.check(graph)
            entity_limit, mention_limit = max(entity_limit, DECIDED), max(mention_limit, DECIDED)
        bound = lightest_entity_edges(graph, entity_limit, directed=method != "undirected").weight
        ends = {"undirected": _EITHER, "independent": _BOTH}.get(method, _TARGET)
        rule = _Rule(bound, mention_limit, ends)
        label = components(graph, rule, nil_linkage, decisions)
        bin_ = np.empty_like(label)
        n_bins = _pack(label, np.bincount(label, minlength=len(label)), size, bin_)
        mentions = np.argsort(bin_, kind="stable").astype(bin_.dtype)
        begin = np.concatenate([[0], np.cumsum(np.bincount(bin_, minlength=n_bins))])
        number = label  # which is not needed any more
        number[mentions] = np.arange(len(label)) - np.repeat(begin[:-1], np.diff(begin))
        if nil_linkage == "average":
            rule = rule._replace(limit=np.inf)
        if nil_linkage == "average" or decisions is not None:
            rule = rule._replace(ends=_ALL)
        least = bound if decisions is None else np.full_like(bound, np.inf)
        edges_begin, nothing = np.zeros(n_bins + 1, np.int64), np.empty(0, id_dtype(graph.n_edges))
        given = Edges(graph.source, graph.target, graph.weight)
        _by_bin(given, graph.n_entities, bin_, rule, least, nothing, edges_begin[1:])
        edges_begin = np.cumsum(edges_begin)
        edges = np.empty(edges_begin[-1], nothing.dtype)
        _by_bin(given, graph.n_entities, bin_, rule, least, edges, edges_begin[:-1].copy())
        return cls(graph, decisions, bin_, mentions, begin, number, edges, edges_begin)

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.begin) - 1

    def taken(self, which: int) -> Bin:
        """Return a bin as a graph of its own."""
        n, given = self.graph.n_entities, self.graph
        mentions = self.mentions[self.begin[which] : self.begin[which + 1]]
        place = self.edges[self.edges_begin[which] : self.edges_begin[which + 1]]
        ends = [given.source[place], given.target[place]]
        told = None if self.decisions is None else self._decided(which, mentions)
        named = [] if told is None else [told.root[told.root >= 0], told.wrong[:, 1]]
        entities = np.unique(np.concatenate([*(ids[ids < n] for ids in ends), *named])).astype(given.source.dtype)
        source, target = (
            np.where(ids < n, np.searchsorted(entities, ids), self.number[np.maximum(ids - n, 0)] + len(entities))
            for ids in ends
        )
        if told is not None:
            root = np.where(told.root >= 0, np.searchsorted(entities, told.root), told.root)
            wrong = np.column_stack([told.wrong[:, 0], np.searchsorted(entities, told.wrong[:, 1])])
            told = told._replace(root=root.astype(told.root.dtype), wrong=wrong)
        ids = given.source.dtype
        edges = source.astype(ids), target.astype(ids), given.weight[place]
        return Bin(Graph(*edges, len(entities), len(entities) + len(mentions)), told, mentions, entities)

    def _decided(self, which: int, mentions: Ids) -> Decisions:
        """Return the decisions about the mentions of a bin, which they number, with all entities."""
        assert self.decisions is not None
        root, passed_on, alone, *pairs = self.decisions
        root = root[mentions]
        is_new = root <= NEW
        root[is_new] = NEW - np.unique(NEW - root[is_new], return_inverse=True)[1]
        same, different, wrong = (own[self.bin[own[:, 0]] == which] for own in pairs)
        wrong = np.column_stack([self.number[wrong[:, 0]], wrong[:, 1]])
        return Decisions(root, passed_on[mentions], alone[mentions], self.number[same], self.number[different], wrong)


def components(graph: Graph, rule: _Rule, nil_linkage: str, decisions: Decisions | None) -> Ids:
    """Label each mention by the smallest mention of its component, (mentions,); the order of the edges does not matter.

    In the rule, the bound of a mention is the weight of its lightest entity edge.
    """
    sets = singletons(graph.n_mentions, graph.source)
    edges = Edges(graph.source, graph.target, graph.weight)
    bound, may_be_outside = rule.bound, False
    if decisions is not None:
        bound = bound.copy()
        bound[decisions.wrong_ones()[:, 0]] = np.inf  # the entity may be ruled out
        bound[decisions.root != UNDECIDED] = -np.inf
        new = np.flatnonzero(decisions.root <= NEW)
        _, first, of_first = np.unique(decisions.root[new], return_index=True, return_inverse=True)
        for pairs in (decisions.same, decisions.different, np.column_stack([new, new[first][of_first]])):
            join_all(sets, pairs[:, 0], pairs[:, 1])
        may_be_outside = bool((decisions.root == OUTSIDE).any())
    if rule.ends != _BOTH:
        _connect(sets, edges, graph.n_entities, rule._replace(bound=bound))
    label = np.arange(graph.n_mentions, dtype=sets.dtype)
    if rule.ends == _BOTH or nil_linkage == "average" or may_be_outside:
        may_be_nil = np.isposinf(bound)
        if decisions is not None and may_be_outside:
            label_sets(sets, label)
            may_be_nil |= np.isin(label, label[decisions.root == OUTSIDE])
        below_one = float(np.nextafter(bound.dtype.type(1), bound.dtype.type(0)))  # the similarity is more than 0
        limit = below_one if nil_linkage == "average" else rule.limit
        anything = np.where(may_be_nil, np.inf, -np.inf).astype(bound.dtype)
        _connect(sets, edges, graph.n_entities, _Rule(anything, limit, _BOTH))
    label_sets(sets, label)
    return label


def joined(graph: Graph, parts: Iterable[tuple[Ids, Ids, Partition]]) -> Partition:
    """Join the partitions of all bins, in any order, to that of the graph; with each come its mentions and entities."""
    n, n_nodes, ids = graph.n_entities, graph.n_nodes, graph.source.dtype
    labels, parent = np.arange(n_nodes, dtype=ids), np.full(n_nodes, -1, ids)
    weight = np.full(n_nodes, np.nan, graph.weight.dtype)
    bottleneck, follows = np.full_like(weight, -np.inf), None
    count, nil, trees = np.zeros(graph.n_mentions + 1, np.int64), list[tuple[Ids, Edges, int]](), list[Edges]()
    for mentions, entities, own in parts:
        node, first = np.concatenate([entities, mentions + n]).astype(ids), len(entities)
        at, inner = mentions + n, slice(first, None)
        labels[at] = node[own.labels[inner]]
        parent[at] = np.where(own.parent[inner] >= 0, node[own.parent[inner]], -1)
        weight[at], bottleneck[at] = own.weight[inner], own.bottleneck[inner]
        nil.append((node[first:], own.nil_edges, first))
        count[mentions + 1] = np.bincount(own.nil_edges.target - first, minlength=len(mentions))
        if own.nil_tree is not None:
            tree = own.nil_tree
            trees.append(Edges(mentions[tree.source].astype(ids), mentions[tree.target].astype(ids), tree.height))
        if own.follows is not None:
            follows = np.full(graph.n_mentions, -1, own.follows.dtype) if follows is None else follows
            follows[mentions] = np.where(own.follows >= 0, mentions[own.follows], -1)
    entity = np.where(labels[n:] < n, labels[n:], -1)
    tree_ = _tree(concatenated(trees), graph) if trees else None
    edges = _in_place(nil, np.cumsum(count), graph)
    return Partition(labels, entity, parent, weight, bottleneck, edges, tree_, follows)


def _in_place(parts: list[tuple[Ids, Edges, int]], begin: Ids, graph: Graph) -> Edges:
    """Write edges to the places of their targets, which begin there for each mention.

    With each part come its nodes, and the number of the first; its targets ascend.
    """
    source, target = (np.empty(begin[-1], graph.source.dtype) for _ in range(2))
    weight = np.empty(begin[-1], graph.weight.dtype)
    for node, own, first in parts:
        at = node[own.target - first]
        place = begin[at - graph.n_entities] + np.arange(len(at)) - np.searchsorted(own.target, own.target)
        source[place], target[place], weight[place] = node[own.source - first], at, own.weight
    return Edges(source, target, weight)


def _tree(merged: Edges, graph: Graph) -> MergeTree:
    """Join trees of average linkage, whose merges are those of one connected part after the other if heights tie."""
    n = graph.n_mentions
    first = np.arange(n, dtype=merged.source.dtype)
    label_components(merged.source, merged.target, first)
    merged = merged.take(np.lexsort((first[merged.source], merged.weight)))
    return MergeTree(n, *merges(n, merged.source, merged.target), merged.weight, merged.source, merged.target)


@kernel
def _counts(w: float, of_source: float, of_target: float, limit: float, ends: int) -> bool:
    """Return whether an edge between mentions with these bounds counts."""
    if w > limit or ends == _ALL:
        return bool(w <= limit)
    if ends == _BOTH:
        return bool(w < of_source and w < of_target)
    return bool(w < of_target or (ends == _EITHER and w < of_source))


@kernel
def _connect(sets: Ids, edges: Edges, n_entities: int, rule: _Rule) -> None:
    """Join the ends of the edges between mentions that count."""
    for i in range(len(edges.source)):
        u, v = edges.source[i] - n_entities, edges.target[i] - n_entities
        if u < 0 or v < 0 or not _counts(edges.weight[i], rule.bound[u], rule.bound[v], rule.limit, rule.ends):
            continue
        a, b = find(sets, u), find(sets, v)
        if a != b:
            join(sets, a, b)


@kernel
def _pack(label: Ids, count: Ids, size: int, bin_: Ids) -> int:
    """Put components into the last bin while there is room, and return the number of bins, at least one."""
    n_bins, last, filled = 0, -1, 0
    for mention in range(len(label)):
        if label[mention] < mention:
            bin_[mention] = bin_[label[mention]]
            continue
        own = count[mention]
        if own > size or last < 0 or filled + own > size:
            bin_[mention] = n_bins
            n_bins += 1
            if own <= size:
                last, filled = bin_[mention], own
        else:
            bin_[mention] = last
            filled += own
    return max(n_bins, 1)


@kernel
def _by_bin(edges: Edges, n_entities: int, bin_: Ids, rule: _Rule, least: Weights, place: Ids, end: Ids) -> None:
    """Write the index of each edge to the end of its bin if there is room, and move the end.

    Left out are entity edges heavier than the ``least`` of their mention, and those that `_counts` leaves out.
    """
    for i in range(len(edges.source)):
        u, v, w = edges.source[i] - n_entities, edges.target[i] - n_entities, edges.weight[i]
        mention = max(u, v)
        if mention < 0:
            continue
        if u < 0 or v < 0:
            if w > least[mention]:
                continue
        elif bin_[u] != bin_[v] or not _counts(w, rule.bound[u], rule.bound[v], rule.limit, rule.ends):
            continue
        b = bin_[mention]
        if len(place):
            place[end[b]] = i
        end[b] += 1
