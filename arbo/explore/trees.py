"""The tree that holds a cluster together: by parents, or of a discovered entity by the lightest edges of its lists."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from arbo.engine import Edges, bridges
from arbo.explore.cuts import rooted
from arbo.explore.lookups import Lookups
from arbo.results.run import Bools, Floats, Ints

_BRIDGES, _WEAKEST = 3, 5


class Tree(NamedTuple):
    """The mentions of a cluster as a tree, or as several; arrays have a value for each."""

    rows: Ints
    """Rows of the mentions in the run, ascending."""
    parent: Ints
    """Place of the parent among these mentions; -1 under an entity, or without a parent."""
    step: Floats
    """Dissimilarity of the edge from the parent; NaN without one, or if people decided on it."""

    @classmethod
    def of(cls, lookups: Lookups, place: int) -> Tree:
        """Return the tree of a cluster; mentions of a discovered entity hang nowhere if the run keeps no lists."""
        rows = lookups.members(place)
        if lookups.cluster_nil[place]:
            return _of_lists(lookups, rows)
        links, ids = lookups.run.link_table.take(rows), lookups.run.mention_table["mention_id"].take(rows)
        parent = pc.index_in(links["parent"], ids.combine_chunks()).fill_null(-1).to_numpy().astype(np.int64)
        is_mention = links["parent_is_mention"].to_numpy()
        step = links["step"].fill_null(float("nan")).to_numpy().astype(np.float64)
        return cls(rows, np.where(is_mention, parent, -1), step)

    def order(self, limit: int) -> Ints:
        """Return the first ``limit`` places, each followed by what hangs on it, light edges first."""
        key = np.lexsort((self.rows, np.nan_to_num(self.step, nan=-np.inf), self.parent))
        start = np.searchsorted(self.parent[key], np.arange(-1, len(self.rows) + 1))
        found: list[int] = []
        left = key[start[0] : start[1]][::-1].tolist()
        while left and len(found) < limit:
            found.append(at := left.pop())
            left += key[start[at + 1] : start[at + 2]][::-1].tolist()
        return np.array(found, np.int64)

    def below(self, at: int) -> int:
        """Return the number of mentions that hang on the one at a place."""
        on: Bools = np.arange(len(self.rows)) == at
        above = self.parent.copy()
        for _ in range(len(self.rows).bit_length()):  # twice as far each time
            on |= np.where(above >= 0, on[above], False)
            above = np.where(above >= 0, above[above], -1)
        return int(on.sum()) - 1

    def weakest(self) -> Ints:
        """Return the places with the heaviest edges to other mentions, at most five, heaviest first."""
        heavy = np.flatnonzero((self.parent >= 0) & (self.step > 0))
        return heavy[np.argsort(-self.step[heavy], kind="stable")][:_WEAKEST]

    def bridges(self) -> list[tuple[int, int]]:
        """Return the edges that join large parts: the place below each, and how many mentions hang on it.

        See `clustering.bridges`; both parts have two mentions at least.
        """
        below = np.flatnonzero((self.parent >= 0) & np.isfinite(self.step))
        ranked = bridges(Edges(self.parent[below], below, self.step[below]), n_nodes=len(self.rows))
        top = np.flatnonzero(ranked.parts.min(axis=1) > 1)[:_BRIDGES]
        return list(zip(ranked.edges.target[top].tolist(), ranked.sides[top, 1].tolist(), strict=True))


def _of_lists(lookups: Lookups, rows: Ints) -> Tree:
    """Return the lightest spanning tree of mentions over the edges of their lists; ties by row."""
    alone = Tree(rows, np.full(len(rows), -1), np.full(len(rows), np.nan))
    if lookups.lists is None or len(rows) < 2:
        return alone
    order, number, kept = lookups.lists
    near, weight = (own[number[rows]] for own in kept)
    ids = order[near]
    at = np.minimum(np.searchsorted(rows, ids), len(rows) - 1)
    inside: Bools = (near >= 0) & (rows[at] == ids)
    source, target = np.nonzero(inside)[0], at[inside]
    ends, heavy = np.sort([source, target], axis=0), weight[inside].astype(np.float64)
    best = np.lexsort((ends[1], ends[0], heavy))
    ends, heavy = ends[:, best], heavy[best]
    first = np.sort(np.unique(ends, axis=1, return_index=True)[1])
    ends, heavy = ends[:, first].astype(np.int32), heavy[first]  # as SciPy 1.12 needs
    # Ranks instead of weights: no ties, and zero means no edge.
    ranks = coo_array((np.arange(1.0, len(heavy) + 1), (ends[0], ends[1])), (len(rows), len(rows)))
    tree = minimum_spanning_tree(ranks.tocsr()).tocoo()
    child, above, step = rooted(Edges(tree.row, tree.col, heavy[tree.data.astype(np.int64) - 1]), len(rows))
    alone.parent[child], alone.step[child] = above, step
    return alone
