"""Losses: from the vectors, or scores, of a mention's positive and negatives to one number per mention.

A loss takes ``scores`` of the shape (mentions, 1 + negatives), with the positive in the first column; a higher score
means that the two are more similar. It also takes ``exists`` of the same shape, which is False where a mention has
fewer negatives than columns. It returns one value per mention, in float32 whatever the precision of the scores, because
late in training the model learns from small differences between near-certain probabilities.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad, softplus

from arbo.engine import Metric
from arbo.training.config import LossName, TrainingConfig


def cross_entropy(scores: Tensor, exists: Tensor) -> Tensor:
    """Return the negative logarithm of the positive's share in the softmax; (mentions,).

    A mention without negatives has loss 0 and no gradient.
    """
    scores = _finite(scores, exists)
    return torch.logsumexp(scores, dim=1) - scores[:, 0]


def arborescence_loss(scores: Tensor, exists: Tensor) -> Tensor:
    r"""Return ``-(log p_0 + sum_i log(1 - p_i))`` over the negatives i; (mentions,).

    p is the softmax of the scores of a mention, with p_0 for the positive. Equation 6 of the ArboEL paper, which omits
    the minus sign and computes p from dissimilarities; here similarities make a near positive probable.
    """
    # Only the largest p can be near 1. There, 1 - p_i is the sigmoid of log rest_i - s_i, rest_i being the softmax's
    # denominator without i; elsewhere log(1 - p) is exact enough.
    scores = _finite(scores, exists)
    total = torch.logsumexp(scores, dim=1, keepdim=True)
    top = scores.argmax(dim=1, keepdim=True)
    is_top = torch.zeros_like(exists).scatter(1, top, True)
    rest = torch.logsumexp(scores.masked_fill(is_top, -torch.inf), dim=1, keepdim=True)
    without = torch.log1p(-(scores - total).masked_fill(is_top | ~exists, -torch.inf).exp())
    without_top = -softplus(scores.gather(1, top) - rest)
    negative = exists.clone()
    negative[:, 0] = False
    others = torch.where(negative & ~is_top, without, 0.0).sum(dim=1)
    return (total - scores[:, :1]).squeeze(1) - others - torch.where(negative & is_top, without_top, 0.0).sum(dim=1)


def proxy_loss(scores: Tensor, exists: Tensor, alpha: float = 32.0, margin: float = 0.0) -> Tensor:
    """Return ``log(1 + exp(-a (s_0 - d))) + log(1 + sum_i exp(a (s_i + d)))`` over the negatives i; (mentions,).

    Equation 3 of the proxy paper. s are the scores, cosines in the paper, with s_0 for the positive; ``alpha`` (a) is
    their scale, and ``margin`` is d. A mention without negatives is still drawn to its positive.
    """
    scores = _finite(scores, exists)
    pushes = pad(alpha * (scores[:, 1:] + margin), (1, 0))  # the zero in front is the 1 in the logarithm
    return softplus(-alpha * (scores[:, 0] - margin)) + torch.logsumexp(pushes, dim=1)


def binary_cross_entropy(scores: Tensor, exists: Tensor) -> Tensor:
    """Return ``-(log sigmoid(s_0) + sum_i log(1 - sigmoid(s_i)))`` over the negatives i; (mentions,).

    Equation 11 of the adaptive-mixup paper. s are the scores, with s_0 for the positive. A mention without negatives is
    still drawn to its positive.
    """
    scores = _finite(scores, exists)
    return softplus(-scores[:, 0]) + softplus(scores[:, 1:]).sum(dim=1)


def nt_xent(scores: Tensor, exists: Tensor, n_positives: int) -> Tensor:
    """Return the mean over positives of ``-log softmax``, each positive against all negatives; (anchors,).

    Equations 1 and 4 of the OSLAT paper, with this positive in the denominator, as in Chen et al. (2020); as printed,
    the loss has no lower bound. The loss is 0 for an anchor without positives or without negatives. ``scores`` are
    similarities divided by the temperature; the first ``n_positives`` columns are positives, the others negatives.
    """
    scores = _finite(scores, exists)
    there = exists[:, :n_positives]
    rest = torch.logsumexp(scores[:, n_positives:], dim=1, keepdim=True)
    each = torch.where(there, softplus(rest - torch.where(there, scores[:, :n_positives], 0.0)), 0.0)
    return each.sum(dim=1) / there.sum(dim=1).clamp(min=1)


def supervised_contrastive(scores: Tensor, label: Tensor) -> Tensor:
    """Return the mean, over mentions and their mates, of ``-log softmax`` among all other mentions.

    Equation 2 of Khosla et al. (2020). ``scores``, (mentions, mentions), are similarities divided by the temperature;
    mates have the same ``label``, (mentions,), and a mention with the label -1 has none. Without mates, the loss is 0.
    """
    itself = torch.eye(len(label), dtype=torch.bool, device=label.device)
    mates = (label[:, None] == label) & (label >= 0) & ~itself
    share = scores - torch.logsumexp(scores.masked_fill(itself, -torch.inf), dim=1, keepdim=True)
    n_mates = mates.sum(dim=1)
    return -(torch.where(mates, share, 0.0).sum(dim=1) / n_mates.clamp(min=1)).sum() / (n_mates > 0).sum().clamp(min=1)


def focal_loss(scores: Tensor, positive: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Return binary cross-entropy with less weight on easy examples, ``-a (1 - p)^gamma log p``, for each score.

    Equation 5 of Lin et al. (2017). p is the probability of the right answer according to the logits ``scores``, and a
    is ``alpha`` for positives and ``1 - alpha`` for negatives.
    """
    right = torch.where(positive, scores.float(), -scores.float())
    return torch.where(positive, alpha, 1 - alpha) * torch.sigmoid(-right) ** gamma * softplus(-right)


