"""Batches: the distinct texts of mentions and their nodes, the vectors of these texts."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from arbo.data.codes import codes_of
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Bools, Ids
from arbo.training.data import TrainingSet
from arbo.training.losses import Pairs, comparable


class Text(NamedTuple):
    """A tokenised text, and the transformer that encodes it."""

    tower: Tower
    row: TokenRow


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Mentions and the nodes to compare them with, as indices of the distinct texts of both."""

    texts: list[Text]  # the shortest first, so that taking every n-th text divides the work evenly
    mention: Ids  # (mentions,) the text of each mention
    node: Ids  # (mentions, nodes) the text of each node, the positive's first; 0 for none
    exists: Bools  # (mentions, nodes) which nodes to compare with

    def __len__(self) -> int:
        return len(self.mention)


@dataclass(frozen=True, eq=False, slots=True)
class Reader:
    """Encodes mentions and nodes, with gradients."""

    encoder: DualEncoder
    entities: Texts
    mentions: Texts

    @classmethod
    def of(cls, encoder: DualEncoder, data: TrainingSet) -> Self:
        """Collect the texts of the training data."""
        return cls(encoder, encoder.entity_texts(data.kb), encoder.mention_texts(data.inputs))

    @property
    def owner(self) -> Ids:
        """(entity texts,) the entity of each text."""
        return np.asarray(self.entities.owner, np.int64)

    def batch(self, mentions: Ids, nodes: Ids) -> Batch:
        """Collect the texts of mentions and of their nodes, (mentions, nodes), padded with -1.

        Texts with the same tokens count as one if the same tower encodes them. A negative with the same text as its
        mention or its positive is dropped, as the model cannot tell them apart.
        """
        n_texts = len(self.entities.owner)
        is_mention = nodes >= n_texts
        is_entity = (nodes >= 0) & ~is_mention
        rows = np.concatenate([self.mentions.row[mentions], self.mentions.row[nodes[is_mention] - n_texts]])
        read, place = np.unique(rows, return_inverse=True)
        entity_read, entity_place = np.unique(self.entities.row[nodes[is_entity]], return_inverse=True)
        spelt = [Text(self.mentions.tower, row) for row in self.mentions.spell(read)]
        spelt += [Text(self.entities.tower, row) for row in self.entities.spell(entity_read)]
        number = codes_of(map(self._key, spelt))
        texts = [spelt[i] for i in np.unique(number, return_index=True)[1]]
        order = np.argsort([len(text.row.ids) for text in texts], kind="stable")
        rank = np.argsort(order)[number]
        mention, node = rank[place[: len(mentions)]], np.zeros(nodes.shape, np.int64)
        node[is_mention] = rank[place[len(mentions) :]]
        node[is_entity] = rank[len(read) + entity_place]
        exists = nodes >= 0
        exists[:, 1:] &= (node[:, 1:] != node[:, :1]) & (node[:, 1:] != mention[:, None])
        return Batch([texts[i] for i in order], mention, node, exists)

    def _key(self, text: Text) -> Hashable:
        """Return the values that a text's vector depends on; only the pooling ``mention`` uses its position."""
        ids, *place = text.row
        return text.tower, tuple(ids), tuple(place) if self.encoder.config.pooling == "mention" else None

    def encode(self, batch: Batch, part: slice) -> Tensor:
        """Encode some texts of a batch, those of similar length together; (texts, dim)."""
        texts = batch.texts[part]
        places: list[int] = []
        parts = []
        for tower, rows in _by_tower(texts):
            parts.append(tower.encode_apart([texts[i].row for i in rows], self.encoder.config.pooling))
            places += rows
        vectors = torch.cat(parts)
        return vectors[torch.from_numpy(np.argsort(places)).to(vectors.device)]

    def pairs(self, batch: Batch, vectors: Tensor, rows: slice) -> Pairs:
        """Take the vectors of the mentions in ``rows`` and of their nodes from ``vectors``, which has all texts."""
        vectors = comparable(vectors, self.encoder.metric)
        query, compared, exists = (
            torch.from_numpy(array[rows]).to(vectors.device) for array in (batch.mention, batch.node, batch.exists)
        )
        return Pairs(vectors[query], vectors[compared], exists)


def _by_tower(texts: Sequence[Text]) -> Iterator[tuple[Tower, list[int]]]:
    for tower in dict.fromkeys(text.tower for text in texts):
        yield tower, [i for i, text in enumerate(texts) if text.tower is tower]
