"""The trees that hold the clusters of a run together: of parents, or of the lightest edges between NIL mentions."""

from typing import NamedTuple, Self

import numpy as np
import pyarrow.compute as pc

from arbo.engine import Edges, bridges
from arbo.explore.cuts import Cuts, nil_edges, rooted
from arbo.results.run import Bools, Floats, Ints, Run

_BRIDGES, _WEAKEST = 3, 5


class Tree(NamedTuple):
    """Mentions as a tree, or as several; arrays have a value for each mention."""

    parent: Ints
    """Place of the parent; -2 under an entity, -1 without a parent."""
    step: Floats
    """Dissimilarity of the edge from the parent; NaN without one, or if people decided on it."""
    joins: Ints
    """The smaller of the numbers of mentions on both sides of the edge from a parent that is a mention; else 0."""

    @classmethod
    def of(cls, run: Run, cuts: Cuts | str) -> Self:
        """Return the trees of all clusters of a run; discovered entities have edges if the run keeps its graph."""
        links = run.link_table
        nil = links["entity_id"].is_null().to_numpy()
        parent = np.where((run.parent_rows < 0) & ~nil, -2, run.parent_rows)
        step = pc.fill_null(links["step"], float("nan")).to_numpy().astype(np.float64)
        if not isinstance(cuts, str):
            child, above, weight = rooted(nil_edges(cuts), len(parent))
            parent[child], step[child] = above, weight
        step[~np.isfinite(step)] = np.nan
        below = np.flatnonzero(parent >= 0)
        edges = Edges(parent[below].astype(np.int32), below.astype(np.int32), np.nan_to_num(step[below], nan=-1.0))
        ranked, joins = bridges(edges, n_nodes=len(parent)), np.zeros(len(parent), np.int64)
        joins[ranked.edges.target] = ranked.parts.min(axis=1)
        return cls(parent, step, joins)

    def part(self, rows: Ints) -> Self:
        """Return the tree of some mentions, in ascending order, whose parents are among them."""
        parent = self.parent[rows]
        place = np.where(parent >= 0, np.searchsorted(rows, parent), parent)
        return type(self)(place, self.step[rows], self.joins[rows])

    def order(self, limit: int) -> Ints:
        """Return the first ``limit`` places, each followed by what hangs on it, light edges first."""
        above = np.maximum(self.parent, -1)
        key = np.lexsort((np.arange(len(above)), np.nan_to_num(self.step, nan=-np.inf), above))
        start = np.searchsorted(above[key], np.arange(-1, len(above) + 1))
        places: list[int] = []
        left = key[start[0] : start[1]][::-1].tolist()
        while left and len(places) < limit:
            places.append(at := left.pop())
            left += key[start[at + 1] : start[at + 2]][::-1].tolist()
        return np.array(places, np.int64)

    def below(self, at: int) -> int:
        """Return the number of mentions that hang on the one at a place."""
        on: Bools = np.arange(len(self.parent)) == at
        above = self.parent.copy()
        for _ in range(len(above).bit_length()):  # twice as far each time
            on |= np.where(above >= 0, on[above], False)
            above = np.where(above >= 0, above[above], -1)
        return int(on.sum()) - 1

    def weakest(self) -> Ints:
        """Return the places with the heaviest edges to other mentions, at most five, heaviest first."""
        heavy = np.flatnonzero((self.parent >= 0) & (self.step > 0))
        return heavy[np.argsort(-self.step[heavy], kind="stable")][:_WEAKEST]

    def bridges(self) -> Ints:
        """Return the places below the edges that join the largest parts, at most three; see `clustering.bridges`.

        Both parts have two mentions at least.
        """
        large = np.flatnonzero((self.joins > 1) & np.isfinite(self.step))
        return large[np.lexsort((-self.step[large], -self.joins[large]))][:_BRIDGES]