def comparable(vectors: Tensor, metric: Metric) -> Tensor:
    """Return vectors whose inner products are the similarities; (..., dim)."""
    return normalize(vectors, dim=-1) if metric == "cosine" else vectors


def _finite(scores: Tensor, exists: Tensor) -> Tensor:
    """Convert scores to float32, and mask the scores of nodes that do not exist."""
    return scores.float().masked_fill(~exists, -torch.inf)


LOSSES: Mapping[LossName, Callable[..., Tensor]] = {
    "arborescence": arborescence_loss,
    "cross-entropy": cross_entropy,
    "proxy": proxy_loss,
    "bce": binary_cross_entropy,
}


class Pairs(NamedTuple):
    """Mentions and the nodes to compare them with, as vectors from `comparable`."""

    mention: Tensor  # (mentions, dim)
    node: Tensor  # (mentions, 1 + negatives, dim), the positive's first
    exists: Tensor  # (mentions, 1 + negatives) which nodes to compare with

    @property
    def scores(self) -> Tensor:
        """The inner products of mentions and nodes, (mentions, 1 + negatives), in float32: autocast rounds coarsely."""
        with torch.autocast(self.mention.device.type, enabled=False):
            return torch.einsum("md,mnd->mn", self.mention.float(), self.node.float())


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
    scale = config.scale or (32.0 if config.loss == "proxy" else 20.0 if metric == "cosine" else 1.0)
    if config.mixup is not None:
        pairs = pairs._replace(node=comparable(_mixed_up(pairs, scale, config.mixup, config.mixup_gradient), metric))
    if config.loss == "proxy":
        return proxy_loss(pairs.scores, pairs.exists, scale, config.margin)
    return LOSSES[config.loss](scale * pairs.scores, pairs.exists)


def hardest(scores: Tensor, exists: Tensor, n: int, n_others: int = 0) -> tuple[Tensor, Tensor]:
    """Choose the positive, then the n most similar negatives that exist; of equally similar ones, the first columns.

    Equation 8 of the adaptive-mixup paper. After the n most similar negatives, the first ``n_others`` of the remaining
    ones follow in column order. Return the indices of the chosen columns, from 0, and which of them exist; both have
    the shape (mentions, 1 + n + n_others), or fewer columns if there are not as many negatives.

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


def _mixed_up(pairs: Pairs, scale: float, most: float, gradient: bool) -> Tensor:
    """Add a share of the positive to each negative, ``most W V_0 + V_i``, a sum and not an average; see `Pairs.node`.

    Equations 9 and 10 of the adaptive-mixup paper; W is the positive's share in the softmax. Where the paper is silent:
    gradients flow through the share and the positive's vector too, unless ``gradient`` is False.
    """
    positive, negatives = pairs.node[:, :1], pairs.node[:, 1:]
    share = torch.softmax(_finite(scale * pairs.scores, pairs.exists), dim=1)[:, 0]
    added = most * share[:, None, None] * positive
    return torch.cat([positive, (added if gradient else added.detach()) + negatives], dim=1)
