"""Synonym marginalisation, the loss of BioSyn (Sung et al. 2020): a mention need not choose among right names."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

import arbo
from library.results import say

BATCH, RATE, SCALE, DECAY, SEED = SETTINGS = 16, 2e-5, 20.0, 0.01, 0
"""Mentions a step, learning rate of AdamW, what cosines are multiplied with, weight decay, and the seed."""


class Item(NamedTuple):
    """A mention's name, its candidates, and whether each is right."""

    name: str
    candidates: tuple[str, ...]
    is_right: tuple[bool, ...]


def epochs(encoder: arbo.DualEncoder, items: Iterable[Item]) -> Iterator[arbo.DualEncoder]:
    """Train a copy, on each distinct item once an epoch, and yield a copy of it after each; never end.

    Items of which all candidates are right, or none, are left out.
    """
    own = sorted({item for item in items if any(item.is_right) and not all(item.is_right)})
    model, order = encoder.copy(), np.random.default_rng(SEED)
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=RATE, weight_decay=DECAY)
    spell = _speller(model, own)
    torch.manual_seed(SEED)
    while True:
        model.module.train()
        total = 0.0
        for some in np.array_split(order.permutation(len(own)), -(-len(own) // BATCH)):
            loss = _loss(model, spell, [own[place] for place in some])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            total += float(loss.detach()) * len(some)
        model.module.eval()
        say(f"{len(own)} mentions, loss {total / len(own):.3f}")
        yield model.copy()


def _speller(model: arbo.DualEncoder, items: Sequence[Item]) -> dict[str, Any]:
    """Return the tokens of each name."""
    names = sorted({name for item in items for name in (item.name, *item.candidates)})
    texts = model.entity_texts(arbo.KnowledgeBase(arbo.Entity(str(row), name) for row, name in enumerate(names)))
    tokens = texts.spell(np.arange(len(texts.keys)))
    return {name: tokens[row] for name, row in zip(names, texts.row.tolist(), strict=True)}


def _loss(model: arbo.DualEncoder, spell: dict[str, Any], items: Sequence[Item]) -> torch.Tensor:
    """Return the mean of the negative logarithms of the mass on right candidates."""
    names = sorted({name for item in items for name in (item.name, *item.candidates)})
    row_of = {name: row for row, name in enumerate(names)}
    with torch.autocast(model.entity_tower.model.device.type, torch.bfloat16):
        found = model.entity_tower.encode_apart([spell[name] for name in names], model.config.pooling)
    vectors = normalize(found.float(), dim=1)
    losses = []
    for item in items:
        scores = SCALE * (vectors[[row_of[name] for name in item.candidates]] @ vectors[row_of[item.name]])
        losses.append(scores.logsumexp(0) - scores[torch.tensor(item.is_right)].logsumexp(0))
    return torch.stack(losses).mean()
