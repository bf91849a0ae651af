"""Average linkage of mentions over a sparse graph, exact: pairs of mentions without an edge have the similarity 0.

Mentions with an edge of the weight `SAME`, or one that people decided, are one before anything else, and count as one.

The clusters A and B with the largest ``sum / (|A| |B|)`` are merged, where ``sum`` adds the similarities between them;
ties go to the pair with the smallest mentions. Among these pairs, ordered by (average, smallest mentions), a merge
never makes a pair that comes before both pairs that it replaces. Clusters that are each other's nearest can therefore
be merged at once, in any order (chains of nearest neighbours, Bruynooghe 1977), and give the same tree.

A cluster keeps the lists of neighbours of its mentions. A search for its nearest cluster reads them once, and replaces
the neighbours of the same cluster by their sum. There are about four searches to a merge, so the time is nearly linear
in the edges while clusters have few neighbours; at worst it is O(mentions edges), where one cluster absorbs most
mentions one by one.
"""

from typing import NamedTuple

import numpy as np

from .arrays import Edges, Ids, Weights
from .decisions import DECIDED
from .graph import Graph
from .kernels import kernel
from .linkage import MergeTree, merges
from .union_find import find, join, label_components

SAME = np.float32(-(2.0**-20))  # the weight of an edge whose mentions are one
_UNIT = 1 << 20


def average_tree(graph: Graph, limit: float = np.inf) -> MergeTree:
    """Build the merge tree of average linkage of the mention edges of a graph, ignoring directions and entities.

    Merges above the height ``limit`` may be missing.

    The similarity of two mentions is ``1 - weight`` of their lightest edge in either direction, clipped to 0 .. 1 and
    rounded up to a multiple of 2^-20, so that a pair at the threshold is merged; 0 without an edge. Mentions with an
    edge of the weight `SAME` are one, and merged first, at the height 0, or -inf if people decided so. The height of
    another merge is 1 minus the average similarity; clusters without any similarity are never merged. ``source`` and
    ``target`` of the tree are the smallest mentions of the merged clusters.

    >>> graph = Graph.from_edges([0, 1, 0, 2], [1, 2, 2, 3], [0.25, 0.25, 0.75, 0.375], n_entities=0, n_nodes=4)
    >>> average_tree(graph).height.tolist()  # {0, 1}, {2, 3}, and 1 - (0.75 + 0.25) / 4
    [0.25, 0.375, 0.75]
    """
    edges = graph.edges_by_mention
    edges = edges.take((edges.source >= 0) & (edges.target >= 0))
    if limit < 1:  # clusters are merged at the limit only if one edge between them is as light; heights round down
        near = edges.weight <= limit + 2 / _UNIT
        label = np.arange(graph.n_mentions, dtype=edges.source.dtype)
        label_components(edges.source[near], edges.target[near], label)
        edges = edges.take(label[edges.source] == label[edges.target])
    source, target, height = _merged(graph.n_mentions, edges)
    order = np.argsort(height, kind="stable")  # parts are merged before the whole
    source, target = source[order].astype(graph.source.dtype), target[order].astype(graph.source.dtype)
    return MergeTree(graph.n_mentions, *merges(graph.n_mentions, source, target), height[order], source, target)


def _merged(n: int, edges: Edges) -> tuple[Ids, Ids, Weights]:
    """Return the merges, first those of mentions that are one."""
    by_person = edges.weight <= DECIDED
    if not (are_one := by_person | (edges.weight == SAME)).any():
        return _merge_all(_clusters(n, edges))
    mention = np.arange(n, dtype=edges.source.dtype)
    decided, label = mention.copy(), mention.copy()
    for some, labels in ((by_person, decided), (are_one, label)):
        label_components(edges.source[some], edges.target[some], labels)
    first, joined, alike = (np.flatnonzero(some) for some in (label == mention, decided < mention, label < decided))
    alike = alike[decided[alike] == alike]
    number = (np.cumsum(label == mention) - 1).astype(label.dtype)[label]
    merged = _merge_all(_clusters(len(first), Edges(number[edges.source], number[edges.target], edges.weight)))
    source = np.concatenate([decided[joined], label[alike], first[merged[0]]])
    height = np.concatenate([np.full(len(joined), -np.inf), np.zeros(len(alike)), merged[2]])
    return source, np.concatenate([joined, alike, first[merged[1]]]), height


class _Clusters(NamedTuple):
    """Clusters, each named by one of its mentions, and the neighbours of mentions; -1 means none."""

    sets: Ids  # (mentions,) disjoint sets, as in `union_find`
    smallest: Ids  # (mentions,) smallest mention of the cluster
    last: Ids  # (mentions,) last mention of the cluster with a list
    next: Ids  # (mentions,) next mention of the cluster with a list
    begin: Ids  # (mentions,) begin of the list of the mention
    end: Ids  # (mentions,)
    neighbor: Ids  # (neighbours,) a mention of the neighbour
    sum: Ids  # (neighbours,) its similarity


