"""Searches that begin with the lists of an earlier search; since then, mentions and entities went and came."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arbo.engine import FEW, SAME, Ids, Metric, Neighbors, Progress, Searchable, Vectors, merged, renumbered, updated
from arbo.retrieval.groups import Group, GroupedEntities, Search, SearchAll, nearest_within


@dataclass(frozen=True, eq=False, slots=True)
class EarlierSearch:
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
    """Searches what is not known, see `arbo.retrieval.groups.search_all`."""

    def nearest_within(
        self,
        groups: Sequence[Group],
        things: GroupedEntities | None,
        k: int,
        *,
        metric: Metric,
        progress: Progress,
        within: float | None = None,
    ) -> Neighbors:
        """Return the lists of `arbo.retrieval.groups.nearest_within`, but search only what may have changed.

        Without ``things``, neighbours are other mentions.
        """
        how: Any = {"metric": metric, "progress": progress}
        if things is not None:
            return self._entities_within(groups, things, k, how)
        lists = Neighbors.empty(len(self.row), k)
        known = self.mentions.of_width(k)
        row = self._still_compared(groups, known)
        queries = self._compared(row, known.ids, within)
        for group in groups:
            rows = group.queries
            ids, lists.dissimilarity[rows] = updated(
                known, queries.taken(rows), row[rows], find=self._find, within=within, **how
            )
            lists.ids[rows] = np.where(ids >= 0, rows[ids], -1)
        return lists

    def _find(
        self, queries: Vectors, things: Searchable, k: int, *, self_ids: Ids | None = None, **how: Any
    ) -> Neighbors:
        """Search as `clustering.knn.nearest` does."""
        (lists,) = self.search_all([Search(queries, things, self_ids)], k, **how)
        return lists

    def _still_compared(self, groups: Sequence[Group], known: Neighbors) -> Ids:
        """Return `row`, but -1 for a mention that is compared now and was one with another before, or the reverse."""
        is_compared, was = np.zeros(len(self.row), np.bool_), np.append(known.dissimilarity[:, :1] != SAME, True)
        for group in groups:
            is_compared[group.queries] = True
        return np.where(is_compared == was[self.row], self.row, -1) if known.ids.shape[1] else self.row

    def _compared(self, row: Ids, ids: Ids, within: float | None) -> Vectors:
        """Return vectors of the mentions for `updated`: those that cannot be near one that is sought may have none."""
        is_gone = np.ones(len(ids) + 1, np.bool_)
        is_gone[-1] = is_gone[row[row >= 0]] = False
        is_sought = row < 0
        if is_gone.any():
            is_sought |= (ids[row, -1:] >= 0).any(axis=1) & is_gone[ids[row]].any(axis=1)
        rows = np.arange(len(row), dtype=np.int32)
        if self.near is not None and within is not None and np.count_nonzero(is_sought) <= FEW:
            rows = self.near(np.flatnonzero(is_sought), within).astype(np.int32)
        some = self.encoded(rows)
        return Vectors(some.matrix, some.row, rows[some.owner], len(row))

    def _entities_within(
        self, groups: Sequence[Group], things: GroupedEntities, k: int, how: Mapping[str, Any]
    ) -> Neighbors:
        """Search all entities for new mentions and for full lists that lost one; add the new entities to the others."""
        old = np.flatnonzero(self.row >= 0)
        before = self.entities.of(self.row[old])
        known = renumbered(before, self.number).of_width(k)
        is_torn = (before.ids[:, -1:] >= 0).any(axis=1) & (known.ids[:, -1:] < 0).any(axis=1)
        lists = Neighbors.empty(len(self.row), k)
        lists.ids[old], lists.dissimilarity[old] = known
        some = np.sort(np.concatenate([np.flatnonzero(self.row < 0), old[is_torn]]))
        searched = [(group, np.flatnonzero(np.isin(some, group.queries)).astype(np.int32)) for group in groups]
        lists.ids[some], lists.dissimilarity[some] = nearest_within(
            [group._replace(queries=queries) for group, queries in searched if len(queries)],
            self.encoded(some),
            things,
            k,
            self.search_all,
            **how,
        )
        is_new = np.ones(things.entities.n, np.bool_)
        is_new[self.number[self.number >= 0]] = False
        is_left = np.isin(np.arange(len(self.row)), some, invert=True)
        for group in groups if is_new.any() else []:
            rows, new = group.queries[is_left[group.queries]], group.things[is_new[group.things]]
            if len(rows) and len(new):
                within = lists.dissimilarity[rows, -1]
                entering = self._find(self.encoded(rows), things.whole.taken(new), k, within=within, **how)
                lists.ids[rows], lists.dissimilarity[rows] = merged([lists.of(rows), renumbered(entering, new)], k)
        return lists
