"""Training data: the mentions of annotated documents, and the entities that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from arbo.documents import Corpus
from arbo.encoders import MentionInput
from arbo.errors import DataError
from arbo.knowledge_base import KnowledgeBase
from arbo.retrieval import mention_inputs
from arbo.training.config import LoopConfig
from arbo.training.gold import Gold
from clustering.arrays import Ids

PURPOSES = {"documents": "train on", "dev": "choose the best model by"}
"""What documents are for, by what they are called: errors name it."""


@dataclass(frozen=True, eq=False, slots=True)
class TrainingSet:
    """Mentions with gold ids, and a knowledge base."""

    inputs: list[MentionInput]
    """The mentions that have gold ids."""
    kb: KnowledgeBase
    gold: Gold
    entity: Ids
    """(mentions,) the first of its gold ids that the knowledge base holds in the mention's domain, -1 where it holds
    none. Mentions that have one are trained on; the others can be negatives."""

    @classmethod
    def of(
        cls, corpus: Corpus, kb: KnowledgeBase, *, expand_abbreviations: bool = True, purpose: str = "train on"
    ) -> Self:
        """Take the annotated mentions of documents; ``purpose`` names in the error what they are for.

        Raises:
            DataError: no mention has a gold id that the knowledge base holds in its domain.

        """
        inputs = [
            item for item in mention_inputs(corpus, expand_abbreviations=expand_abbreviations) if item.mention.gold
        ]
        outside: dict[str, int] = {}
        rows: list[list[int]] = []
        entity = np.full(len(inputs), -1)
        for place, item in enumerate(inputs):
            rows.append([])
            for id_ in item.mention.gold or ():
                inside = kb.rows_within((id_,), item.document.domain)
                rows[-1].extend(inside or (len(kb) + outside.setdefault(id_, len(outside)),))
            row = kb.first_row(item.mention.gold or (), item.document.domain)
            entity[place] = -1 if row is None else row
        if not inputs:
            raise DataError(
                f"nothing to {purpose}: none of {len(corpus.mentions):,} mentions is annotated with the id of an entity"
            )
        if not (entity >= 0).any():
            raise DataError(
                f"nothing to {purpose}: none of {len(inputs):,} mentions with gold ids has one that the knowledge base "
                "holds in the domain of its document; do the ids match, and the domains?"
            )
        domains = [item.document.domain for item in inputs]
        return cls(inputs, kb, Gold.of(rows, domains, [entity.domain for entity in kb]), entity)

    @property
    def queries(self) -> Ids:
        """The mentions that are trained on."""
        return np.flatnonzero(self.entity >= 0)


def corpora_of(documents: Iterable[Any], dev: Iterable[Any] | None) -> dict[str, Corpus]:
    """Take the documents that a training is given, by what they are called there."""
    return {"documents": Corpus.of(documents)} | ({} if dev is None else {"dev": Corpus.of(dev)})


def training_sets(
    corpora: Mapping[str, Corpus], kb: KnowledgeBase, *, expand_abbreviations: bool
) -> dict[str, TrainingSet]:
    """Take the mentions of each of `corpora_of`."""
    return {
        name: TrainingSet.of(corpus, kb, expand_abbreviations=expand_abbreviations, purpose=PURPOSES[name])
        for name, corpus in corpora.items()
    }


def job_of(corpora: Mapping[str, Corpus], kb: KnowledgeBase, **what: Any) -> dict[str, Any]:
    """Return what identifies a training: configurations and models, by any names, documents and knowledge base."""
    settings = {name: value.decisive if isinstance(value, LoopConfig) else value for name, value in what.items()}
    fingerprints = {name: corpus.fingerprint for name, corpus in corpora.items()}
    return {**settings, **fingerprints, "knowledge_base": kb.fingerprint}
