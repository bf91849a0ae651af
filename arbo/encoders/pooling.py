"""Pooling: turn the token vectors of each text into one vector, or keep all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from arbo.encoders.templates import TokenRow

if TYPE_CHECKING:
    import torch

Pooling = Literal["cls", "mean", "mention", "tokens"]


def n_vectors(row: TokenRow, pooling: Pooling) -> int:
    """Return the number of vectors of a row: one for each token, special or not, with pooling ``tokens``; else one."""
    return len(row.ids) if pooling == "tokens" else 1


def pool(hidden: torch.Tensor, mask: torch.Tensor, focus: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Pool the token vectors of each row: (rows, tokens, dim) to (rows, 1, dim), in float32.

    ``mask`` has 1 for the tokens of a row and 0 for padding, ``focus`` 1 for those of the mention or the name.
    ``"cls"`` takes the first token, ``"mean"`` the mean over the tokens in ``mask``, ``"mention"`` the mean over the
    tokens in ``focus``, or over those in ``mask`` if the row has none in ``focus``. ``"tokens"`` does not pool: the
    result has all vectors, including those outside ``mask``.
    """
    hidden = hidden.float()
    if pooling == "tokens":
        return hidden
    if pooling == "cls":
        return hidden[:, :1]
    if pooling == "mention":
        mask = focus + mask * (focus.sum(dim=1, keepdim=True) == 0)
    weight = mask.unsqueeze(-1).float()
    return (hidden * weight).sum(dim=1, keepdim=True) / weight.sum(dim=1, keepdim=True).clamp(min=1)
