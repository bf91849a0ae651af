"""Losses: from the scores of a mention's positive and negatives to one number per mention.

A loss takes ``scores`` of the shape (mentions, 1 + negatives), with the positive in the first column; a higher score
means that the two are more similar. It also takes ``exists`` of the same shape, which is False where a mention has
fewer negatives than columns. It returns one value per mention, in float32 whatever the precision of the scores, because
late in training the model learns from small differences between near-certain probabilities. `LOSSES` has the losses of
dual-encoders by name.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad, softplus

from arbo.engine import Metric
from arbo.training.config import LossName, TrainingConfig

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


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
    log_share = (scores - total).masked_fill(is_top | ~exists, -torch.inf)
    without = torch.log1p(-log_share.exp())
    without_top = -softplus(scores.gather(1, top) - rest)
    negative = exists.clone()
    negative[:, 0] = False
    others = torch.where(negative & ~is_top, without, 0.0).sum(dim=1)
    return (total - scores[:, :1]).squeeze(1) - others - torch.where(negative & is_top, without_top, 0.0).sum(dim=1)


def proxy_loss(scores: Tensor, exists: Tensor, alpha: float = 32.0, margin: float = 0.0) -> Tensor:
    """Return ``log(1 + exp(-a (s_0 - d))) + log(1 + sum_i exp(a (s_i + d)))`` over the negatives i; (mentions,).

    Equation 3 of the proxy paper: the positive is pulled above the margin, and each negative pushed below minus the
    margin. s are the scores, cosines in the paper, with s_0 for the positive; ``alpha`` (a) is their scale, and
    ``margin`` is d. A mention without negatives is still drawn to its positive.
    """
    scores = _finite(scores, exists)
    pull = softplus(-alpha * (scores[:, 0] - margin))
    pushes = pad(alpha * (scores[:, 1:] + margin), (1, 0))  # the zero in front is the 1 in the logarithm
    return pull + torch.logsumexp(pushes, dim=1)


def binary_cross_entropy(scores: Tensor, exists: Tensor) -> Tensor:
    """Return ``-(log sigmoid(s_0) + sum_i log(1 - sigmoid(s_i)))`` over the negatives i; (mentions,).

    Equation 11 of the adaptive-mixup paper. s are the scores, with s_0 for the positive. A mention without negatives is
    still drawn to its positive.
    """
    scores = _finite(scores, exists)
    return softplus(-scores[:, 0]) + softplus(scores[:, 1:]).sum(dim=1)


def nt_xent(scores: Tensor, exists: Tensor, n_positives: int) -> Tensor:
    """Return the mean over positives of ``-log softmax``, each positive against all negatives; (anchors,).

    Equations 1 and 4 of the OSLAT paper, with the positive in the denominator, as in Chen et al. (2020); without the
    positive, as printed, the loss has no lower bound. Other positives are not in the denominator. The loss is 0 for an
    anchor without positives or without negatives. ``scores`` are similarities divided by the temperature; the first
    ``n_positives`` columns are positives, the others negatives.
    """
    scores = _finite(scores, exists)
    there = exists[:, :n_positives]
    rest = torch.logsumexp(scores[:, n_positives:], dim=1, keepdim=True)
    each = torch.where(there, softplus(rest - torch.where(there, scores[:, :n_positives], 0.0)), 0.0)
    return each.sum(dim=1) / there.sum(dim=1).clamp(min=1)


def focal_loss(scores: Tensor, positive: Tensor, alpha: float = 0.25, gamma: float = 2.0) -> Tensor:
    """Return binary cross-entropy with less weight on easy examples, ``-a (1 - p)^gamma log p``, for each score.

    Equation 5 of Lin et al. (2017). p is the probability of the right answer according to the logits ``scores``, and a
    is ``alpha`` for positives and ``1 - alpha`` for negatives. A larger ``gamma`` reduces the weight of easy examples.
    """
    right = torch.where(positive, scores.float(), -scores.float())
    share = torch.where(positive, alpha, 1 - alpha)
    return share * torch.sigmoid(-right) ** gamma * softplus(-right)


def comparable(vectors: Tensor, metric: Metric) -> Tensor:
    """Return vectors whose inner products are the similarities; (..., dim)."""
    return normalize(vectors, dim=-1) if metric == "cosine" else vectors


def similarities(mention: Tensor, node: Tensor) -> Tensor:
    """Return the inner products of mentions with their nodes, (mentions, dim) and (mentions, nodes, dim), in float32.

    Autocast would round them too coarsely for a loss; so would TF32, which torch disables by default.
    """
    with torch.autocast(mention.device.type, enabled=False):
        return torch.einsum("md,mnd->mn", mention.float(), node.float())


def loss_of(config: TrainingConfig, metric: Metric) -> Loss:
    """Return the loss of a configuration; it takes unscaled similarities."""
    loss, scale = LOSSES[config.loss], config.scale_of(metric)
    if config.loss == "proxy":
        return partial(loss, alpha=scale, margin=config.margin)
    return lambda scores, exists: loss(scale * scores, exists)


def _finite(scores: Tensor, exists: Tensor) -> Tensor:
    """Convert scores to float32, and mask the scores of nodes that do not exist."""
    return scores.float().masked_fill(~exists, -torch.inf)


LOSSES: Mapping[LossName, Callable[..., Tensor]] = {
    "arborescence": arborescence_loss,
    "cross-entropy": cross_entropy,
    "proxy": proxy_loss,
    "bce": binary_cross_entropy,
}
