"""Bins of connected components: partitioned one by one, they give the `partition` of the whole graph, to the last bit.

Entities connect nothing. Two mentions are connected by an edge that can matter under some method (see
`clustering.pruning`), by an edge between mentions that may be NIL, and by people who decided that they are the same,
that they differ, or that both are one new entity. More edges than needed only make components larger. In a bin,
entities and mentions are numbered in the order of their ids, so that ties between edges end alike.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .arrays import Edges, Ids, New, Weights, concatenated, ranges
from .decisions import DECIDED, NEW, OUTSIDE, UNDECIDED, Decisions
from .forest import no_entity_edges
from .graph import Graph, ListedGraph, limits
from .kernels import kernel
from .linkage import MergeTree, merges
from .partitions import Partition
from .pruning import surviving_edges
from .union_find import join_all, label_components, label_sets, singletons


class Bin(NamedTuple):
    """A graph of some components, which `partition` can take alone."""

    graph: Graph
    decisions: Decisions | None
    mentions: Ids
    """(mentions of the bin,) their numbers in the whole graph, ascending."""
    entities: Ids
    """(entities of the bin,) their ids in the whole graph, ascending."""


@dataclass(frozen=True, eq=False, slots=True)
class Bins:
    """The components of a graph, packed into bins of at most ``size`` mentions; a larger component has its own bin."""

    lists: ListedGraph
    decisions: Decisions | None
    """Their pairs are those of one bin after the other."""
    bin: Ids
    """(mentions,) the bin of each mention."""
    mentions: Ids
    """(mentions,) the mentions of one bin after the other, ascending in each."""
    begin: Ids
    """(bins + 1,) where each bin begins in ``mentions``."""
    bound: Weights
    """(mentions,) heavier entity edges are left out."""
    limit: float
    """Heavier edges between mentions are left out."""

    @classmethod
    def of(cls, lists: ListedGraph, size: int, decisions: Decisions | None = None, **how: Any) -> Self:
        """Label the components and pack them in the order of their smallest mentions; ``how`` is for `partition`.

        Besides the lists, this takes about 24 bytes for each mention.
        """
        graph, is_average = lists.without_edges, how.get("nil_linkage") == "average"
        entity_limit, limit = limits(graph, how.get("threshold"))
        if decisions is not None:
            decisions.check(graph)
            entity_limit, limit = max(entity_limit, DECIDED), max(limit, DECIDED)
        one, bound = graph.weight.dtype.type(1), no_entity_edges(graph).weight
        for some in lists.slices():
            own = (some.source < some.n_entities) & (some.weight <= entity_limit)
            np.minimum.at(bound, some.target[own] - some.n_entities, some.weight[own])
        nil_limit = float(np.nextafter(one, -one)) if is_average else limit  # the similarity is more than 0
        label = components(lists, bound, limit, nil_limit, decisions)
        bin_ = np.empty_like(label)
        n_bins = _pack(label, np.bincount(label, minlength=len(label)), size, bin_)
        mentions = np.argsort(bin_, kind="stable").astype(bin_.dtype)
        begin = np.searchsorted(bin_[mentions], np.arange(n_bins + 1))
        if decisions is not None:
            bound[:] = np.inf
            pairs = decisions.same, decisions.different, decisions.wrong
            ordered = (own[np.argsort(bin_[own[:, 0]], kind="stable")] for own in pairs)
            decisions = Decisions(decisions.root, decisions.passed_on, decisions.alone, *ordered)
        return cls(lists, decisions, bin_, mentions, begin, bound, np.inf if is_average else limit)

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return len(self.begin) - 1

    def taken(self, which: int) -> Bin:
        """Return a bin as a graph of its own."""
        mentions, decisions = self.mentions[self.begin[which] : self.begin[which + 1]], self.decisions
        given, n = self.lists.without_edges, self.lists.n_entities
        edges = concatenated([*self._edges(which)])
        ids, named = given.source.dtype, [edges.source, edges.target]
        if decisions is not None:
            root, passed_on, alone = decisions.root[mentions], decisions.passed_on[mentions], decisions.alone[mentions]
            same, different, wrong = (
                self._of_bin(which, pairs) for pairs in (decisions.same, decisions.different, decisions.wrong)
            )
            named += [root[root >= 0], wrong[:, 1]]
        entities = np.unique(np.concatenate([ids_[ids_ < n] for ids_ in named])).astype(ids)
        first, node = len(entities), np.concatenate([entities, mentions + n])
        number = np.empty(given.n_nodes, ids)  # of the nodes of this bin
        number[node] = np.arange(len(node))
        if decisions is not None:
            root[root >= 0] = number[root[root >= 0]]
            wrong = np.column_stack([number[wrong[:, 0] + n] - first, number[wrong[:, 1]]])
            decisions = Decisions(
                root, passed_on, alone, number[same + n] - first, number[different + n] - first, wrong
            )
        graph = Graph(number[edges.source], number[edges.target], edges.weight, first, len(node))
        return Bin(graph, decisions, mentions, entities)

    def n_edges(self, which: int) -> int:
        """Return the number of edges of a bin, without making its graph."""
        return sum(len(some.source) for some in self._edges(which))

    def _edges(self, which: int) -> Iterator[Edges]:
        mentions = self.mentions[self.begin[which] : self.begin[which + 1]]
        return (self._inside(which, some) for some in chain([self.lists.without_edges], self.lists.slices(mentions)))

    def _inside(self, which: int, given: Graph) -> Edges:
        """Return those of some edges into mentions of a bin that can matter."""
        source, target = given.source - given.n_entities, given.target - given.n_entities
        is_near = (self.bin[np.maximum(source, 0)] == which) & (given.weight <= self.limit)
        kept = np.where(source < 0, given.weight <= self.bound[target], is_near)
        return Edges(given.source, given.target, given.weight).take(kept)

    def _of_bin(self, which: int, pairs: Ids) -> Ids:
        """Return the pairs of a bin."""
        begin, end = (bisect_left(pairs, bin_, key=lambda own: self.bin[own[0]]) for bin_ in (which, which + 1))
        return pairs[begin:end]


def components(lists: ListedGraph, bound: Weights, limit: float, nil_limit: float, decisions: Decisions | None) -> Ids:
    """Label each mention by the smallest mention of its component, (mentions,); the order of the edges does not matter.

    An edge connects mentions if it is lighter than ``bound``, the lightest entity edge, of either and not heavier than
    ``limit``, or if both may be NIL and it is not heavier than ``nil_limit``.
    """
    sets, bound = singletons(lists.n_mentions, lists.without_edges.source), bound.copy()
    label, is_outside = np.arange(lists.n_mentions, dtype=sets.dtype), np.zeros(lists.n_mentions, np.bool_)
    if decisions is not None:
        bound[decisions.wrong_ones()[:, 0]] = np.inf  # the entity may be ruled out
        bound[decisions.root != UNDECIDED] = -np.inf
        is_outside = decisions.root == OUTSIDE
        new = np.flatnonzero(decisions.root <= NEW)
        _, first, of_first = np.unique(decisions.root[new], return_index=True, return_inverse=True)
        for pairs in (decisions.same, decisions.different, np.column_stack([new, new[first][of_first]])):
            join_all(sets, pairs[:, 0], pairs[:, 1])
    for some in lists.slices():
        edges = surviving_edges(some, bound, limit, directed=False)
        join_all(sets, edges.source, edges.target)
    label_sets(sets, label)
    if nil_limit > limit or is_outside.any():
        may_be_nil = np.isposinf(bound) | np.isin(label, label[is_outside])  # or follow what is outside
        bound = np.where(may_be_nil, np.inf, -np.inf).astype(bound.dtype)
        for some in lists.slices():
            edges = surviving_edges(some, bound, nil_limit, directed=True)
            edges = edges.take(may_be_nil[edges.source])
            join_all(sets, edges.source, edges.target)
        label_sets(sets, label)
    return label


def described(found: Partition) -> dict[str, npt.NDArray[Any]]:
    """Return what `joined` reads of the partition of a bin: columns of the mentions, NIL edges, and the tree."""
    names = "labels", "parent", "weight", "bottleneck"
    made = {name: getattr(found, name)[found.n_entities :] for name in names}
    made |= {f"nil_{name}": own for name, own in found.nil_edges._asdict().items()}
    if found.nil_tree is not None:
        made |= {f"tree_{name}": getattr(found.nil_tree, name) for name in ("source", "target", "height")}
    return made if found.follows is None else made | {"follows": found.follows}


def joined(
    graph: Graph, parts: Callable[[], Iterable[tuple[Ids, Ids, dict[str, npt.NDArray[Any]]]]], new: New = np.empty
) -> Partition:
    """Join the partitions of all bins, in any order, to that of the graph; with each come its mentions and entities.

    They are asked for twice, and each is used before the next comes, so that few files need to be open. The edges of
    ``graph`` are not read; ``new`` makes the arrays of the edges between NIL mentions.
    """
    n, ids = graph.n_entities, graph.source.dtype
    labels, parent = np.arange(graph.n_nodes, dtype=ids), np.full(graph.n_nodes, -1, ids)
    weight = np.full(graph.n_nodes, np.nan, graph.weight.dtype)
    bottleneck, follows, trees = np.full_like(weight, -np.inf), np.full(graph.n_mentions, -1, ids), list[Edges]()
    count, has_follows = np.zeros(graph.n_mentions, np.int64), False
    for mentions, entities, own in parts():
        node = np.concatenate([entities, mentions + n, [-1]]).astype(ids)  # the last, -1, is none
        at, has_follows = mentions + n, "follows" in own
        labels[at], parent[at] = node[own["labels"]], node[own["parent"]]
        weight[at], bottleneck[at] = own["weight"], own["bottleneck"]
        count[mentions] = np.bincount(own["nil_target"] - len(entities), minlength=len(mentions))
        if has_follows:
            follows[mentions] = np.append(mentions, -1)[own["follows"]]
        if "tree_height" in own:
            height = np.array(own["tree_height"])  # a view would keep the file open
            trees.append(Edges(mentions[own["tree_source"]], mentions[own["tree_target"]], height))
    begin = np.cumsum(count) - count
    nil = Edges(*(new((int(count.sum()),), dtype) for dtype in (ids, ids, weight.dtype)))
    for mentions, entities, own in parts():
        node, place = np.concatenate([entities, mentions + n]), ranges(begin[mentions], count[mentions])
        nil.source[place], nil.target[place] = node[own["nil_source"]], node[own["nil_target"]]
        nil.weight[place] = own["nil_weight"]
    entity, tree = np.where(labels[n:] < n, labels[n:], -1), _tree(concatenated(trees), graph) if trees else None
    return Partition(labels, entity, parent, weight, bottleneck, nil, tree, follows if has_follows else None)


def _tree(merged: Edges, graph: Graph) -> MergeTree:
    """Join trees of average linkage, whose merges are those of one connected part after the other if heights tie."""
    n = graph.n_mentions
    first = np.arange(n, dtype=merged.source.dtype)
    label_components(merged.source, merged.target, first)
    merged = merged.take(np.lexsort((first[merged.source], merged.weight)))
    return MergeTree(n, *merges(n, merged.source, merged.target), merged.weight, merged.source, merged.target)


@kernel
def _pack(label: Ids, count: Ids, size: int, bin_: Ids) -> int:
    """Put components into the last bin while there is room, and return the number of bins, at least one."""
    n_bins, last, room = 0, 0, 0
    for mention in range(len(label)):
        own = count[mention]
        if own == 0:  # it is not the smallest of its component
            bin_[mention] = bin_[label[mention]]
        elif own <= room:
            bin_[mention], room = last, room - own
        else:
            bin_[mention] = n_bins
            if own <= size:
                last, room = n_bins, size - own
            n_bins += 1
    return max(n_bins, 1)
