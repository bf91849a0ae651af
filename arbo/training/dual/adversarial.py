"""Perturbed copies of positives and negatives, see `arbo.training.fgsm`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from arbo.encoders.pooling import Pooling
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Metric
from arbo.training.dual.batches import Batch, Reader
from arbo.training.dual.objective import Pairs
from arbo.training.fgsm import in_worst_direction
from arbo.training.losses import comparable, sum_of_max


def adversarial_nodes(reader: Reader, batch: Batch, pairs: Pairs, epsilon: float, seed: int) -> Tensor:
    """Encode perturbed copies of the nodes of some mentions; return vectors in the shape of ``pairs.node``.

    They come from `comparable`; missing nodes have zeros. Gradients do not flow to the mentions. ``epsilon`` is the
    change of each component of an input; ``seed`` seeds dropout.
    """
    encoder = reader.encoder
    mention, place = np.nonzero(pairs.exists.cpu().numpy())
    text = pairs.text.cpu().numpy()[mention, place]
    order = np.argsort(text, kind="stable")  # the shortest first
    texts = [batch.texts[i] for i in text[order]]
    nodes = torch.zeros_like(pairs.node)
    for i, (tower, own) in enumerate(reader.batches(texts)):
        at, column = (torch.from_numpy(array[order[own]]).to(nodes.device) for array in (mention, place))
        copies = perturbed(
            tower,
            [texts[j].row for j in own],
            pairs.node_mask[at, column],
            pairs.mention[at, 0],
            pairs.mention_mask[at, 0],
            epsilon * torch.where(column == 0, -1.0, 1.0),
            encoder.config.pooling,
            encoder.metric,
            seed + i,
        )
        nodes[at, column, : copies.shape[1]] = copies
    return nodes


def perturbed(
    tower: Tower,
    rows: Sequence[TokenRow],
    mask: Tensor,
    anchor: Tensor,
    anchor_mask: Tensor,
    step: Tensor,
    pooling: Pooling,
    metric: Metric,
    seed: int,
) -> Tensor:
    """Encode texts after moving their input vectors towards their anchors by ``step``, or away where it is negative.

    Each ``anchor``, (texts, tokens, dim), comes from `comparable`; ``step`` has the shape (texts,). Masks, (texts,
    tokens), say which token vectors exist. The result, (texts, tokens, dim), has as many tokens as the longest text.
    """
    anchor = anchor.detach()
    return in_worst_direction(
        tower,
        lambda: comparable(tower.encode(rows, pooling), metric),
        lambda found: sum_of_max(anchor, anchor_mask, found, mask[:, : found.shape[1]]),
        step,
        seed,
    )
