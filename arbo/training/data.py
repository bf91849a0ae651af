"""Training data: the mentions of annotated documents, the entities that they are of, and what a model makes of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.documents import Corpus
from arbo.encoders import DualEncoder, MentionInput
from arbo.errors import DataError
from arbo.knowledge_base import KnowledgeBase
from arbo.progress import Announce, quiet
from arbo.retrieval import mention_inputs
from arbo.training.negatives import Gold
from arbo.training.positives import Snapshot
from clustering.arrays import Ids


@dataclass(frozen=True, eq=False, slots=True)
class TrainingSet:
    """Mentions with gold ids, and a knowledge base."""

    inputs: list[MentionInput]
    """The mentions that have gold ids."""
    kb: KnowledgeBase
    gold: Gold
    entity: Ids
    """(mentions,) the first of its gold ids that the knowledge base holds, -1 where it holds none. These mentions are
    trained on; the others can be negatives."""

    @classmethod
    def of(cls, corpus: Corpus, kb: KnowledgeBase, *, expand_abbreviations: bool = True) -> Self:
        """Take the annotated mentions of documents.

        Raises:
            DataError: no mention has a gold id that the knowledge base holds.

        """
        inputs = [
            item for item in mention_inputs(corpus, expand_abbreviations=expand_abbreviations) if item.mention.gold
        ]
        outside: dict[str, int] = {}
        rows: list[list[int]] = []
        for item in inputs:
            own: dict[int, None] = {}
            for id_ in item.mention.gold or ():
                found = kb.rows(id_) or (len(kb) + outside.setdefault(id_, len(outside)),)
                own |= dict.fromkeys(found)
            rows.append(list(own))
        entity = np.array([next((row for row in own if row < len(kb)), -1) for own in rows], np.int64)
        if not (entity >= 0).any():
            raise DataError(
                f"nothing to train on: none of {len(inputs):,} mentions with gold ids has one that the knowledge base "
                "holds; do the ids match?"
            )
        return cls(inputs, kb, Gold.of(rows), entity)

    @property
    def queries(self) -> Ids:
        """The mentions that are trained on."""
        return np.flatnonzero(self.entity >= 0)

    def snapshot(self, encoder: DualEncoder, announce: Announce = quiet) -> Snapshot:
        """Embed everything with the encoder as it is now, in evaluation mode."""
        return Snapshot(
            encoder.encode_entities(self.kb, announce),
            encoder.encode_mentions(self.inputs, announce),
            self.entity,
            encoder.metric,
        )
