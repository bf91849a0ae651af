"""Label attention: where a text speaks of what a name names, and what it says there (OSLAT, section 3.2).

The name's vector is the query; the vectors of the text's tokens are keys and values. Neither of them passes another
matrix: that the two meet is left to the transformer that reads both. Whether the text names it at all is judged last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def label_attention(names: Tensor, tokens: Tensor, mask: Tensor, *, scaled: bool = False) -> Tensor:
    """Weigh the tokens of texts by how near they are to names, equation 2: ``softmax_k(h_e . h_k)``.

    In float32, whatever the precision of the vectors. The weights of a name sum to 1 over the text's tokens, those in
    ``mask``; others have none, and a text without any has zeros.

    Args:
        names: (..., names, dim), the leading shapes being broadcast: (names, dim) asks each text for the same names.
        tokens: (..., tokens, dim).
        mask: (..., tokens), True or 1 for the text's own tokens: [CLS] is none of them, as it speaks for the whole text
            and would draw all attention to it, nor are [SEP] and padding.
        scaled: whether inner products are divided by the square root of ``dim``, as the authors' code does.

    Returns:
        (..., names, tokens)

    """
    import torch

    with torch.autocast(names.device.type, enabled=False):  # which would round the products
        products = torch.einsum("...nd,...td->...nt", names.float(), tokens.float())
    if scaled:
        products = products / tokens.shape[-1] ** 0.5
    counts = mask.bool().unsqueeze(-2)
    weights = torch.softmax(products.masked_fill(~counts, torch.finfo(torch.float32).min), dim=-1)
    return torch.where(counts, weights, 0.0)


def entity_in_text(weights: Tensor, tokens: Tensor) -> Tensor:
    """Sum the vectors of a text's tokens by their weights, equation 3: what the text says of a name; float32.

    Args:
        weights: (..., names, tokens) of `label_attention`.
        tokens: (..., tokens, dim).

    Returns:
        (..., names, dim)

    """
    import torch

    with torch.autocast(tokens.device.type, enabled=False):
        return torch.einsum("...nt,...td->...nd", weights, tokens.float())


def name_scores(head: torch.nn.Linear | None, said: Tensor, names: Tensor) -> Tensor:
    """Score whether texts name what names name; float32.

    A head of one number judges what the text says alone, as in section 3.3. Any other maps what the text says and the
    name, and the score is their cosine; without a head it is the cosine of the two as they are.

    Args:
        head: from ``dim`` numbers to one or more.
        said: (..., names, dim) of `entity_in_text`.
        names: (..., names, dim), the names' vectors.

    Returns:
        (..., names)

    """
    import torch

    with torch.autocast(said.device.type, enabled=False):
        names = names.float()
        if head is None:
            return torch.cosine_similarity(said, names, dim=-1)
        judged: Tensor = head(said)
        if head.out_features == 1:
            return judged[..., 0]
        return torch.cosine_similarity(judged, head(names), dim=-1)
