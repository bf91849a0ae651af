"""The best one-to-one alignment of two sets of clusters (a maximum weight matching)."""

from typing import NamedTuple

import numpy as np

from .arrays import FloatArray, IntArray


class _Edges(NamedTuple):
    """Overlapping pairs of clusters: their indices in the input, and their weights."""

    number: IntArray
    row: IntArray
    column: IntArray
    weight: FloatArray

    def at(self, where: IntArray) -> "_Edges":
        return _Edges(self.number[where], self.row[where], self.column[where], self.weight[where])


def best_alignment(row: IntArray, column: IntArray, weight: FloatArray | IntArray) -> IntArray:
    """Return the indices, ascending, of edges with the largest total weight, no two of which share a row or a column.

    An edge is a pair of overlapping clusters: its row, its column and its positive weight. Each argument has the shape
    (edges,). If several alignments are best, any of them may be returned. The result is exact up to rounding, in
    O(edges) memory. Rounds of two rules, O(edges) each, settle nearly all of a natural clustering:

    - An edge is chosen if it weighs at least as much as the best rival edges at its two ends together.
    - The edge of a cluster that overlaps only one other cluster waits, and is chosen if no better edge takes the other
      cluster. So the rivals of a waiting edge count only with their weight beyond its own.

    An assignment algorithm settles the remaining edges, in rounds of O(edges log edges) each. If they make too little
    progress, as between unrelated clusterings, rows are assigned one by one, in O(rows x edges) at worst.

    >>> best_alignment(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([3.0, 2.0, 2.0]))
    array([1, 2])
    """
    edges = _Edges(np.arange(len(weight)), row, column, weight.astype(np.float64))
    row_is_taken, column_is_taken = (np.zeros(int(end.max(initial=-1)) + 1, np.bool_) for end in (row, column))
    chosen, waiting = [edges.number[:0]], []

    def choose(best: _Edges) -> None:
        chosen.append(best.number)
        row_is_taken[best.row] = column_is_taken[best.column] = True

    def still_open(some: _Edges) -> _Edges:
        return some.at(np.flatnonzero(~(row_is_taken[some.row] | column_is_taken[some.column])))

    while n_open := len(edges.number):
        rivals = _best_rival(edges.row, edges.weight) + _best_rival(edges.column, edges.weight)
        choose(_apart(edges, np.flatnonzero(edges.weight >= rivals)))
        leaves, edges = _without_leaves(still_open(edges))
        waiting.append(leaves)
        if n_open - len(edges.number) <= n_open // 100:  # a ring may yield one edge per round
            choose(edges.at(_assign(edges)))
            break
    for leaves in reversed(waiting):
        leaves = still_open(leaves)
        choose(_apart(leaves, np.arange(len(leaves.number))))
    return np.sort(np.concatenate(chosen))


def _best_rival(end: IntArray, weight: FloatArray) -> FloatArray:
    """Return the weight of the heaviest other edge with the same end, or 0, for each edge."""
    rival = _heaviest(end, weight)[end]
    champions = np.flatnonzero(weight == rival)
    champions = champions[_one_per_end(end[champions])]
    others = weight.copy()
    others[champions] = 0
    rival[champions] = _heaviest(end, others)[end[champions]]
    return rival


def _without_leaves(edges: _Edges) -> tuple[_Edges, _Edges]:
    """Return the best edge of each cluster to a cluster with no other edge, and the gain of other edges beyond it."""
    row_is_leaf = np.bincount(edges.row)[edges.row] == 1
    column_is_leaf = np.bincount(edges.column)[edges.column] == 1
    column_has = _heaviest(edges.column, np.where(row_is_leaf, edges.weight, 0))[edges.column]
    row_has = _heaviest(edges.row, np.where(column_is_leaf, edges.weight, 0))[edges.row]
    is_best = row_is_leaf & (edges.weight == column_has) | column_is_leaf & (edges.weight == row_has)
    gain = edges.weight - column_has - row_has
    return edges.at(np.flatnonzero(is_best)), edges._replace(weight=gain).at(np.flatnonzero(gain > 0))


def _heaviest(end: IntArray, weight: FloatArray) -> FloatArray:
    heaviest = np.zeros(int(end.max(initial=-1)) + 1)
    np.maximum.at(heaviest, end, weight)
    return heaviest


