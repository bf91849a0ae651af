"""The hardest negatives: of those that a batch offers, the ones that the model takes for the most similar."""

from __future__ import annotations

import torch
from torch import Tensor


def hardest(scores: Tensor, exists: Tensor, n: int, n_others: int = 0) -> tuple[Tensor, Tensor]:
    """Choose the positive, then the n most similar negatives that exist, of equals the first.

    Equation 8 of the adaptive-mixup paper. That a mention's gold entities are none of its negatives is seen to before
    (`arbo.training.dual.negatives.in_batch`): else they were the hardest.

    Args:
        scores: (mentions, 1 + negatives) similarities, the positive's first.
        exists: (mentions, 1 + negatives) which there are.
        n: how many.
        n_others: how many of the other negatives are chosen after them, the first ones.

    Returns:
        The columns that are chosen, and which of these exist, where there are too few; (mentions, 1 + n + n_others)
        each, or as many as there are columns for.

    Examples:
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
