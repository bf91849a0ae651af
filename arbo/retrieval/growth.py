"""Searches that begin with the lists of an earlier search, of which some mentions are gone and others are new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arbo.engine import Embeddings, Ids, Metric, Neighbors, Progress, SearchMethod, Vectors, updated
from arbo.retrieval.domains import Divided, Part, nearest_within
from arbo.retrieval.gpu import best_scanner


@dataclass(frozen=True, eq=False, slots=True)
class Earlier:
    """The lists of an earlier search, and the mentions that they belong to."""

    mentions: Neighbors
    """(earlier mentions, k) rows of earlier mentions."""
    entities: Neighbors
    """(earlier mentions, candidates) rows of the knowledge base."""
    row: Ids
    """(mentions,) the row of each mention in these lists, or -1 for a new mention; rows ascend."""

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
        found = Neighbors(np.full((queries.n, k), -1, np.int32), np.full((queries.n, k), np.inf, np.float32))
        if isinstance(things, Divided):
            old, new = np.flatnonzero(self.row >= 0), np.flatnonzero(self.row < 0)
            found.ids[old], found.dissimilarity[old] = self.entities.of_width(k).of(self.row[old])
            own = [part._replace(queries=_places(new, part.queries)) for part in parts]
            found.ids[new], found.dissimilarity[new] = nearest_within(
                [part for part in own if len(part.queries)],
                queries.taken(new),
                things,
                k,
                metric=metric,
                search=search,
                progress=progress,
            )
            return found
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


def _places(new: Ids, rows: Ids) -> Ids:
    """Return the places in ``new`` of those rows that are in it; both ascend."""
    return np.flatnonzero(np.isin(new, rows)).astype(np.int32)
