"""What the trainings of OSLAT contrast: a name, some of its synonyms, and names of other entities.

Negatives are never names of a correct entity, or spelt like one. They are sampled for all names of a batch together, so
that it encodes little more than as many names as one query needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.codes import codes_of
from arbo.engine import Ids, ranges
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

    def of_entities(self, entities: Ids) -> Ids:
        """List the names of some entities, as rows of these arrays."""
        return ranges(self.start[entities], self.start[entities + 1] - self.start[entities])

    def draw(self, entity: Ids, n: int, rng: np.random.Generator, first: Ids | None = None) -> Ids:
        """Sample ``n`` distinct names of each entity, beginning with the name ``first``; (entities, n), or -1."""
        drawn = np.full((len(entity), n), -1)
        for row, one in enumerate(entity):
            names = rng.permutation(np.arange(self.start[one], self.start[one + 1]))
            if first is not None:
                names = np.concatenate([first[row : row + 1], names[names != first[row]]])
            drawn[row, : min(n, len(names))] = names[:n]
        return drawn

    def draw_others(self, entities: Ids, avoided: Sequence[Ids], n: int, rng: np.random.Generator) -> Ids:
        """Sample distinct names for each anchor, without the spellings that it avoids; (anchors, n), padded with -1.

        One sample serves all anchors: names of ``entities``, which are distinct, in the order of exponential times. A
        rate is 1 divided by the number of names of the entity, so that all entities count equally.
        """
        names, size = self.of_entities(entities), np.diff(self.start)[entities]
        names = names[np.argsort(rng.exponential(size=len(names)) * np.repeat(size, size))]
        first = np.sort(np.unique(self.spelling[names], return_index=True)[1])
        names, drawn = names[first[: n + max(map(len, avoided), default=0)]], np.full((len(avoided), n), -1)
        for row, spellings in enumerate(avoided):
            some = names[~np.isin(self.spelling[names], spellings)][:n]
            drawn[row, : len(some)] = some
        return drawn


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Training data: queries, each with a correct entity, whose names must not be its negatives.

    A query is a name or, with ``texts``, a sentence and an entity in it. The positions of mentions are not used.
    """

    kb: KnowledgeBase
    synonyms: Synonyms
    entity: Ids  # (all queries,) the row of the correct entity
    context: Ids  # (all queries,) ascending; the entities of queries with the same context are never negatives
    name: Ids | None  # (all queries,) the name that a query is; None to sample one
    texts: tuple[str, ...] = ()  # with texts, the context of a query is its text

    @classmethod
    def of_names(cls, kb: KnowledgeBase) -> Self:
        """Take all names of a knowledge base as queries; raise DataError if no query has positives and negatives."""
        owner = (synonyms := Synonyms.of(kb)).owner
        return cls(kb, synonyms, owner, owner, np.arange(len(owner)))._checked("align")

    @classmethod
    def of_texts(cls, corpus: Corpus, kb: KnowledgeBase, *, purpose: str = "train on") -> Self:
        """Collect the sentences of annotated documents; gold ids without an entity in their domain are left out.

        Raise DataError ("nothing to ``purpose``") if no document has an entity, or no query positives and negatives.
        """
        pieces = Pieces.of(corpus)
        text, entity = pieces.entities(kb)
        if not len(text):
            wrong = f"nothing to {purpose}: no text (of {len(pieces.texts):,}) has an entity of the knowledge base"
            raise DataError(f"{wrong}; check that the ids and the domains match")
        return cls(kb, Synonyms.of(kb), entity, text, None, pieces.texts)._checked(purpose)

    def _checked(self, purpose: str) -> Self:
        n = f"{len(self.entities):,}"
        if not len(self.queries):
            wrong = f"no entity (of {n}) has two names that differ; add aliases to the knowledge base"
            raise DataError(f"nothing to {purpose}: {wrong}")
        every = self.synonyms.spelling[self.synonyms.of_entities(self.entities)]
        if not any(len(np.setdiff1d(every, self.avoided(query[None])[0])) for query in self.queries):
            wrong = f"names need names of other entities as negatives, but there are none (entities: {n})"
            raise DataError(f"nothing to {purpose}: {wrong}; add documents or entities")
        return self

    @property
    def queries(self) -> Ids:
        """The queries to train on: those whose entity has synonyms."""
        return np.flatnonzero(np.diff(self.synonyms.start)[self.entity] > 1)

    @cached_property
    def entities(self) -> Ids:
        """The distinct entities of all queries, whose names are negatives."""
        return np.unique(self.entity)

    def sampled(self, queries: Ids, config: ContrastiveConfig, step: int) -> Ids:
        """Sample names to compare; ``step`` and the seed of ``config`` determine them.

        The shape is (queries, 2 + positives + negatives): the query, a name of its entity (its own if it is one), its
        positives and its negatives, padded with -1.
        """
        rng, other_rng = (np.random.default_rng([config.seed, what, step]) for what in (_POSITIVES, _NEGATIVES))
        named = None if self.name is None else self.name[queries]
        names = self.synonyms.draw(self.entity[queries], config.n_positives + 1, rng, named)
        others = self.synonyms.draw_others(self.entities, self.avoided(queries), config.n_negatives, other_rng)
        return np.column_stack([queries, names, others])

    def avoided(self, queries: Ids) -> list[Ids]:
        """List, for each query, the spellings that must not be its negatives."""
        begin, end = (np.searchsorted(self.context, self.context[queries], side) for side in ("left", "right"))
        rows = (
            self.synonyms.of_entities(np.unique(self.entity[slice(*ends)])) for ends in zip(begin, end, strict=True)
        )
        return [self.synonyms.spelling[names] for names in rows]
