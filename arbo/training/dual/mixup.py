"""Adaptive mixup: moves negatives towards the positive, further if the model is more certain of the positive.

Where the paper is silent: gradients flow through W and the positive's vector too, as in its formulas, unless
``mixup_gradient`` is False. The scores in W have the same scale as those in the loss. For cosines, unit vectors are
mixed and the mixture is normalised again. Texts with several token vectors are mixed token by token, the first with the
first; beyond the shorter text, the longer negative is unchanged, or the longer positive's share stands alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


def positive_share(scores: Tensor, exists: Tensor) -> Tensor:
    """Return W of equation 9: the positive's share in the softmax over it and its negatives; (mentions,).

    Args:
        scores: (mentions, 1 + negatives) similarities, the positive's first.
        exists: (mentions, 1 + negatives) which of them exist.
    """
    return torch.softmax(scores.float().masked_fill(~exists, -torch.inf), dim=1)[:, 0]


def mixed_up(node: Tensor, mask: Tensor, share: Tensor, *, gradient: bool = True) -> tuple[Tensor, Tensor]:
    """Add a share of the positive to each negative, equation 10: ``share V_0 + V_i``; return vectors and mask.

    This is a sum, not an average. The positive does not change. A mixture has a token where the positive or the
    negative has one.

    Args:
        node: (mentions, 1 + negatives, tokens, dim) token vectors, the positive's first.
        mask: (mentions, 1 + negatives, tokens) which of them exist.
        share: (mentions,) alpha W.
        gradient: whether gradients flow through the added share.
    """
    node = node * mask.unsqueeze(-1)
    positive, negatives = node[:, :1], node[:, 1:]
    added = share[:, None, None, None] * positive
    mixed = (added if gradient else added.detach()) + negatives
    return torch.cat([positive, mixed], dim=1), torch.cat([mask[:, :1], mask[:, :1] | mask[:, 1:]], dim=1)
