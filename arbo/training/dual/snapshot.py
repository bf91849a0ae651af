"""Snapshots: the vectors for the choice of positives and negatives."""

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
    """Vectors of the training data from the model at one step, in evaluation mode.

    Its nodes are numbered from 0: first the entity texts (the names of each entity, or one text), then the mentions.
    """

    entities: Embeddings  # pair ``i`` is entity text ``i``
    mentions: Embeddings
    gold: Ids  # (mentions,) the gold entity of each mention, or a larger number for a cluster without one, or -1
    metric: Metric

    @classmethod
    def of(cls, data: TrainingSet, encoder: DualEncoder, announce: Announce = quiet) -> Self:
        """Embed all entities and mentions with the current encoder, in evaluation mode."""
        entities, mentions = encoder.encode_entities(data.kb, announce), encoder.encode_mentions(data.inputs, announce)
        return cls(entities, mentions, data.cluster, encoder.metric)

    @classmethod
    def unread(cls, data: TrainingSet, owner: Ids, metric: Metric) -> Self:
        """Return a snapshot whose vectors are all zero, for choices that do not depend on vectors (`asks_the_model`).

        ``owner`` gives the entity of each entity text.
        """
        entities = Vectors.of(np.zeros((len(owner), 1)), owner, n=len(data.kb))
        return cls(entities, Vectors.of(np.zeros((len(data.inputs), 1))), data.cluster, metric)

    @property
    def n_texts(self) -> int:
        """Number of entity texts; also the node of the first mention."""
        return len(self.entities.row)
