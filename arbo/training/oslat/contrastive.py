"""Contrastive training of names, the common part of self-alignment and label attention.

The positives of each anchor are some of its synonyms; the negatives are names of other entities, never a name of a
correct entity or a name that is spelt like one. Negatives are sampled in two steps, an entity and then one of its
names, and for all anchors of a batch together, see `arbo.training.oslat.synonyms.Others`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from arbo.encoders.dual import Texts
from arbo.encoders.pooling import Pooling
from arbo.encoders.tower import Tower
from arbo.engine import Ids
from arbo.errors import DataError
from arbo.training.config import ContrastiveConfig
from arbo.training.loop import Trainable, Trainer
from arbo.training.losses import comparable, nt_xent
from arbo.training.oslat.synonyms import Contrasts, Others, Synonyms

Model = TypeVar("Model", bound=Trainable)

# Seeds of what a step samples; 0 is the order, see `arbo.training.loop.order_of`.
_POSITIVES, _NEGATIVES = 1, 2


@dataclass(frozen=True, eq=False, slots=True)
class Contrast:
    """Queries of a batch, and the names to compare."""

    query: Ids  # (queries,)
    name: Ids  # (queries, 1 + positives + negatives) the anchor, its positives, its negatives; -1 for none

    def __len__(self) -> int:
        return len(self.query)

    def part(self, rows: slice | Ids) -> Contrast:
        """Take some of the queries."""
        return Contrast(self.query[rows], self.name[rows])


def check_contrasts(data: Contrasts, purpose: str) -> None:
    """Raise DataError ("nothing to ``purpose``") unless at least one query has both positives and negatives."""
    if not len(data.queries):
        wrong = f"nothing to {purpose}: no entity (of {len(data.entities):,}) has two names that differ"
        raise DataError(f"{wrong}; add aliases to the knowledge base")
    others = Others.of(data.synonyms, data.entities)
    avoided = (data.avoided(query[None])[0] for query in data.queries)
    if not any(len(np.setdiff1d(others.spelling, spellings)) for spellings in avoided):
        raise DataError(
            f"nothing to {purpose}: names need names of other entities as negatives, but there are none (entities: "
            f"{len(data.entities):,}); add documents or entities"
        )


def contrast(data: Contrasts, others: Others, queries: Ids, config: ContrastiveConfig, step: int) -> Contrast:
    """Sample the positives and negatives of queries; ``step`` and the seed of ``config`` determine them."""
    names = data.anchors(queries, config.n_positives, np.random.default_rng([config.seed, _POSITIVES, step]))
    rng = np.random.default_rng([config.seed, _NEGATIVES, step])
    return Contrast(queries, np.hstack([names, others.draw(data.avoided(queries), config.n_negatives, rng)]))


def contrastive_losses(vectors: Tensor, batch: Contrast, config: ContrastiveConfig) -> Tensor:
    """Return the loss of each query of a batch; (queries,).

    ``vectors`` has the shape (queries, 1 + positives + negatives, dim): the anchor, its positives and its negatives.
    """
    vectors = comparable(vectors.float(), "cosine")
    scores = torch.einsum("qd,qkd->qk", vectors[:, 0], vectors[:, 1:])
    exists = torch.from_numpy(batch.name[:, 1:] >= 0).to(scores.device)
    return nt_xent(scores / config.temperature, exists, config.n_positives)


def read_names(tower: Tower, texts: Texts, synonyms: Synonyms, name: Ids, pooling: Pooling) -> Tensor:
    """Return the vectors of names of ``synonyms``, (..., dim); a name that occurs several times is encoded once.

    ``name`` (...) has the indices of names; for -1, no name, the vector is that of the first name.
    """
    distinct, row = np.unique(texts.row[synonyms.place[np.maximum(name, 0)]], return_inverse=True)
    vectors = tower.encode_apart(texts.spell(distinct), pooling)[:, 0]
    return vectors[torch.from_numpy(row.reshape(name.shape)).to(vectors.device)]


@dataclass(eq=False)
class ContrastiveTrainer(Trainer[Model, Contrast]):
    """Base class of trainers for models that encode names."""

    data: Contrasts
    config: ContrastiveConfig

    def __post_init__(self) -> None:
        self.others = Others.of(self.data.synonyms, self.data.entities)
        super().__post_init__()

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Contrast:
        """Sample the positives and negatives of a batch, and take some of its queries."""
        return contrast(self.data, self.others, mentions, self.config, step).part(rows)

    def loss_of(self, step: int, batch: Contrast, rows: slice) -> Tensor:
        """Sum the losses of some queries; each part of a batch encodes the negatives again."""
        part = batch.part(rows)
        return contrastive_losses(self.prepared(part), part, self.config).sum()
