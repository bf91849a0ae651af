"""Late interaction with gradients: the score of token vectors that `clustering.late_interaction` uses for search.

Equation 6 of Cai et al. (2023) sums over all ``n_m`` tokens "after tokenization" of the input
``[CLS] left [Ms] mention [Me] right [SEP]``: special tokens count, as in ColBERT, and padding does not. For pooled
vectors, texts of one token, the sum of maxima is the inner product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def sum_of_max(
    query_tokens: torch.Tensor, query_mask: torch.Tensor, tokens: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Score queries with things: the sum over query tokens of the largest inner product with a token of the thing.

    This is `clustering.late_interaction.sum_of_max` with gradients, in float32, whatever the precision of the tokens.
    Tokens outside the masks get no gradient; equally near tokens share the gradient of a maximum. A text without tokens
    has the score 0. Memory: the inner products of all tokens of a pair.

    Args:
        query_tokens: (..., query tokens, dim); leading shapes are broadcast: (mentions, 1, tokens, dim) and
            (mentions, nodes, tokens, dim) compare each mention with its nodes, (entities, tokens, dim) each mention
            with all entities.
        query_mask: (..., query tokens), True or 1 for tokens that count.
        tokens: (..., tokens, dim).
        mask: (..., tokens).

    Returns:
        (...), the leading shapes broadcast.
    """
    import torch

    # Autocast would round the products too coarsely for a loss; so would TF32, which torch disables by default.
    with torch.autocast(query_tokens.device.type, enabled=False):
        products = torch.einsum("...qd,...td->...qt", query_tokens.float(), tokens.float())
    counts = mask.bool()
    best = products.masked_fill(~counts.unsqueeze(-2), -torch.inf).amax(dim=-1)
    is_summed = query_mask.bool() & counts.any(dim=-1, keepdim=True)
    return torch.where(is_summed, best, 0.0).sum(dim=-1)
