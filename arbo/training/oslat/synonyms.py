"""The names of entities as sets of synonyms, and how names of others are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Floats, Ids, ranges


@dataclass(frozen=True, eq=False, slots=True)
class Synonyms:
    """Sets of names, one an entity; names of one that differ in case or white space alone count as one."""

    place: Ids
    """(names,) where each is among `KnowledgeBase.names`; it is its name from here on. They ascend."""
    spelling: Ids
    """(names,) a number, which names that differ in case or white space alone have in common."""
    owner: Ids
    """(names,) the entity of each; ascending."""
    start: Ids
    """(entities + 1,) the names of entity ``e`` are those from ``start[e]`` to ``start[e + 1]``."""

    @classmethod
    def of(cls, kb: KnowledgeBase) -> Self:
        """Take the names of all entities."""
        names, rows = kb.names()
        numbers: dict[str, int] = {}
        spelling = np.array([numbers.setdefault(_folded(name), len(numbers)) for name in names], np.int64)
        owner = np.array(rows, np.int64)
        place = np.sort(np.unique(owner * (len(numbers) + 1) + spelling, return_index=True)[1])
        start = np.searchsorted(owner[place], np.arange(len(kb) + 1))
        return cls(place, spelling[place], owner[place], start)

    @property
    def size(self) -> Ids:
        """(entities,) how many names each has."""
        return np.diff(self.start)

    def of_entities(self, entities: Ids) -> Ids:
        """List the names of some entities."""
        return ranges(self.start[entities], self.size[entities])

    def spellings(self, entities: Ids) -> Ids:
        """List how some entities are spelt."""
        return self.spelling[self.of_entities(entities)]

    def draw(self, entity: Ids, n: int, rng: np.random.Generator) -> Ids:
        """Draw names of each entity, none twice; (entities, n), -1 where it has fewer."""
        drawn = np.full((len(entity), n), -1)
        for row, (begin, size) in enumerate(zip(self.start[entity], self.size[entity], strict=True)):
            own = begin + rng.permutation(size)[:n]
            drawn[row, : len(own)] = own
        return drawn


@dataclass(frozen=True, eq=False, slots=True)
class Others:
    """Names to be pushed away from, drawn in two steps: an entity, then one of its names, so that all count alike."""

    name: Ids
    """(spellings,) a name that is spelt so: equal ones are drawn once."""
    spelling: Ids
    """(spellings,)"""
    weight: Floats
    """(spellings,) how likely it is to be drawn, up to a factor."""

    @classmethod
    def of(cls, synonyms: Synonyms, entities: Ids) -> Self:
        """Take the names of some entities, none of them twice."""
        size = synonyms.size[entities]
        names = synonyms.of_entities(entities)
        spelling, first, row = np.unique(synonyms.spelling[names], return_index=True, return_inverse=True)
        return cls(names[first], spelling, np.bincount(row, np.repeat(1 / size, size)).astype(np.float32))

    def draw(self, avoided: Sequence[Ids], n: int, rng: np.random.Generator) -> Ids:
        """Draw names for each anchor, spelt in no way that it avoids, none twice; (anchors, n), -1 for none.

        They are drawn once for all anchors, each of which takes the first that it may: a batch then reads little more
        than ``n`` names instead of ``n`` an anchor. To every single anchor they are as if drawn for it alone.

        The time at which each name comes up is exponential with its weight, which is to draw one after the other
        without putting any back.
        """
        time = rng.exponential(size=len(self.name)) / self.weight
        wanted = min(len(time), n + max(map(len, avoided), default=0))
        pool = np.argpartition(time, wanted - 1)[:wanted] if wanted else np.empty(0, np.int64)
        pool = pool[np.argsort(time[pool])]
        drawn = np.full((len(avoided), n), -1)
        for row, spellings in enumerate(avoided):
            own = self.name[pool[~np.isin(self.spelling[pool], spellings)]][:n]
            drawn[row, : len(own)] = own
        return drawn


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())
