"""Label attention: where a text mentions an entity, and the vector of that mention (OSLAT, section 3.2).

The vector of a name is the query; the vectors of the text's tokens are keys and values. There are no further matrices:
the transformer that reads both makes them comparable. Finally, a score tells whether the text names the entity at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def label_attention(names: Tensor, tokens: Tensor, mask: Tensor) -> Tensor:
    """Compute the attention of names to the tokens of texts, equation 2: ``softmax_k(h_e . h_k)``.

    h_e is the vector of the name of an entity e, and h_k the vector of token k. The result is float32, whatever the
    precision of the vectors. The weights of a name sum to 1 over the tokens in ``mask``. Other tokens have weight 0, as
    do all tokens of a text with an empty mask. The mask covers only the text's own tokens: not [CLS], which represents
    the whole text and would draw all attention, nor [SEP], nor padding.

    ``names`` has the shape (..., names, dim), ``tokens`` (..., tokens, dim) and ``mask`` (..., tokens); the result has
    the shape (..., names, tokens). Leading dimensions are broadcast: names of the shape (names, dim) are used for every
    text.
    """
    import torch

    with torch.autocast(names.device.type, enabled=False):  # autocast would round the products
        products = torch.einsum("...nd,...td->...nt", names.float(), tokens.float())
    counts = mask.bool().unsqueeze(-2)
    weights = torch.softmax(products.masked_fill(~counts, torch.finfo(torch.float32).min), dim=-1)
    return torch.where(counts, weights, 0.0)


def entity_in_text(weights: Tensor, tokens: Tensor) -> Tensor:
    """Sum the vectors of a text's tokens by their weights, equation 3: the vector of a name in the text; float32.

    ``weights`` comes from `label_attention` and has the shape (..., names, tokens), ``tokens`` has the shape
    (..., tokens, dim), and the result (..., names, dim).
    """
    import torch

    with torch.autocast(tokens.device.type, enabled=False):
        return torch.einsum("...nt,...td->...nd", weights, tokens.float())


def name_scores(head: torch.nn.Linear | None, said: Tensor, names: Tensor) -> Tensor:
    """Score whether texts mention the entities of names; float32.

    The head maps the vector from the text and the vector of the name, and the score is their cosine; without a head
    (None), it is the cosine of the unmapped vectors. (The head of section 3.3 scores the vector from the text alone; it
    ranks entities worse.) ``said`` comes from `entity_in_text`; it and ``names`` have the shape (..., names, dim), and
    the result has the shape (..., names).
    """
    import torch

    with torch.autocast(said.device.type, enabled=False):
        names = names.float()
        mapped = (said, names) if head is None else (head(said), head(names))
        return torch.cosine_similarity(mapped[0], mapped[1], dim=-1)
