"""The hardest negatives: of those that a batch offers, the ones that the model takes for the most similar."""

from __future__ import annotations

import torch
from torch import Tensor


def hardest(scores: Tensor, exists: Tensor, n: int, n_others: int = 0) -> Tensor:
    """Keep the positive and the n most similar negatives that exist, of equals the first; (mentions, 1 + negatives).

    Equation 8 of the adaptive-mixup paper. That a mention's gold entities are none of its negatives is seen to before
    (`arbo.training.negatives.in_batch`): else they were the hardest.

    Args:
        scores: (mentions, 1 + negatives) similarities, the positive's first.
        exists: (mentions, 1 + negatives) which there are.
        n: how many.
        n_others: how many of the other negatives are kept too, the first ones.

    Examples:
        >>> exists = torch.tensor([[True, True, True, False]])
        >>> hardest(torch.tensor([[0.1, 0.3, 0.7, 0.9]]), exists, 1).tolist()
        [[True, False, True, False]]

    """
    negatives = scores[:, 1:].masked_fill(~exists[:, 1:], -torch.inf)
    top = negatives.argsort(dim=1, descending=True, stable=True)[:, :n]
    kept = torch.zeros_like(exists)
    kept[:, 0] = True
    kept[:, 1:].scatter_(1, top, True)
    others = exists & ~kept
    return (kept & exists) | (others & (others.cumsum(dim=1) <= n_others))
