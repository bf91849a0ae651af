"""Adaptive mixup: negatives that are moved towards the positive, the further the better the model knows it.

What the paper leaves open: the loss is differentiated through W and the positive's vector too, as its formulas are
written, unless ``mixup_gradient`` is False. The scores of W are multiplied by ``scale``, as those of the loss are.
Cosines compare unit vectors: these are what is mixed, and the mixture is made a unit vector again.
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


def mixed_up(node: Tensor, share: Tensor, *, gradient: bool = True) -> Tensor:
    """Add a share of the positive to each negative, equation 10: ``share V_0 + V_i``; (mentions, 1 + negatives, dim).

    It is no average: all of the negative is left. The positive stays what it is.

    Args:
        node: (mentions, 1 + negatives, dim) vectors, the positive's first.
        share: (mentions,) alpha W.
        gradient: whether what is added is differentiated.

    """
    positive = node[:, :1]
    added = share[:, None, None] * positive
    return torch.cat([positive, (added if gradient else added.detach()) + node[:, 1:]], dim=1)
