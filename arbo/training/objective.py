"""From the vectors of mentions and nodes to a loss a mention: the parts of a configuration, one after the other."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn.functional import normalize

from arbo.training.config import TrainingConfig
from arbo.training.hardest import hardest
from arbo.training.losses import loss_of
from arbo.training.mixup import mixed_up, positive_share
from clustering.vectors import Metric


class Pairs(NamedTuple):
    """Mentions and the nodes that each is compared with, as vectors that are `comparable`."""

    mention: Tensor
    """(mentions, 1, dim)"""
    node: Tensor
    """(mentions, 1 + negatives, dim), the positive's first."""
    exists: Tensor
    """(mentions, 1 + negatives) which nodes are compared with."""

    @property
    def scores(self) -> Tensor:
        """Similarities; (mentions, 1 + negatives)."""
        # Not a matrix product: autocast or TF32 would round it, which is coarser than what the loss learns from.
        return (self.mention * self.node).sum(dim=2)


def comparable(vectors: Tensor, metric: Metric) -> Tensor:
    """Make vectors whose inner products are the similarities; (..., dim)."""
    return normalize(vectors, dim=-1) if metric == "cosine" else vectors


def chosen(pairs: Pairs, config: TrainingConfig) -> Pairs:
    """Leave out the negatives that a configuration does not want once it sees their vectors."""
    if config.negatives not in ("in-batch-hard", "in-batch-mixed"):
        return pairs
    n, share = config.n_negatives, 1.0 if config.negatives == "in-batch-hard" else config.hard_share
    n_hard = round(share * n)
    return pairs._replace(exists=hardest(pairs.scores.detach(), pairs.exists, n_hard, n - n_hard))


def mention_losses(pairs: Pairs, config: TrainingConfig, metric: Metric) -> Tensor:
    """Return the loss of each mention: mix the negatives up, compare, and ask the loss; (mentions,)."""
    if config.mixup is not None:
        share = config.mixup * positive_share(config.scale * pairs.scores, pairs.exists)
        mixed = mixed_up(pairs.node, share, gradient=config.mixup_gradient)
        pairs = pairs._replace(node=comparable(mixed, metric))
    return loss_of(config)(pairs.scores, pairs.exists)
