"""The names of entities as sets of synonyms, and sampling of names of other entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.data.codes import codes_of
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Floats, Ids, ranges


@dataclass(frozen=True, eq=False, slots=True)
class Synonyms:
    """The set of names of each entity; names of an entity that differ only in case or white space count as one."""

    place: Ids  # (names,) the index of each name in `KnowledgeBase.names`, ascending; a name is a row of this array
    spelling: Ids  # (names,) a code for the spelling, the same for names that differ only in case or white space
    owner: Ids  # (names,) the entity of each name, ascending
    start: Ids  # (entities + 1,) the names of entity ``e`` are those from ``start[e]`` to ``start[e + 1]``

    @classmethod
    def of(cls, kb: KnowledgeBase) -> Self:
        """Take the names of all entities."""
        names, rows = kb.names()
        spelling = codes_of(" ".join(name.casefold().split()) for name in names)
        owner = np.array(rows, np.int64)
        place = np.sort(np.unique(owner * (len(names) + 1) + spelling, return_index=True)[1])
        start = np.searchsorted(owner[place], np.arange(len(kb) + 1))
        return cls(place, spelling[place], owner[place], start)

    @property
    def size(self) -> Ids:
        """(entities,) the number of names of each."""
        return np.diff(self.start)

    def of_entities(self, entities: Ids) -> Ids:
        """List the names of some entities, as rows of these arrays."""
        return ranges(self.start[entities], self.size[entities])

    def spellings(self, entities: Ids) -> Ids:
        """List the codes of the spellings of some entities' names."""
        return self.spelling[self.of_entities(entities)]

    def draw(self, entity: Ids, n: int, rng: np.random.Generator) -> Ids:
        """Sample distinct names of each entity; (entities, n), padded with -1."""
        drawn = np.full((len(entity), n), -1)
        for row, (begin, size) in enumerate(zip(self.start[entity], self.size[entity], strict=True)):
            own = begin + rng.permutation(size)[:n]
            drawn[row, : len(own)] = own
        return drawn


@dataclass(frozen=True, eq=False, slots=True)
class Others:
    """Negatives, sampled in two steps (an entity, then one of its names), so that all entities count equally."""

    name: Ids  # (spellings,) one name for each spelling, so that equal names are sampled once
    spelling: Ids  # (spellings,)
    weight: Floats  # (spellings,) the probability of each spelling, up to a constant factor

    @classmethod
    def of(cls, synonyms: Synonyms, entities: Ids) -> Self:
        """Take the names of some distinct entities."""
        size = synonyms.size[entities]
        names = synonyms.of_entities(entities)
        spelling, first, row = np.unique(synonyms.spelling[names], return_index=True, return_inverse=True)
        return cls(names[first], spelling, np.bincount(row, np.repeat(1 / size, size)).astype(np.float32))

    def draw(self, avoided: Sequence[Ids], n: int, rng: np.random.Generator) -> Ids:
        """Sample distinct names for each anchor, without the spellings that it avoids; (anchors, n), padded with -1.

        One sample serves all anchors, so that a batch encodes little more than ``n`` names: names in the order of
        exponential times with their weights as rates, which is a sample without replacement.
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
