"""A snapshot: the vectors by which positives and negatives are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.encoders.dual import DualEncoder
from arbo.engine import Embeddings, Ids, Metric, Vectors
from arbo.progress import Announce, quiet
from arbo.training.data import TrainingSet


@dataclass(frozen=True, eq=False, slots=True)
class Snapshot:
    """What the model makes of the training data at one moment, in evaluation mode.

    Nodes are numbered entity texts first, one or several an entity (its names), then mentions.
    """

    entities: Embeddings
    """Pair ``i`` is entity text ``i``."""
    mentions: Embeddings
    gold: Ids
    """(mentions,) the entity that a mention is of, -1 where the knowledge base has none."""
    metric: Metric

    @classmethod
    def of(cls, data: TrainingSet, encoder: DualEncoder, announce: Announce = quiet) -> Self:
        """Embed everything with the encoder as it is now, in evaluation mode."""
        return cls(
            encoder.encode_entities(data.kb, announce),
            encoder.encode_mentions(data.inputs, announce),
            data.entity,
            encoder.metric,
        )

    @classmethod
    def unread(cls, data: TrainingSet, owner: Ids, metric: Metric) -> Self:
        """Return one that nothing was embedded for; ``owner``: (entity texts,) the entity of each."""
        entities = Vectors.of(np.zeros((len(owner), 1)), owner, n=len(data.kb))
        return cls(entities, Vectors.of(np.zeros((len(data.inputs), 1))), data.entity, metric)

    @property
    def n_texts(self) -> int:
        """Entity texts; the first mention's node."""
        return len(self.entities.row)
