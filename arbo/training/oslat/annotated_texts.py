"""Texts annotated with their entities, without the positions of mentions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Ids
from arbo.errors import DataError
from arbo.training.data import PURPOSES
from arbo.training.oslat.contrastive import check_contrasts
from arbo.training.oslat.synonyms import Synonyms


@dataclass(frozen=True, eq=False, slots=True)
class AnnotatedTexts:
    """Texts, the set of entities in each, and all names of a knowledge base.

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
        right = iter(Gold.of(corpus, kb).lists)
        found = [sorted({row for _ in document.mentions for row in next(right)}) for document in corpus]
        if not any(found):
            raise DataError(
                f"nothing to {purpose}: no text (of {len(corpus):,}) has an entity of the knowledge base; "
                "check that the ids and the domains match"
            )
        count = np.array([len(rows) for rows in found], np.int64)
        return cls(
            tuple(document.text for document in corpus),
            kb,
            Synonyms.of(kb),
            np.repeat(np.arange(len(found)), count),
            np.array([row for rows in found for row in rows], np.int64),
            np.cumsum([0, *count]),
        )

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


def annotated_texts(
    corpora: Mapping[str, Corpus], kb: KnowledgeBase, *, contrastable: bool = False
) -> dict[str, AnnotatedTexts]:
    """Collect the texts of each corpus from `corpora_of`; if ``contrastable``, call `check_contrasts` for each."""
    found = {}
    for name, corpus in corpora.items():
        found[name] = data = AnnotatedTexts.of(corpus, kb, purpose=PURPOSES[name])
        if contrastable:
            check_contrasts(data, PURPOSES[name])
    return found