def _clusters(n: int, edges: Edges) -> _Clusters:
    count = np.bincount(edges.source, minlength=n) + np.bincount(edges.target, minlength=n)
    end = np.cumsum(count)
    single, none = np.arange(n, dtype=np.int32), np.full(n, -1, np.int32)
    neighbor, total = np.empty(2 * len(edges.source), np.int32), np.empty(2 * len(edges.source), np.int64)
    clusters = _Clusters(none, single, single.copy(), none.copy(), end - count, end - count, neighbor, total)
    _fill(edges, clusters)
    return clusters


@kernel
def _fill(edges: Edges, at: _Clusters) -> None:
    """Fill the lists of neighbours, and keep the most similar of duplicates."""
    for i in range(len(edges.source)):
        u, v = edges.source[i], edges.target[i]
        similarity = np.int64(np.ceil(min(1.0, 1.0 - np.float64(edges.weight[i])) * _UNIT))
        if similarity > 0 and u != v:
            at.neighbor[at.end[u]], at.neighbor[at.end[v]] = v, u
            at.sum[at.end[u]] = at.sum[at.end[v]] = similarity
            at.end[u] += 1
            at.end[v] += 1
    place = np.full(len(at.sets), -1, np.int64)
    for mention in range(len(at.sets)):
        end = at.begin[mention]
        for i in range(at.begin[mention], at.end[mention]):
            known = place[at.neighbor[i]]
            if known >= at.begin[mention]:
                at.sum[known] = max(at.sum[known], at.sum[i])
            else:
                at.neighbor[end], at.sum[end], place[at.neighbor[i]] = at.neighbor[i], at.sum[i], end
                end += 1
        at.end[mention] = end


@kernel
def _nearest(at: _Clusters, a: int, place: Ids) -> tuple[int, int]:
    """Return the nearest cluster of a cluster and the sum of similarities to it; -1 without neighbours."""
    mention = member = at.smallest[a]
    cursor, best, best_sum = at.begin[member], -1, 0
    while mention >= 0:
        for i in range(at.begin[mention], at.end[mention]):
            b = find(at.sets, at.neighbor[i])
            if b == a:
                continue
            if place[b] >= 0:
                at.sum[place[b]] += at.sum[i]
                continue
            while cursor == at.end[member]:
                member = at.next[member]
                cursor = at.begin[member]
            at.neighbor[cursor], at.sum[cursor], place[b] = b, at.sum[i], cursor
            cursor += 1
        mention = at.next[mention]
    at.end[member], at.last[a], at.next[member] = cursor, member, -1
    mention = at.smallest[a]
    while mention >= 0:
        for i in range(at.begin[mention], at.end[mention]):
            b = at.neighbor[i]
            place[b] = -1
            if best < 0 or _before(at.sum[i], -at.sets[b], at.smallest[b], best_sum, -at.sets[best], at.smallest[best]):
                best, best_sum = b, at.sum[i]
        mention = at.next[mention]
    return best, best_sum


@kernel
def _before(sum_: int, size: int, mention: int, other_sum: int, other_size: int, other_mention: int) -> bool:
    """Return whether ``sum_ / size`` is larger than the other quotient, or equal with the smaller mention.

    Rounding is monotone, so different products of floats have the order of the exact products. Exact products with the
    same float, below 2^53 2^27, differ by at most 2^27, so the overflow of both cancels out.
    """
    left, right = np.float64(sum_) * other_size, np.float64(other_sum) * size
    if left != right:
        return bool(left > right)
    exact = np.int64(np.uint64(sum_) * np.uint64(other_size) - np.uint64(other_sum) * np.uint64(size))
    return bool(exact > 0 or (exact == 0 and mention < other_mention))


@kernel
def _merge_all(at: _Clusters) -> tuple[Ids, Ids, Weights]:
    """Follow each chain of nearest clusters to its end, and merge the last two."""
    n = len(at.sets)
    source, target, height = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.float64)
    chain, place = np.empty(n + 1, np.int64), np.full(n, -1, np.int64)
    n_merges = 0
    for begin in range(n):
        depth = 1
        chain[0] = find(at.sets, begin)
        while depth > 0:
            a = chain[depth - 1]
            b, total = _nearest(at, a, place)
            if b < 0:
                depth -= 1
            elif depth == 1 or b != chain[depth - 2]:
                chain[depth] = b
                depth += 1
            else:
                height[n_merges] = 1 - total / (np.float64(at.sets[a]) * at.sets[b]) / _UNIT
                first, second = min(at.smallest[a], at.smallest[b]), max(at.smallest[a], at.smallest[b])
                source[n_merges], target[n_merges] = first, second
                n_merges += 1
                last = at.last[b] if at.smallest[b] == second else at.last[a]
                at.next[at.last[a] if last == at.last[b] else at.last[b]] = second
                depth = max(1, depth - 2)
                merged = join(at.sets, a, b)
                at.smallest[merged], at.last[merged] = first, last
                if chain[0] == a or chain[0] == b:
                    chain[0] = merged
    return source[:n_merges], target[:n_merges], height[:n_merges]
