"""Rivals: the entities and the other mentions that are wrong for a mention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np

from arbo.engine import Bools, Ids, ranges


class Rivals(NamedTuple):
    """The gold ids of each mention, numbered as in `arbo.data.gold.Gold`, and the domains of mentions and entities."""

    indptr: Ids
    """(mentions + 1,)"""
    id: Ids
    """(gold ids,) distinct gold ids; those of mention ``m`` begin at ``indptr[m]``."""
    domain: Ids
    """(mentions,) the number of each mention's domain."""
    entity_domain: Ids
    """(entities,)"""

    @classmethod
    def of(
        cls, rows: Sequence[Iterable[int]], domains: Sequence[str | None], entity_domains: Sequence[str | None]
    ) -> Self:
        """Make rivals from the gold ids of each mention, and the domains of mentions and entities."""
        distinct = [list(dict.fromkeys(row)) for row in rows]
        number = {name: place for place, name in enumerate(dict.fromkeys([*domains, *entity_domains]))}
        return cls(
            np.cumsum([0, *map(len, distinct)]),
            np.array([id_ for row in distinct for id_ in row], np.int64),
            np.array([number[name] for name in domains], np.int64),
            np.array([number[name] for name in entity_domains], np.int64),
        )

    def is_wrong(self, mention: Ids, entity: Ids) -> Bools:
        """Whether an entity is in the mention's domain and not among its gold ids; (pairs,)."""
        inside: Bools = self.domain[mention] == self.entity_domain[entity]
        return inside & ~self._holds(mention, entity)

    def are_apart(self, a: Ids, b: Ids) -> Bools:
        """Whether two different mentions of one domain have no gold id in common; (pairs,)."""
        count = np.diff(self.indptr)[b]
        place, pair = ranges(self.indptr[b], count), np.repeat(np.arange(len(b)), count)
        shared = self._holds(a[pair], self.id[place])
        n_shared = np.bincount(pair[shared], minlength=len(b))
        apart: Bools = (n_shared == 0) & (a != b) & (self.domain[a] == self.domain[b])
        return apart

    def _holds(self, mention: Ids, id_: Ids) -> Bools:
        """Whether an id is among a mention's gold ids; (pairs,)."""
        width = np.int64(1 + max(self.id.max(initial=0), id_.max(initial=0)))
        own = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr)) * width + self.id
        return np.isin(mention * width + id_, own)
