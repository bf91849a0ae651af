"""Pooling: how the vectors of a text's tokens become one vector, or stay several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from arbo.encoders.templates import TokenRow

if TYPE_CHECKING:
    import torch

Pooling = Literal["cls", "mean", "mention", "tokens"]


class TokenVectors(NamedTuple):
    """Vectors of the tokens of several rows, padded to the longest; float32 or coarser."""

    hidden: torch.Tensor
    """(rows, tokens, hidden size)."""
    mask: torch.Tensor
    """(rows, tokens): 1 where a row has a token, and 0 behind its end."""
    focus: torch.Tensor
    """(rows, tokens): 1 where the token is of the mention, or of the name."""


def n_vectors(row: TokenRow, pooling: Pooling) -> int:
    """Return of how many vectors a row of tokens is made: one, or one for each token, special ones too."""
    return len(row.ids) if pooling == "tokens" else 1


def pool(hidden: torch.Tensor, mask: torch.Tensor, focus: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Make one vector of a row's token vectors: (rows, tokens, dim) to (rows, 1, dim), in float32.

    ``"cls"`` takes the first, ``"mean"`` the mean over all tokens in ``mask``, ``"mention"`` that over those in
    ``focus``, or over all where a mention has no token of its own; ``"tokens"`` leaves all of them as they are. What
    ``mask`` leaves out is zeros in the means alone.
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
