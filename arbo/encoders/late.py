"""Late interaction with gradients: the score of token vectors that `clustering.late_interaction` searches by.

Which tokens count: equation 6 of Cai et al. (2023) runs over all ``n_m`` tokens "after tokenization" of the input
``[CLS] left [Ms] mention [Me] right [SEP]``, so that special tokens are in, as in ColBERT, and padding is out. A pooled
vector is a text of one token: the sum of maxima is then the inner product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def sum_of_max(
    query_tokens: torch.Tensor, query_mask: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Score queries with things: the sum over the query's tokens of the largest inner product with one of the thing's.

    In float32, whatever the precision of the tokens; `clustering.late_interaction.sum_of_max` with gradients. Nothing
    flows to tokens outside the masks; tokens that are equally near share the gradient of a maximum. A text without
    tokens has the score 0. Memory: the inner products of all tokens of a pair.

    Args:
        query_tokens: (..., query tokens, dim), the leading shapes being broadcast: (mentions, 1, tokens, dim) with
            (mentions, nodes, tokens, dim) compares each mention with its nodes, with (entities, tokens, dim) each with
            all.
        query_mask: (..., query tokens), True or 1 for what counts.
        tokens: (..., tokens, dim).
        mask: (..., tokens).

    Returns:
        (...), the leading shapes broadcast.

    """
    import torch

    # Autocast would round the products, which is coarser than what a loss learns from; and so would TF32, which torch
    # leaves off unless the caller turns it on.
    with torch.autocast(query_tokens.device.type, enabled=False):
        products = torch.einsum("...qd,...td->...qt", query_tokens.float(), tokens.float())
    counts = mask.bool()
    best = products.masked_fill(~counts.unsqueeze(-2), -torch.inf).amax(dim=-1)
    is_summed = query_mask.bool() & counts.any(dim=-1, keepdim=True)
    return torch.where(is_summed, best, 0.0).sum(dim=-1)