def _apart(edges: _Edges, places: IntArray) -> _Edges:
    """Keep one of the edges that share a row, and then one of those that share a column."""
    places = places[_one_per_end(edges.row[places])]
    return edges.at(places[_one_per_end(edges.column[places])])


def _one_per_end(end: IntArray) -> IntArray:
    position = np.arange(len(end))
    last = np.zeros(int(end.max(initial=-1)) + 1, np.int64)
    last[end] = position
    return np.flatnonzero(last[end] == position)


def _assign(edges: _Edges) -> IntArray:
    rows, row = np.unique(edges.row, return_inverse=True)
    columns, column = np.unique(edges.column, return_inverse=True)
    if len(rows) > len(columns):
        return _assign(edges._replace(row=edges.column, column=edges.row))
    # A row takes at least one step per cluster, a round about 256 steps per edge; ten rounds are rarely enough.
    patience = len(rows) * (len(rows) + len(columns)) // (256 * len(row))
    partner = _partners_in_rounds(row, column, edges.weight, patience) if patience >= 10 else None
    if partner is None:
        partner = _partners_one_by_one(row, column, edges.weight)
    return np.flatnonzero(partner[row] == column)


def _partners_in_rounds(row: IntArray, column: IntArray, weight: FloatArray, patience: int) -> IntArray | None:
    """Return the column of each row in a best alignment, if it has one; None if that takes too long.

    The successor of each cluster, row or column, is a cluster that it overlaps, or itself: the heaviest permutation
    consists of two best alignments, one in each direction. A shortest augmenting path may end at any cluster that is
    not yet a successor, so one run of Dijkstra's algorithm, with a tree from each cluster without one, finds many.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    n_rows = int(row.max()) + 1
    n = n_rows + int(column.max()) + 1
    clusters = np.arange(n)
    tail = np.concatenate([row, n_rows + column, clusters])
    head = np.concatenate([n_rows + column, row, clusters])
    worth = np.concatenate([weight, weight, np.zeros(n)])
    order = np.argsort(tail, kind="stable")
    tail, head, worth = tail[order], head[order], worth[order]
    start = np.searchsorted(tail, np.arange(2 * n + 1)).astype(np.int32)

    price = _heaviest(tail, worth) / 2
    slack = price[tail] + price[head] - worth
    step = 2.0**-50 * price.max()  # separates equal paths; without it, one tree would take all equally near clusters
    successor = np.full(n, -1)
    # Where a path continues from a head: at the cluster whose successor it is, or at an end, numbered n and above.
    beyond = np.arange(n, 2 * n, dtype=np.int32)
    n_rounds = 0
    while len(free := np.flatnonzero(successor < 0)):
        if n_rounds >= patience and len(free) > patience:  # a round may find as little as one successor
            return None
        n_rounds += 1
        node = beyond[head]
        graph = csr_array((slack + step, node, start), shape=(2 * n, 2 * n))
        distance, before, root = dijkstra(graph, indices=free, min_only=True, return_predecessors=True)
        distance = np.minimum(distance, distance[np.isfinite(distance)].max())
        slack = np.maximum(slack + distance[tail] - distance[node], 0)
        end = n + np.flatnonzero(root[n:] >= 0)
        end = end[_one_per_end(root[end])]
        passed = end - n
        while len(end):  # back along all paths at once
            end = before[end]
            beyond[passed] = end
            passed, successor[end] = successor[end], passed
            end, passed = end[passed >= 0], passed[passed >= 0]
    return successor[:n_rows] - n_rows


def _partners_one_by_one(row: IntArray, column: IntArray, weight: FloatArray) -> IntArray:
    """Return the column of each row in a best alignment, or an index beyond the columns."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    n_rows, n_columns = int(row.max()) + 1, int(column.max()) + 1
    # A private column for each row makes a full matching possible. Costs stay above 0: zeros would vanish.
    alone = np.arange(n_rows)
    worst = float(weight.max()) + 1.0
    cost = np.concatenate([worst - weight, np.full(n_rows, worst)])
    where = np.concatenate([[row, column], [alone, n_columns + alone]], axis=1, dtype=np.int32)  # as SciPy 1.12 needs
    graph = csr_array((cost, tuple(where)), shape=(n_rows, n_columns + n_rows))
    return np.asarray(min_weight_full_bipartite_matching(graph)[1])
