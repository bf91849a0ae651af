"""The names of entities as sets of synonyms, sampling of names of other entities, and texts with their entities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.codes import codes_of
from arbo.engine import Bools, Floats, Ids, ranges
from arbo.errors import DataError
from arbo.spans.pieces import Pairs


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


@dataclass(frozen=True, eq=False, slots=True)
class NamesAlone:
    """The names of a knowledge base, or of some of its entities."""

    synonyms: Synonyms
    entities: Ids  # the entities whose names are used; an entity with only one name is used only for negatives

    @property
    def queries(self) -> Ids:
        """The names that have synonyms."""
        has_two: Bools = np.zeros(len(self.synonyms.size), np.bool_)
        has_two[self.entities] = self.synonyms.size[self.entities] > 1
        return np.flatnonzero(has_two[self.synonyms.owner])

    def anchors(self, queries: Ids, n: int, rng: np.random.Generator) -> Ids:
        """Return each name, followed by up to ``n`` of its synonyms; (queries, 1 + n), padded with -1."""
        drawn = self.synonyms.draw(self.synonyms.owner[queries], n + 1, rng)
        is_other = (drawn >= 0) & (drawn != queries[:, None])
        order = np.argsort(~is_other, axis=1, kind="stable")[:, :n]
        others = np.take_along_axis(np.where(is_other, drawn, -1), order, axis=1)
        return np.column_stack([queries, others])

    def avoided(self, queries: Ids) -> list[Ids]:
        """List, for each name, the spellings of all names of its entity."""
        return [self.synonyms.spellings(own[None]) for own in self.synonyms.owner[queries]]


@dataclass(frozen=True, eq=False, slots=True)
class AnnotatedTexts:
    """Texts annotated with their entities, without the positions of mentions, and all names of a knowledge base.

    A text is a document, or a piece of one; its entities are those of its mentions, whose spans are not used.
    """

    texts: tuple[str, ...]
    kb: KnowledgeBase
    synonyms: Synonyms
    text: Ids  # (pairs,) the text of each pair of a text and an entity in it, ascending
    entity: Ids  # (pairs,) the entity of each pair, by its index in the knowledge base
    start: Ids  # (texts + 1,) the pairs of text ``t`` are those from ``start[t]`` to ``start[t + 1]``

    @classmethod
    def of(cls, corpus: Corpus, kb: KnowledgeBase, *, purpose: str = "train on") -> Self:
        """Collect annotated documents; gold ids without an entity in the document's domain are left out.

        Raise DataError ("nothing to ``purpose``") if no document has an entity.
        """
        pairs = Pairs.of(corpus, kb)
        if not len(pairs):
            wrong = f"nothing to {purpose}: no text (of {len(corpus):,}) has an entity of the knowledge base"
            raise DataError(f"{wrong}; check that the ids and the domains match")
        start = np.searchsorted(pairs.text, np.arange(len(corpus) + 1))
        texts = tuple(document.text for document in corpus)
        return cls(texts, kb, Synonyms.of(kb), pairs.text, pairs.entity, start)

    @property
    def entities(self) -> Ids:
        """The entities that are in at least one text."""
        return np.unique(self.entity)

    @property
    def queries(self) -> Ids:
        """The pairs to train on: those of an entity with synonyms."""
        return np.flatnonzero(self.synonyms.size[self.entity] > 1)

    @property
    def n_alone(self) -> int:
        """Number of pairs whose entity has only one name, and which therefore have no positives."""
        return len(self.entity) - len(self.queries)

    def anchors(self, queries: Ids, n: int, rng: np.random.Generator) -> Ids:
        """Sample up to ``n + 1`` names of each pair's entity, in random order; (queries, n + 1), padded with -1."""
        return self.synonyms.draw(self.entity[queries], n + 1, rng)

    def avoided(self, queries: Ids) -> list[Ids]:
        """List, for each pair, the spellings of the names of all entities in its text."""
        return [self.spellings(int(text)) for text in self.text[queries]]

    def spellings(self, text: int) -> Ids:
        """List the spellings of the names of all entities in a text."""
        return self.synonyms.spellings(self.entity[self.start[text] : self.start[text + 1]])
