"""Losses: from the scores of a mention's positive and negatives to one number a mention.

A loss takes ``scores``, (mentions, 1 + negatives), the positive first, higher being nearer; and ``exists``, of the same
shape, which is False where a mention has fewer negatives than others. It gives (mentions,) in float32, whatever the
precision of the scores: small differences between near-certain probabilities are what is learnt from at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import softplus

from arbo.training.config import LossName

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(scores: Tensor, exists: Tensor) -> Tensor:
    """Minus the logarithm of the positive's share in the softmax.

    A mention without negatives has loss 0, and no gradient.
    """
    scores = _finite(scores, exists)
    return torch.logsumexp(scores, dim=1) - scores[:, 0]


def arborescence_loss(scores: Tensor, exists: Tensor) -> Tensor:
    r"""Equation 6 of the ArboEL paper: ``-(log p_0 + sum_i log(1 - p_i))`` over the negatives i, p being the softmax.

    The paper leaves out the minus sign, and writes p over dissimilarities; here it is over similarities, so that a near
    positive is a probable one.

    ``1 - p`` is made without subtraction. With ``rest_i`` the softmax's denominator without i, ``1 - p_i`` is the
    sigmoid of ``log rest_i - s_i``. Only the largest p can be near 1, and only there is ``rest`` summed anew; elsewhere
    ``log(1 - p)`` loses nothing.
    """
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


def _finite(scores: Tensor, exists: Tensor) -> Tensor:
    """Raise the precision, and give what does not exist no share."""
    if scores.shape != exists.shape or scores.ndim != 2 or not scores.shape[1]:
        raise ValueError(f"scores must be (mentions, 1 + negatives), not {scores.shape} with exists {exists.shape}")
    return scores.float().masked_fill(~exists, -torch.inf)


LOSSES: Mapping[LossName, Loss] = {"arborescence": arborescence_loss, "cross-entropy": cross_entropy}
