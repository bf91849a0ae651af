"""The tree that holds a cluster together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arbo.engine import Edges, bridges
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
        """Return the tree of a cluster; see `arbo.explore.cuts.parents_of`."""
        rows = lookups.members(place)
        parent, step = lookups.parent[rows], lookups.step[rows]
        own = np.where(parent >= 0, np.searchsorted(rows, parent), -1)
        return cls(rows, own, np.where(np.isfinite(step), step, np.nan))

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
