"""Adaptive mixup: negatives that are moved towards the positive, the further the better the model knows it.

What the paper leaves open: the loss is differentiated through W and the positive's vector too, as its formulas are
written, unless ``mixup_gradient`` is False. The scores of W are scaled as those of the loss are.
Cosines compare unit vectors: these are what is mixed, and the mixture is made a unit vector again. Texts of several
token vectors are mixed place by place, the first token of the one with the first of the other; where one is longer, the
rest of it is as it was, or the share of the positive alone.
"""

from __future__ import annotations

import torch
from torch import Tensor


def positive_share(scores: Tensor, exists: Tensor) -> Tensor:
    """Return W of equation 9: the positive's share in the softmax over it and its negatives; (mentions,).

    Args:
        scores: (mentions, 1 + negatives) similarities, the positive's first.
        exists: (mentions, 1 + negatives) which there are.

    """
    return torch.softmax(scores.float().masked_fill(~exists, -torch.inf), dim=1)[:, 0]


def mixed_up(node: Tensor, mask: Tensor, share: Tensor, *, gradient: bool = True) -> tuple[Tensor, Tensor]:
    """Add a share of the positive to each negative, equation 10: ``share V_0 + V_i``; and say which tokens there are.

    It is no average: all of the negative is left. The positive stays what it is. A mixture has a token where either has
    one.

    Args:
        node: (mentions, 1 + negatives, tokens, dim) token vectors, the positive's first.
        mask: (mentions, 1 + negatives, tokens) which of them there are.
        share: (mentions,) alpha W.
        gradient: whether what is added is differentiated.

    """
    node = node * mask.unsqueeze(-1)
    positive, negatives = node[:, :1], node[:, 1:]
    added = share[:, None, None, None] * positive
    mixed = (added if gradient else added.detach()) + negatives
    return torch.cat([positive, mixed], dim=1), torch.cat([mask[:, :1], mask[:, :1] | mask[:, 1:]], dim=1)
