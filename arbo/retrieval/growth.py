"""Searches that begin with the lists of an earlier search; since then, mentions and entities went and came."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from arbo.engine import FEW, Ids, Neighbors, Searchable, Vectors, merged, renumbered, updated
from arbo.retrieval.domains import Divided, How, Part, SearchAll, Wanted, nearest_within


@dataclass(frozen=True, eq=False, slots=True)
class Earlier:
    """The lists of an earlier search, and the mentions that they belong to."""

    mentions: Neighbors
    """(earlier mentions, k) rows of earlier mentions."""
    entities: Neighbors
    """(earlier mentions, candidates) rows of the earlier knowledge base."""
    row: Ids
    """(mentions,) the row of each mention in these lists, or -1 for a new mention; rows ascend."""
    encoded: Callable[[Ids], Vectors]
    """Returns the vectors of these mentions."""
    near: Callable[[Ids, float], Ids] | None
    """Returns these mentions and all that may be within a dissimilarity of one, ascending, without vectors of all; None
    if vectors are known."""
    number: Ids
    """(earlier entities,) the row of each entity in the knowledge base of now, ascending, or -1 for an entity that is
    gone or has changed; without a knowledge base, nothing."""
    search_all: SearchAll
    """Searches what is not known, see `arbo.retrieval.domains.search_all`."""

    def nearest_within(self, parts: Sequence[Part], things: Divided | None, k: int, **how: Unpack[How]) -> Neighbors:
        """Return the lists of `arbo.retrieval.domains.nearest_within`, but search only what may have changed.

        Without ``things``, neighbours are other mentions.
        """
        if things is not None:
            return self._entities_within(parts, things, k, how)
        found = Neighbors.empty(len(self.row), k)
        lists = self.mentions.of_width(k)
        queries = self._compared(lists.ids, how.get("within"))
        options = _options(how, within=how.get("within"))
        for part in parts:
            ids, found.dissimilarity[part.queries] = updated(
                lists, queries.taken(part.queries), self.row[part.queries], find=self._find, **options
            )
            found.ids[part.queries] = np.where(ids >= 0, part.queries[ids], -1)
        return found

    def _find(
        self, queries: Vectors, things: Searchable, k: int, *, self_ids: Ids | None = None, **how: Any
    ) -> Neighbors:
        """Search as `clustering.nearest` does."""
        (found,) = self.search_all([Wanted(queries, things, self_ids)], k, search="exact", **how)
        return found

    def _compared(self, ids: Ids, within: float | None) -> Vectors:
        """Return vectors of the mentions for `updated`: those that cannot be near one that is sought may have none."""
        row = self.row
        is_gone = np.ones(len(ids) + 1, np.bool_)
        is_gone[-1] = is_gone[row[row >= 0]] = False
        sought = row < 0
        if is_gone.any():
            sought |= (ids[row, -1:] >= 0).any(axis=1) & is_gone[ids[row]].any(axis=1)
        rows = np.arange(len(row), dtype=np.int32)
        if self.near is not None and within is not None and np.count_nonzero(sought) <= FEW:
            rows = self.near(np.flatnonzero(sought), within).astype(np.int32)
        some = self.encoded(rows)
        return Vectors(some.matrix, some.row, rows[some.owner], len(row))

    def _entities_within(self, parts: Sequence[Part], things: Divided, k: int, how: How) -> Neighbors:
        """Search all entities for new mentions and for full lists that lost one; add the new entities to the others."""
        old = np.flatnonzero(self.row >= 0)
        before = self.entities.of(self.row[old])
        own = renumbered(before, self.number).of_width(k)
        is_torn = (before.ids[:, -1:] >= 0).any(axis=1) & (own.ids[:, -1:] < 0).any(axis=1)
        found = Neighbors.empty(len(self.row), k)
        found.ids[old], found.dissimilarity[old] = own
        some = np.sort(np.concatenate([np.flatnonzero(self.row < 0), old[is_torn]]))
        sought = [part._replace(queries=np.flatnonzero(np.isin(some, part.queries)).astype(np.int32)) for part in parts]
        sought = [part for part in sought if len(part.queries)]
        found.ids[some], found.dissimilarity[some] = nearest_within(
            sought, self.encoded(some), things, k, self.search_all, search="exact", **_options(how, within=None)
        )
        is_new = np.ones(things.whole.n, np.bool_)
        is_new[self.number[self.number >= 0]] = False
        is_left = np.isin(np.arange(len(self.row)), some, invert=True)
        for part in parts if is_new.any() else []:
            rows, new = part.queries[is_left[part.queries]], part.things[is_new[part.things]]
            if len(rows) and len(new):
                options = _options(how, within=found.dissimilarity[rows, -1])
                entering = renumbered(self._find(self.encoded(rows), things.whole.taken(new), k, **options), new)
                found.ids[rows], found.dissimilarity[rows] = merged([found.of(rows), entering], k)
        return found


def _options(how: How, **others: Any) -> dict[str, Any]:
    return {"metric": how["metric"], "progress": how["progress"], **others}
