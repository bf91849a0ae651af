"""From the vectors of mentions and nodes to a loss a mention: the parts of a configuration, one after the other."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from arbo.encoders.late import sum_of_max
from arbo.training.config import TrainingConfig
from arbo.training.dual.hardest import hardest
from arbo.training.dual.mixup import mixed_up, positive_share
from arbo.training.losses import loss_of
from clustering.vectors import Metric


class Pairs(NamedTuple):
    """Mentions and the nodes that each is compared with, as token vectors that are `comparable`; a pooled one is one.

    Token vectors are padded; which of them there are, masks say.
    """

    mention: Tensor
    """(mentions, 1, tokens, dim)"""
    mention_mask: Tensor
    """(mentions, 1, tokens)"""
    node: Tensor
    """(mentions, 1 + negatives, tokens, dim), the positive's first."""
    node_mask: Tensor
    """(mentions, 1 + negatives, tokens)"""
    text: Tensor
    """(mentions, 1 + negatives) the text of each node, as a place in the batch."""
    exists: Tensor
    """(mentions, 1 + negatives) which nodes are compared with."""

    @property
    def scores(self) -> Tensor:
        """Similarities, sums of maxima; (mentions, 1 + negatives)."""
        return sum_of_max(self.mention, self.mention_mask, self.node, self.node_mask)


def comparable(vectors: Tensor, metric: Metric) -> Tensor:
    """Make vectors whose inner products are the similarities; (..., dim)."""
    return normalize(vectors, dim=-1) if metric == "cosine" else vectors


def chosen(pairs: Pairs, config: TrainingConfig) -> Pairs:
    """Take the negatives that a configuration wants once it sees their vectors."""
    if config.negatives not in ("in-batch-hard", "in-batch-mixed"):
        return pairs
    n, share = config.n_negatives, 1.0 if config.negatives == "in-batch-hard" else config.hard_share
    n_hard = round(share * n)
    with torch.no_grad():
        columns, exists = hardest(pairs.scores, pairs.exists, n_hard, n - n_hard)
    at = torch.arange(len(columns), device=columns.device)[:, None], columns
    return pairs._replace(node=pairs.node[at], node_mask=pairs.node_mask[at], text=pairs.text[at], exists=exists)


def mention_losses(pairs: Pairs, config: TrainingConfig, metric: Metric) -> Tensor:
    """Return the loss of each mention: mix the negatives up, compare, and ask the loss; (mentions,)."""
    if config.mixup is not None:
        share = config.mixup * positive_share(config.scale_of(metric) * pairs.scores, pairs.exists)
        mixed, mask = mixed_up(pairs.node, pairs.node_mask, share, gradient=config.mixup_gradient)
        pairs = pairs._replace(node=comparable(mixed, metric), node_mask=mask)
    return loss_of(config, metric)(pairs.scores, pairs.exists)
