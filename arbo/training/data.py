"""Training data: the mentions of annotated documents, and their entities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.data.inputs import MentionInput, mention_inputs
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Ids
from arbo.errors import DataError
from arbo.training.config import LoopConfig
from arbo.training.rivals import Rivals

PURPOSES = {"documents": "train on", "dev": "choose the best model by"}
"""Purpose of each set of documents, for errors."""


@dataclass(frozen=True, eq=False, slots=True)
class TrainingSet:
    """Mentions with gold ids, and a knowledge base."""

    inputs: list[MentionInput]
    """The mentions that have gold ids."""
    kb: KnowledgeBase
    gold: Gold
    rivals: Rivals

    @classmethod
    def of(
        cls, corpus: Corpus, kb: KnowledgeBase, *, expand_abbreviations: bool = True, purpose: str = "train on"
    ) -> Self:
        """Take the annotated mentions of documents; errors name their ``purpose``.

        Raises:
            DataError: no mention has a gold id that the knowledge base holds in its domain.
        """
        every = Gold.of(corpus, kb)
        gold = every.taken(np.flatnonzero(every.has_id))
        inputs = [
            item for item in mention_inputs(corpus, expand_abbreviations=expand_abbreviations) if item.mention.gold
        ]
        if not inputs:
            raise DataError(
                f"nothing to {purpose}: none of {len(corpus.mentions):,} mentions is annotated with the id of an entity"
            )
        if not gold.in_kb.any():
            raise DataError(
                f"nothing to {purpose}: none of {len(inputs):,} mentions has a gold id that the knowledge base holds "
                "in the domain of the document; check that the ids and the domains match"
            )
        rows = np.split(gold.number, gold.indptr[1:-1])
        domains = [item.document.domain for item in inputs]
        return cls(inputs, kb, gold, Rivals.of(rows, domains, [entity.domain for entity in kb]))

    @property
    def entity(self) -> Ids:
        """(mentions,) the first gold entity of each mention, -1 for none.

        Mentions with a gold entity are trained on; the others can be negatives.
        """
        return self.gold.first

    @property
    def queries(self) -> Ids:
        """The mentions to train on."""
        return np.flatnonzero(self.entity >= 0)


def corpora_of(documents: Iterable[Any], dev: Iterable[Any] | None) -> dict[str, Corpus]:
    """Make corpora of the documents of a training, by the name of the argument."""
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
    """Return the values that identify a training: settings and models by name, documents and knowledge base."""
    settings = {name: value.decisive if isinstance(value, LoopConfig) else value for name, value in what.items()}
    fingerprints = {name: corpus.fingerprint for name, corpus in corpora.items()}
    return {**settings, **fingerprints, "knowledge_base": kb.fingerprint}
