"""Late interaction of a transformer: token vectors of mentions and entities, and their score with gradients.

Which tokens count: equation 6 of Cai et al. (2023) runs over all ``n_m`` tokens "after tokenization" of the input
``[CLS] left [Ms] mention [Me] right [SEP]``, so that special tokens are in, as in ColBERT, and padding is out. With
``special=False`` the special tokens are read but not compared; what remains are the words.

Of an encoder with the metric ``"cosine"`` token vectors are of length 1, so that an inner product is a cosine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from arbo.encoders.dual import SLICE, DualEncoder
from arbo.encoders.encoder import MentionInput
from arbo.encoders.templates import TokenRow
from arbo.encoders.texts import Texts
from arbo.encoders.tower import TokenVectors, Tower
from arbo.knowledge_base import KnowledgeBase
from arbo.progress import Announce, quiet
from clustering.arrays import Bools, Floats
from clustering.knn import Progress
from clustering.late_interaction import TokenMatrices
from clustering.vectors import Metric, unit

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

    with torch.autocast(
        query_tokens.device.type, enabled=False
    ):  # its rounding is coarser than what a loss learns from
        products = query_tokens.float() @ tokens.float().transpose(-1, -2)
    counts = mask.bool()
    best = products.masked_fill(~counts.unsqueeze(-2), -torch.inf).amax(dim=-1)
    is_summed = query_mask.bool() & counts.any(dim=-1, keepdim=True)
    return torch.where(is_summed, best, 0.0).sum(dim=-1)


def token_vectors(tower: Tower, rows: Sequence[TokenRow], *, special: bool = True) -> TokenVectors:
    """Make vectors of the tokens of rows, one or more, all in one batch, in the space of `Tower.encode`'s vectors.

    In float32, on the model's device; gradients and dropout are as the caller has set them. The mask has the tokens
    that are compared.
    """
    import torch

    hidden, mask, focus = tower.read(rows)
    hidden = hidden.float()
    if tower.projection is not None:
        hidden = tower.projection(hidden).float()
    if not special:
        words = np.zeros(mask.shape, np.int64)
        for place, compared in enumerate(_compared(tower, rows, special=False)):
            words[place, : len(compared)] = compared
        mask = torch.from_numpy(words).to(mask.device)
    return TokenVectors(hidden, mask, focus)


def mention_tokens(
    encoder: DualEncoder, mentions: Sequence[MentionInput], announce: Announce = quiet, *, special: bool = True
) -> TokenMatrices:
    """Encode each mention as its template says, as the vectors of its tokens; see `entity_tokens`."""
    texts = encoder.mention_texts(mentions)
    return _token_matrices(texts, len(mentions), encoder.metric, special, announce("tokens of mentions"))


def entity_tokens(
    encoder: DualEncoder, kb: KnowledgeBase, announce: Announce = quiet, *, special: bool = True
) -> TokenMatrices:
    """Encode each name of every entity, or every entity as a whole, as the vectors of its tokens.

    Each distinct text is encoded once, and nothing is kept in the encoder's cache, which has one vector a text. Memory
    beyond the result: a batch. The result has 4 bytes a number: `DualEncoder.with_projection` makes it smaller.

    Raises:
        ArboError: not even one text fits into memory.
        DataError: the model gives NaN or infinity.

    """
    texts = encoder.entity_texts(kb)
    return _token_matrices(texts, len(kb), encoder.metric, special, announce("tokens of entities"))


def _token_matrices(texts: Texts, n: int, metric: Metric, special: bool, progress: Progress) -> TokenMatrices:
    """Spell all texts, to know how much room they need, then encode them, those of like length together."""
    tower = texts.tower
    order = np.argsort(texts.length, kind="stable")
    slices = [order[begin : begin + SLICE] for begin in range(0, len(order), SLICE)]
    indptr = np.zeros(len(order) + 1, np.int64)
    for chosen in slices:
        indptr[chosen + 1] = [own.sum() for own in _compared(tower, texts.spell(chosen), special=special)]
    np.cumsum(indptr, out=indptr)
    matrix = np.empty((int(indptr[-1]), tower.dim), np.float32)

    def compute(rows: Sequence[TokenRow]) -> list[Floats]:
        hidden, mask, _ = token_vectors(tower, rows, special=special)
        return [own[counts] for own, counts in zip(hidden.cpu().numpy(), mask.bool().cpu().numpy(), strict=True)]

    n_bad = 0
    for chosen in progress(slices, len(slices)):
        for places, found in tower.in_batches(texts.spell(chosen), compute):
            for text, tokens in zip(chosen[places], found, strict=True):
                n_bad += not np.isfinite(tokens).all()
                matrix[indptr[text] : indptr[text + 1]] = unit(tokens) if metric == "cosine" else tokens
    tower.refuse(n_bad, len(order))
    return TokenMatrices(matrix, indptr, texts.row.astype(np.int32), np.array(texts.owner, np.int32), n)


def _compared(tower: Tower, rows: Sequence[TokenRow], *, special: bool) -> list[Bools]:
    """Say which tokens of each row are compared; an unknown word is no special token."""
    added = tower.tokenizer.added_tokens_decoder.items()
    markers = [id_ for id_, token in added if token.special and id_ != tower.tokenizer.unk_token_id]
    return [special | ~np.isin(np.array(row.ids, np.int64), markers) for row in rows]
