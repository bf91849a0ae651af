"""Scores of a batch: its texts encoded, each once, and its mentions compared with their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from arbo.encoders import DualEncoder
from arbo.encoders.texts import Texts
from arbo.encoders.tower import batch_end
from arbo.training.data import TrainingSet
from clustering.arrays import Ids

_TOKENS_A_BATCH = 2048


@dataclass(frozen=True, eq=False, slots=True)
class Reader:
    """Turns mentions and nodes into scores with gradients."""

    encoder: DualEncoder
    entities: Texts
    mentions: Texts

    @classmethod
    def of(cls, encoder: DualEncoder, data: TrainingSet) -> Self:
        """Collect the texts of the training data."""
        return cls(encoder, encoder.entity_texts(data.kb), encoder.mention_texts(data.inputs))

    @property
    def owner(self) -> Ids:
        """(entity texts,) the entity of each."""
        return np.asarray(self.entities.owner, np.int64)

    def scores(self, mentions: Ids, nodes: Ids) -> tuple[Tensor, Tensor]:
        """Compare each mention with its nodes, -1 for none: similarities and which exist, (mentions, nodes) each.

        A negative that reads as its mention does, or as the positive, counts as none: the model cannot tell them
        apart, and what pulls the text of the one pushes that of the other.
        """
        n_texts = len(self.entities.owner)
        exists = nodes >= 0
        is_mention = nodes >= n_texts
        is_entity = exists & ~is_mention
        texts = np.concatenate([self.mentions.row[mentions], self.mentions.row[nodes[is_mention] - n_texts]])
        read, place = np.unique(texts, return_inverse=True)
        entity_read, entity_place = np.unique(self.entities.row[nodes[is_entity]], return_inverse=True)
        vectors = torch.cat([self._encode(self.mentions, read), self._encode(self.entities, entity_read)])
        if self.encoder.metric == "cosine":
            vectors = normalize(vectors, dim=1)
        own = place[: len(mentions), None]
        index = np.zeros(nodes.shape, np.int64)
        index[is_mention] = place[len(mentions) :]
        index[is_entity] = len(read) + entity_place
        exists[:, 1:] &= (index[:, 1:] != index[:, :1]) & (index[:, 1:] != own)
        device = vectors.device
        query, compared = (vectors[torch.from_numpy(rows).to(device)] for rows in (own, index))
        # Not a matrix product: autocast would round it to bfloat16, which is coarser than what the loss learns from.
        return (query * compared).sum(dim=2), torch.from_numpy(exists).to(device)

    def _encode(self, texts: Texts, chosen: Ids) -> Tensor:
        """Encode distinct texts, those of like length together; (chosen, dim)."""
        rows = texts.spell(chosen)
        order = np.argsort([len(row.ids) for row in rows], kind="stable")
        lengths = [len(rows[i].ids) for i in order]
        tower, parts, begin = texts.tower, [], 0
        while begin < len(order):
            end = batch_end(lengths, begin, _TOKENS_A_BATCH)
            parts.append(tower.encode([rows[i] for i in order[begin:end]], self.encoder.config.pooling))
            begin = end
        vectors = torch.cat(parts) if parts else tower.encode([], self.encoder.config.pooling)
        return vectors[torch.from_numpy(np.argsort(order)).to(vectors.device)]
