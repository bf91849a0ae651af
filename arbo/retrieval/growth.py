"""Searches that begin with the lists of an earlier search; since then, mentions and entities went and came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arbo.engine import (
    Embeddings,
    Ids,
    Metric,
    Neighbors,
    Progress,
    SearchMethod,
    Vectors,
    merged,
    nearest,
    renumbered,
    updated,
)
from arbo.retrieval.domains import Divided, Part, nearest_within
from arbo.retrieval.gpu import best_scanner


@dataclass(frozen=True, eq=False, slots=True)
class Earlier:
    """The lists of an earlier search, and the mentions that they belong to."""

    mentions: Neighbors
    """(earlier mentions, k) rows of earlier mentions."""
    entities: Neighbors
    """(earlier mentions, candidates) rows of the earlier knowledge base."""
    row: Ids
    """(mentions,) the row of each mention in these lists, or -1 for a new mention; rows ascend."""
    number: Ids
    """(earlier entities,) the row of each entity in the knowledge base of now, ascending, or -1 for an entity that is
    gone or has changed; without a knowledge base, nothing."""

    def nearest_within(
        self,
        parts: Sequence[Part],
        queries: Embeddings,
        things: Embeddings | Divided,
        k: int,
        *,
        metric: Metric,
        search: SearchMethod,
        progress: Progress,
        within: float | None = None,
    ) -> Neighbors:
        """Return the lists of `arbo.retrieval.domains.nearest_within`, but search only what may have changed."""
        assert isinstance(queries, Vectors)
        if isinstance(things, Divided):
            return self._entities_within(parts, queries, things, k, metric, progress)
        found = Neighbors(np.full((queries.n, k), -1, np.int32), np.full((queries.n, k), np.inf, np.float32))
        lists = self.mentions.of_width(k)
        for part in parts:
            ids, found.dissimilarity[part.queries] = updated(
                lists,
                queries.taken(part.queries),
                self.row[part.queries],
                within=within,
                metric=metric,
                scanner=best_scanner(),
                progress=progress,
            )
            found.ids[part.queries] = np.where(ids >= 0, part.queries[ids], -1)
        return found

    def _entities_within(
        self, parts: Sequence[Part], queries: Vectors, things: Divided, k: int, metric: Metric, progress: Progress
    ) -> Neighbors:
        """Search all entities for new mentions and for full lists that lost one; add the new entities to the others."""
        old = np.flatnonzero(self.row >= 0)
        before = self.entities.of(self.row[old])
        own = renumbered(before, self.number).of_width(k)
        is_torn = (before.ids[:, -1:] >= 0).any(axis=1) & (own.ids[:, -1:] < 0).any(axis=1)
        found = Neighbors(np.full((queries.n, k), -1, np.int32), np.full((queries.n, k), np.inf, np.float32))
        found.ids[old], found.dissimilarity[old] = own
        some = np.sort(np.concatenate([np.flatnonzero(self.row < 0), old[is_torn]]))
        sought = [part._replace(queries=_places(some, part.queries)) for part in parts]
        found.ids[some], found.dissimilarity[some] = nearest_within(
            [part for part in sought if len(part.queries)],
            queries.taken(some),
            things,
            k,
            metric=metric,
            search="exact",
            progress=progress,
        )
        is_new = np.ones(things.whole.n, np.bool_)
        is_new[self.number[self.number >= 0]] = False
        is_left = np.isin(np.arange(queries.n), some, invert=True)
        for part in parts if is_new.any() else []:
            rows, new = part.queries[is_left[part.queries]], part.things[is_new[part.things]]
            if len(rows) and len(new):
                entering = nearest(
                    queries.taken(rows),
                    things.whole.taken(new),
                    k,
                    metric=metric,
                    scanner=best_scanner(),
                    within=found.dissimilarity[rows, -1],
                    progress=progress,
                )
                entering = renumbered(entering, new)
                found.ids[rows], found.dissimilarity[rows] = merged([found.of(rows), entering], k)
        return found


def _places(new: Ids, rows: Ids) -> Ids:
    """Return the places in ``new`` of those rows that are in it; both ascend."""
    return np.flatnonzero(np.isin(new, rows)).astype(np.int32)
