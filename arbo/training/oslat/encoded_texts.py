"""Token vectors of texts and vectors of names from a frozen model, for training the linking head.

Both are computed once. The text's vector for a name follows from them by two small products, and is never kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from arbo.engine import Bools, Ids
from arbo.progress import Announce, quiet
from arbo.spans.label_attention import entity_in_text, label_attention
from arbo.spans.model import LabelAttention
from arbo.training.oslat.annotated_texts import AnnotatedTexts
from arbo.training.oslat.synonyms import Others


@dataclass(frozen=True, eq=False, slots=True)
class Asked:
    """Texts, and the names to look for in each text."""

    text: Ids
    """(texts,)"""
    name: Ids
    """(texts, names) -1 for none."""
    owner: Ids
    """(texts, names) the entity of each name, -1 for none."""
    is_there: Bools
    """(texts, names) whether the name is of an entity in the text."""

    def __len__(self) -> int:
        return len(self.text)

    def part(self, rows: slice | Ids) -> Asked:
        """Take some of the texts."""
        return Asked(self.text[rows], self.name[rows], self.owner[rows], self.is_there[rows])


@dataclass(frozen=True, eq=False, slots=True)
class Encoded:
    """Vectors of texts and names from a frozen model."""

    data: AnnotatedTexts
    scaled: bool
    tokens: list[Tensor]
    """(tokens, dim) for each text."""
    names: Tensor
    """(names, dim) in the order of `Synonyms`."""
    others: Others

    @classmethod
    def of(cls, model: LabelAttention, data: AnnotatedTexts, announce: Announce = quiet) -> Self:
        """Encode all texts and names once, in evaluation mode."""
        tokens = [own for own, _ in model.token_vectors(data.texts, announce)]
        names = model.name_vectors(data.kb, announce)[0][torch.from_numpy(data.synonyms.place)]
        others = Others.of(data.synonyms, np.arange(len(data.kb)))
        return cls(data, model.config.scaled, tokens, names, others)

    @property
    def queries(self) -> Ids:
        """The texts that have an entity."""
        return np.unique(self.data.text)

    def asked(self, texts: Ids, n: int, rng: np.random.Generator) -> Asked:
        """Look in each text for all names of its entities, and for ``n`` names of others."""
        synonyms, data = self.data.synonyms, self.data
        own = [synonyms.of_entities(data.entity[data.start[text] : data.start[text + 1]]) for text in texts]
        others = self.others.draw([synonyms.spelling[names] for names in own], n, rng)
        width = max(map(len, own), default=0)
        there = np.full((len(own), width), -1)
        for row, names in zip(there, own, strict=True):
            row[: len(names)] = names
        names = np.hstack([there, others])
        owner = np.where(names >= 0, synonyms.owner[names], -1)
        return Asked(texts, names, owner, (names >= 0) & (np.arange(names.shape[1]) < width))

    def read(self, text: Ids, name: Ids) -> tuple[Tensor, Tensor]:
        """Return the text's vector for each name, and the vector of the name; (texts, names, dim) both."""
        tokens = pad_sequence([self.tokens[i] for i in text], batch_first=True)
        length = torch.tensor([len(self.tokens[i]) for i in text], device=tokens.device)
        mask = torch.arange(tokens.shape[1], device=tokens.device) < length[:, None]
        names = self.names[torch.from_numpy(np.maximum(name, 0))]
        return entity_in_text(label_attention(names, tokens, mask, scaled=self.scaled), tokens), names
