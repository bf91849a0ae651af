"""The best one-to-one alignment of the clusters of two sides (a maximum weight matching)."""

import numpy as np
import numpy.typing as npt

from eval.labels import IntArray

FloatArray = npt.NDArray[np.float64]


def best_alignment(row: IntArray, column: IntArray, weight: FloatArray | IntArray) -> IntArray:
    """Choose edges, no two of which share a row or a column, of the largest total weight.

    Parameters
    ----------
    row, column, weight
        Shape (edges,): the overlapping pairs of clusters and how much each is worth, above 0.

    Returns
    -------
    Indices of the chosen edges, ascending. Of several best alignments any one is returned.

    Notes
    -----
    Exact to rounding. An edge that weighs at least as much as the best rivals at both its ends together
    belongs to some best alignment; rounds of that rule, O(edges) each, settle nearly all of a natural
    clustering. The rest goes to a sparse assignment, where every row may also stay alone at no gain:
    O(rows x edges) at worst, in O(edges) memory.

    Examples
    --------
    >>> best_alignment(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([3.0, 2.0, 2.0]))
    array([1, 2])

    """
    worth = weight.astype(np.float64)
    left = np.arange(len(weight))
    chosen = [left[:0]]
    while len(left):
        won = left[_dominant(row[left], column[left], worth[left])]
        chosen.append(won)
        open_ = left[~(np.isin(row[left], row[won]) | np.isin(column[left], column[won]))]
        settled, left = len(left) - len(open_), open_
        if settled <= len(left) // 100:  # a long chain would yield one edge a round
            chosen.append(left[_assign(row[left], column[left], worth[left])])
            break
    return np.sort(np.concatenate(chosen))


def _dominant(row: IntArray, column: IntArray, weight: FloatArray) -> IntArray:
    """Edges no lighter than both best rivals together; one of those that share an end."""
    edges = np.flatnonzero(weight >= _best_rival(row, weight) + _best_rival(column, weight))
    edges = edges[np.unique(row[edges], return_index=True)[1]]
    return edges[np.unique(column[edges], return_index=True)[1]]


def _best_rival(end: IntArray, weight: FloatArray) -> FloatArray:
    """For each edge, the heaviest other edge with the same end, or 0."""
    n_ends = int(end.max()) + 1
    best = np.zeros(n_ends)
    np.maximum.at(best, end, weight)
    heaviest = np.flatnonzero(weight == best[end])
    champion = np.full(n_ends, -1)
    champion[end[heaviest]] = heaviest
    other = champion[end] != np.arange(len(end))
    second = np.zeros(n_ends)
    np.maximum.at(second, end[other], weight[other])
    return np.where(other, best[end], second[end])


def _assign(row: IntArray, column: IntArray, weight: FloatArray) -> IntArray:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, r = np.unique(row, return_inverse=True)
    columns, c = np.unique(column, return_inverse=True)
    # A private column for each row makes a full matching possible. Costs stay above 0: zeros would vanish.
    alone = np.arange(len(rows))
    worst = float(weight.max(initial=0.0)) + 1.0
    cost = np.concatenate([worst - weight, np.full(len(rows), worst)])
    where = np.concatenate([r, alone]), np.concatenate([c, len(columns) + alone])
    graph = csr_array((cost, where), shape=(len(rows), len(columns) + len(rows)))
    matched_row, matched_column = min_weight_full_bipartite_matching(graph)
    partner = np.full(len(rows), -1)
    partner[matched_row] = matched_column
    return np.flatnonzero(partner[r] == c)
