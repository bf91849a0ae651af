"""Pooling: turn the token vectors of each text into one vector, or keep all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from arbo.encoders.templates import TokenRow

if TYPE_CHECKING:
    import torch

Pooling = Literal["cls", "mean", "mention", "tokens"]
RowPooling = Pooling | Literal["both"]
"""A pooling of any row of tokens; ``both`` is for the rows of pairs."""
BOTH = 4
"""Number of parts of a vector that was pooled by ``both``."""


class TokenVectors(NamedTuple):
    """Token vectors of several rows, padded to the longest; float32 or lower precision."""

    hidden: torch.Tensor  # (rows, tokens, hidden size)
    mask: torch.Tensor  # (rows, tokens): 1 for tokens of the row, 0 for padding
    focus: torch.Tensor  # (rows, tokens): 1 for tokens of the mention or the name, 2 for those of a pair's second one


def n_vectors(row: TokenRow, pooling: RowPooling) -> int:
    """Return the number of vectors of a row: one for each token, special or not, with pooling ``tokens``; else one."""
    return len(row.ids) if pooling == "tokens" else 1


def pool(hidden: torch.Tensor, mask: torch.Tensor, focus: torch.Tensor, pooling: RowPooling) -> torch.Tensor:
    """Pool the token vectors of each row: (rows, tokens, dim) to (rows, 1, dim), in float32.

    ``"cls"`` takes the first token, ``"mean"`` the mean over the tokens in ``mask``, ``"mention"`` the mean over the
    tokens in ``focus``, or over those in ``mask`` if the row has none in ``focus``. ``"tokens"`` does not pool: the
    result has all vectors, including those outside ``mask``. ``"both"`` joins the means over both parts of ``focus``,
    their product and their absolute difference, so that the result has 4 times as many dimensions.
    """
    import torch

    hidden = hidden.float()
    if pooling == "tokens":
        return hidden
    if pooling == "cls":
        return hidden[:, :1]
    if pooling == "both":
        first, second = (_mean(hidden, focus == part) for part in (1, 2))
        return torch.cat([first, second, first * second, (first - second).abs()], dim=2)
    if pooling == "mention":
        mask = focus + mask * (focus.sum(dim=1, keepdim=True) == 0)
    return _mean(hidden, mask)


def _mean(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weight = mask.unsqueeze(-1).float()
    return (hidden * weight).sum(dim=1, keepdim=True) / weight.sum(dim=1, keepdim=True).clamp(min=1)
