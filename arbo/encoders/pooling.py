"""Pooling: turn the token vectors of each text into one vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Pooling = Literal["cls", "mean", "mention"]


def pool(hidden: torch.Tensor, mask: torch.Tensor, focus: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Pool the token vectors of each row: (rows, tokens, dim) to (rows, dim), in float32.

    ``mask`` has 1 for the tokens of a row and 0 for padding, ``focus`` 1 for those of the mention or the name.
    ``"cls"`` takes the first token, ``"mean"`` the mean over the tokens in ``mask``, ``"mention"`` the mean over the
    tokens in ``focus``, or over those in ``mask`` if the row has none in ``focus``.
    """
    hidden = hidden.float()
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "mention":
        mask = focus + mask * (focus.sum(dim=1, keepdim=True) == 0)
    weight = mask.unsqueeze(-1).float()
    return (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
