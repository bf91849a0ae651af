"""What the trainings of OSLAT contrast: names with some of their synonyms, and with names of other entities.

The negatives of a name are never names of a correct entity, or spelt like one. They are sampled in two steps, an entity
and then one of its names, and for all names of a batch together, see `Others`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.codes import codes_of
from arbo.engine import Floats, Ids, ranges
from arbo.errors import DataError
from arbo.spans.model_finder import Pieces
from arbo.training.config import ContrastiveConfig

# Seeds of what a step samples; 0 is the order, see `arbo.training.loop`.
_POSITIVES, _NEGATIVES = 1, 2


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
        names, owner = kb.names()
        spelling = codes_of(" ".join(name.casefold().split()) for name in names)
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

    def draw(self, entity: Ids, n: int, rng: np.random.Generator, first: Ids | None = None) -> Ids:
        """Sample ``n`` distinct names of each entity, beginning with the name ``first``; (entities, n), or -1."""
        drawn = np.full((len(entity), n), -1)
        for row, (begin, size) in enumerate(zip(self.start[entity], self.size[entity], strict=True)):
            names = begin + rng.permutation(size)
            if first is not None:
                names = np.concatenate([first[row : row + 1], names[names != first[row]]])
            drawn[row, : min(n, size)] = names[:n]
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
        n_drawn = min(len(time), n + max(map(len, avoided), default=0))
        pool = np.argpartition(time, n_drawn - 1)[:n_drawn] if n_drawn else np.empty(0, np.int64)
        pool = pool[np.argsort(time[pool])]
        drawn = np.full((len(avoided), n), -1)
        for row, spellings in enumerate(avoided):
            names = self.name[pool[~np.isin(self.spelling[pool], spellings)]][:n]
            drawn[row, : len(names)] = names
        return drawn


@dataclass(frozen=True, eq=False, slots=True)
class Contrasts:
    """Training data: queries, each with a correct entity, whose names must not be its negatives.

    A query is a name or, with ``texts``, a sentence and an entity in it. The positions of mentions are not used.
    """

    kb: KnowledgeBase
    synonyms: Synonyms
    others: Others  # the names of the entities of all queries
    entity: Ids  # (all queries,) the row of the correct entity
    context: Ids  # (all queries,) ascending; the entities of queries with the same context are never negatives
    name: Ids | None  # (all queries,) the name that a query is; None to sample one
    texts: tuple[str, ...] = ()  # with texts, the context of a query is its text

    @classmethod
    def of_names(cls, kb: KnowledgeBase) -> Self:
        """Take all names of a knowledge base as queries; raise DataError if no query has positives and negatives."""
        owner = (synonyms := Synonyms.of(kb)).owner
        others = Others.of(synonyms, np.unique(owner))
        return cls(kb, synonyms, others, owner, owner, np.arange(len(owner)))._checked("align")

    @classmethod
    def of_texts(cls, corpus: Corpus, kb: KnowledgeBase, *, purpose: str = "train on") -> Self:
        """Collect the sentences of annotated documents; gold ids without an entity in their domain are left out.

        Raise DataError ("nothing to ``purpose``") if no document has an entity, or no query positives and negatives.
        """
        pieces, synonyms = Pieces.of(corpus), Synonyms.of(kb)
        text, entity = pieces.entities(kb)
        if not len(text):
            wrong = f"nothing to {purpose}: no text (of {len(pieces.texts):,}) has an entity of the knowledge base"
            raise DataError(f"{wrong}; check that the ids and the domains match")
        others = Others.of(synonyms, np.unique(entity))
        return cls(kb, synonyms, others, entity, text, None, pieces.texts)._checked(purpose)

    def _checked(self, purpose: str) -> Self:
        n_entities = len(np.unique(self.entity))
        if not len(self.queries):
            wrong = f"nothing to {purpose}: no entity (of {n_entities:,}) has two names that differ"
            raise DataError(f"{wrong}; add aliases to the knowledge base")
        avoided = (self.avoided(query[None])[0] for query in self.queries)
        if not any(len(np.setdiff1d(self.others.spelling, spellings)) for spellings in avoided):
            raise DataError(
                f"nothing to {purpose}: names need names of other entities as negatives, but there are none (entities: "
                f"{n_entities:,}); add documents or entities"
            )
        return self

    @property
    def queries(self) -> Ids:
        """The queries to train on: those whose entity has synonyms."""
        return np.flatnonzero(self.synonyms.size[self.entity] > 1)

    def sampled(self, queries: Ids, config: ContrastiveConfig, step: int) -> Ids:
        """Sample names to compare; ``step`` and the seed of ``config`` determine them.

        The shape is (queries, 2 + positives + negatives): the query, a name of its entity (its own if it is one), its
        positives and its negatives, padded with -1.
        """
        rng, other_rng = (np.random.default_rng([config.seed, what, step]) for what in (_POSITIVES, _NEGATIVES))
        own = None if self.name is None else self.name[queries]
        names = self.synonyms.draw(self.entity[queries], config.n_positives + 1, rng, own)
        return np.column_stack([queries, names, self.others.draw(self.avoided(queries), config.n_negatives, other_rng)])

    def avoided(self, queries: Ids) -> list[Ids]:
        """List, for each query, the spellings that must not be its negatives."""
        begin, end = (np.searchsorted(self.context, self.context[queries], side) for side in ("left", "right"))
        bounds = zip(begin, end, strict=True)
        return [self.synonyms.spellings(np.unique(self.entity[first:last])) for first, last in bounds]
