"""From the vectors of mentions and nodes to one loss per mention: choice of negatives, mixup, loss."""

from typing import NamedTuple

import torch
from torch import Tensor

from arbo.engine import Metric
from arbo.training.config import TrainingConfig
from arbo.training.losses import comparable, loss_of, similarities


class Pairs(NamedTuple):
    """Mentions and the nodes to compare them with, as vectors from `comparable`."""

    mention: Tensor  # (mentions, dim)
    node: Tensor  # (mentions, 1 + negatives, dim), the positive's first
    exists: Tensor  # (mentions, 1 + negatives) which nodes to compare with

    @property
    def scores(self) -> Tensor:
        """The similarity of each mention to each of its nodes; (mentions, 1 + negatives)."""
        return similarities(self.mention, self.node)


def chosen(pairs: Pairs, config: TrainingConfig) -> Pairs:
    """Keep the negatives that ``in-batch-hard`` or ``in-batch-mixed`` selects; with other strategies, keep all."""
    if config.negatives not in ("in-batch-hard", "in-batch-mixed"):
        return pairs
    n, share = config.n_negatives, 1.0 if config.negatives == "in-batch-hard" else config.hard_share
    n_hard = round(share * n)
    with torch.no_grad():
        columns, exists = hardest(pairs.scores, pairs.exists, n_hard, n - n_hard)
    at = torch.arange(len(columns), device=columns.device)[:, None], columns
    return pairs._replace(node=pairs.node[at], exists=exists)


def mention_losses(pairs: Pairs, config: TrainingConfig, metric: Metric) -> Tensor:
    """Return the loss of each mention, after mixup of the negatives if configured; (mentions,)."""
    if config.mixup is not None:
        share = config.mixup * positive_share(config.scale_of(metric) * pairs.scores, pairs.exists)
        mixed = mixed_up(pairs.node, share, gradient=config.mixup_gradient)
        pairs = pairs._replace(node=comparable(mixed, metric))
    return loss_of(config, metric)(pairs.scores, pairs.exists)


def hardest(scores: Tensor, exists: Tensor, n: int, n_others: int = 0) -> tuple[Tensor, Tensor]:
    """Choose the positive, then the n most similar negatives that exist; of equally similar ones, the first columns.

    Equation 8 of the adaptive-mixup paper. ``scores`` and ``exists`` have the shape (mentions, 1 + negatives), with the
    positive in the first column. After the n most similar negatives, the first ``n_others`` of the remaining ones
    follow in column order. Return the indices of the chosen columns, from 0, and which of them exist; both have the
    shape (mentions, 1 + n + n_others), or fewer columns if there are not as many negatives.

    >>> exists = torch.tensor([[True, True, True, False]])
    >>> hardest(torch.tensor([[0.1, 0.3, 0.7, 0.9]]), exists, 2, 1)
    (tensor([[0, 2, 1, 1]]), tensor([[ True,  True,  True, False]]))
    """
    there = exists[:, 1:]
    hard = scores[:, 1:].masked_fill(~there, -torch.inf).argsort(dim=1, descending=True, stable=True)[:, :n]
    left = there.scatter(1, hard, False)
    other = left.byte().argsort(dim=1, descending=True, stable=True)[:, :n_others]
    columns = torch.cat([hard.new_zeros(len(hard), 1), 1 + hard, 1 + other], dim=1)
    return columns, torch.cat([exists[:, :1], there.gather(1, hard), left.gather(1, other)], dim=1)


def positive_share(scores: Tensor, exists: Tensor) -> Tensor:
    """Return the positive's share in the softmax of each mention; (mentions,).

    This is W in equation 9 of the adaptive-mixup paper. The arguments are as in `hardest`.
    """
    return torch.softmax(scores.float().masked_fill(~exists, -torch.inf), dim=1)[:, 0]


def mixed_up(node: Tensor, share: Tensor, *, gradient: bool = True) -> Tensor:
    """Add a share of the positive to each negative, ``share V_0 + V_i``, a sum and not an average.

    Equation 10 of the adaptive-mixup paper. ``node`` has the shape (mentions, 1 + negatives, dim), with the positive
    first; ``share``, (mentions,), is alpha W in the paper. Where the paper is silent: gradients flow through the share
    and the positive's vector too, unless ``gradient`` is False.
    """
    positive, negatives = node[:, :1], node[:, 1:]
    added = share[:, None, None] * positive
    return torch.cat([positive, (added if gradient else added.detach()) + negatives], dim=1)
