"""Batches: the distinct texts of mentions and their nodes, the vectors of these texts, and of perturbed copies."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from arbo.data.codes import codes_of
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.pooling import Pooling, n_vectors
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower, packs
from arbo.engine import Bools, Ids, Metric
from arbo.training.data import TrainingSet
from arbo.training.dual.objective import Pairs
from arbo.training.fgsm import in_worst_direction
from arbo.training.losses import comparable, sum_of_max


class Text(NamedTuple):
    """A tokenised text, and the transformer that encodes it."""

    tower: Tower
    row: TokenRow


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """Mentions and the nodes to compare them with, as indices of the distinct texts of both."""

    texts: list[Text]  # the shortest first, so that taking every n-th text divides the work evenly
    mask: Bools  # (texts, tokens) which token vectors each text has, up to the longest; one column after pooling
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
        count = np.array([n_vectors(texts[i].row, self.encoder.config.pooling) for i in order])
        mask = np.arange(count.max(initial=1)) < count[:, None]
        return Batch([texts[i] for i in order], mask, mention, node, exists)

    def _key(self, text: Text) -> Hashable:
        """Return the values that a text's vector depends on; only the pooling ``mention`` uses its position."""
        ids, *place = text.row
        return text.tower, tuple(ids), tuple(place) if self.encoder.config.pooling == "mention" else None

    def encode(self, batch: Batch, part: slice) -> Tensor:
        """Encode some texts of a batch, those of similar length together; (texts, tokens, dim), padded with zeros."""
        texts, width = batch.texts[part], batch.mask.shape[1]
        places: list[int] = []
        parts = []
        for tower, rows in self.batches(texts):
            encoded = tower.encode([texts[i].row for i in rows], self.encoder.config.pooling)
            parts.append(pad(encoded, (0, 0, 0, width - encoded.shape[1])))
            places += rows
        vectors = torch.cat(parts)
        return vectors[torch.from_numpy(np.argsort(places)).to(vectors.device)]

    def batches(self, texts: Sequence[Text]) -> Iterator[tuple[Tower, list[int]]]:
        """Yield the tower and the text indices of each batch (`Tower.tokens_a_batch`); ``texts`` ascend by length."""
        for tower in dict.fromkeys(text.tower for text in texts):
            rows = [i for i, text in enumerate(texts) if text.tower is tower]
            for part in packs([len(texts[i].row.ids) for i in rows], tower.tokens_a_batch):
                yield tower, rows[part]

    def pairs(self, batch: Batch, vectors: Tensor, rows: slice) -> Pairs:
        """Take the vectors of the mentions in ``rows`` and of their nodes from ``vectors``, which has all texts."""
        vectors = comparable(vectors, self.encoder.metric)
        query, compared, exists = (
            torch.from_numpy(array[rows]).to(vectors.device)
            for array in (batch.mention[:, None], batch.node, batch.exists)
        )
        mask = torch.from_numpy(batch.mask).to(vectors.device)
        return Pairs(vectors[query], mask[query], vectors[compared], mask[compared], compared, exists)


def adversarial_nodes(reader: Reader, batch: Batch, pairs: Pairs, epsilon: float, seed: int) -> Tensor:
    """Encode perturbed copies (`arbo.training.fgsm`) of the nodes of some mentions, in the shape of ``pairs.node``.

    They come from `comparable`; missing nodes have zeros. Gradients do not flow to the mentions. ``epsilon`` is the
    change of each component of an input; ``seed`` seeds dropout.
    """
    encoder = reader.encoder
    mention, place = np.nonzero(pairs.exists.cpu().numpy())
    text = pairs.text.cpu().numpy()[mention, place]
    order = np.argsort(text, kind="stable")  # the shortest first
    texts = [batch.texts[i] for i in text[order]]
    nodes = torch.zeros_like(pairs.node)
    for i, (tower, rows) in enumerate(reader.batches(texts)):
        at, column = (torch.from_numpy(array[order[rows]]).to(nodes.device) for array in (mention, place))
        copies = perturbed(
            tower,
            [texts[j].row for j in rows],
            pairs.node_mask[at, column],
            pairs.mention[at, 0],
            pairs.mention_mask[at, 0],
            epsilon * torch.where(column == 0, -1.0, 1.0),
            encoder.config.pooling,
            encoder.metric,
            seed + i,
        )
        nodes[at, column, : copies.shape[1]] = copies
    return nodes


def perturbed(
    tower: Tower,
    rows: Sequence[TokenRow],
    mask: Tensor,
    anchor: Tensor,
    anchor_mask: Tensor,
    step: Tensor,
    pooling: Pooling,
    metric: Metric,
    seed: int,
) -> Tensor:
    """Encode texts after moving their input vectors towards their anchors by ``step``, or away where it is negative.

    Each ``anchor``, (texts, tokens, dim), comes from `comparable`; ``step`` has the shape (texts,). Masks, (texts,
    tokens), say which token vectors exist. The result, (texts, tokens, dim), has as many tokens as the longest text.
    """
    anchor = anchor.detach()
    return in_worst_direction(
        tower,
        lambda: comparable(tower.encode(rows, pooling), metric),
        lambda vectors: sum_of_max(anchor, anchor_mask, vectors, mask[:, : vectors.shape[1]]),
        step,
        seed,
    )
