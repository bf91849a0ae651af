"""The cross-encoder: a transformer that reads a mention and an entity together, and says how well they fit.

It sees what a dual-encoder cannot, which words of the one answer to which of the other, and pays for it: every pair is
read anew. So it is asked about the candidates of a first stage alone, see `arbo.retrieval.reranking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from arbo.data.inputs import MentionInput
from arbo.data.knowledge_base import KnowledgeBase
from arbo.encoders.cross_config import CrossEncoderConfig
from arbo.encoders.dual import DualEncoder
from arbo.encoders.model_folder import load_single, save_model
from arbo.encoders.templates import FieldTokens, TokenRow
from arbo.encoders.texts import Texts
from arbo.encoders.tower import Precision, Tower
from arbo.engine import Floats, Ids
from arbo.errors import UsageError
from arbo.progress import Announce, quiet

if TYPE_CHECKING:
    import torch

SLICE = 4096
"""Pairs whose tokens are held at once."""


# Without slots: `cached_property` keeps the reader in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class CrossEncoder:
    """A score of a mention and an entity: a transformer over both, and a linear layer over its pooled vector.

    Load one with `from_pretrained`, or begin one with `of` and train it with `arbo.train_reranker`. Segments are not
    told apart, as in the code that the ArboEL paper is based on.
    """

    tower: Tower
    """Its projection is the linear layer: to one number, with a bias, in float32."""
    config: CrossEncoderConfig
    name: str = ""
    """What it was loaded from."""

    def __post_init__(self) -> None:
        if self.tower.projection is None or self.tower.dim != 1:
            raise UsageError(
                "a cross-encoder ends in a linear layer to one number: make one with CrossEncoder.of(tower)"
            )
        if min(self.pairs([], KnowledgeBase()).halves) < 1:
            raise UsageError(
                f"max_length={self.config.max_length}: half of that leaves no room beside the markers of a template"
            )

    @classmethod
    def of(cls, tower: Tower, config: CrossEncoderConfig | None = None) -> Self:
        """Begin with a copy of any transformer: its linear layer is untrained, and its scores mean nothing yet."""
        return cls(tower.with_projection(1, bias=True), config or CrossEncoderConfig())

    @classmethod
    def from_pretrained(
        cls,
        model: str | PathLike[str],
        config: CrossEncoderConfig | None = None,
        *,
        revision: str | None = None,
        device: str | None = None,
        precision: Precision = "float32",
    ) -> Self:
        """Load what `save_pretrained` wrote, with the saved configuration unless another is given; see `Tower.load`.

        Raises:
            DataError: also for a model that is no cross-encoder, a file that is missing or is not the one that was
                saved, or a model that a newer arbo saved.

        """
        options: dict[str, Any] = {"revision": revision, "device": device, "precision": precision}
        tower, saved = load_single(model, CrossEncoderConfig, **options)
        return cls(tower, config or saved, fspath(model))

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write transformer, linear layer and configuration, complete or not at all; see `DualEncoder.save_pretrained`.

        Raises:
            UsageError: the folder cannot be written, or holds anything but a model that arbo saved.

        """
        save_model(self.tower, self.tower, self.config, folder)

    def copy(self) -> Self:
        """Return one with weights of its own, as they are now, in evaluation mode."""
        return replace(self, tower=self.tower.copy())

    def with_markers(self) -> Self:
        """Return a copy to whose vocabulary the markers of both templates are added; see `DualEncoder.with_markers`."""
        return replace(self, tower=self._reader.with_markers().mention_tower)

    @property
    def module(self) -> torch.nn.ModuleList:
        """All that has weights, as of a `DualEncoder`."""
        return self._reader.module

    @property
    def threshold(self) -> float:
        """Default threshold on 1 minus the probability of an entity among the candidates."""
        return self.config.entity_threshold

    @property
    def retrieval_weight(self) -> float:
        """What the first stage's similarity counts for beside its score."""
        return self.config.retrieval_weight

    @property
    def settings(self) -> dict[str, Any]:
        """What identifies it in a manifest."""
        return {
            "encoder": "cross-encoder",
            "model": self.name,
            "weights": [self.tower.fingerprint],
            "config": asdict(self.config),
        }

    def pairs(self, mentions: Sequence[MentionInput], kb: KnowledgeBase) -> Pairs:
        """Collect what is to be read of mentions and entities."""
        return Pairs(self._reader.mention_texts(mentions), self._reader.entity_texts(kb), self.config.max_length)

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score mention ``mention[i]`` with the entity in row ``entity[i]``, in evaluation mode; (pairs,), unbounded.

        Each distinct pair of texts is read once, pairs of like length together.

        Raises:
            ArboError: not even one pair fits into memory.
            DataError: the model gives NaN or infinity.

        """
        used, place = np.unique(entity, return_inverse=True)
        pairs = self.pairs(mentions, KnowledgeBase(kb.entities[row] for row in used))
        n = len(pairs.entities.keys)
        distinct, row = np.unique(pairs.mentions.row[mention] * n + pairs.entities.row[place], return_inverse=True)
        scores = np.empty(len(distinct), np.float32)
        slices = range(0, len(distinct), SLICE)
        for begin in announce("scoring pairs")(slices, len(slices)):
            rows = pairs.spell(*np.divmod(distinct[begin : begin + SLICE], n))
            scores[begin : begin + SLICE] = self.tower.embed(rows, self.config.pooling)[:, 0]
        return scores[row]

    @cached_property
    def _reader(self) -> DualEncoder:
        """Reads each part as if it were alone."""
        return DualEncoder(self.tower, self.tower, self.config.reading)


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Distinct texts of mentions and of entities, any two of which make a sequence; it is made when it is needed."""

    mentions: Texts
    entities: Texts
    max_length: int
    """Tokens of a sequence."""

    @property
    def halves(self) -> tuple[int, int]:
        """How many tokens the fields of the mention and those of the entity have at least."""
        half = self.max_length // 2
        return self.mentions.speller.room - (self.max_length - half), self.entities.speller.room - half

    def spell(self, mention: Ids, entity: Ids) -> list[TokenRow]:
        """Make the tokens of pairs of texts, given by their places: the mention's, then the entity's.

        Each part has half of the window, and what the other does not need. The row's focus is the mention.
        """
        own, others = _spelt(self.mentions, mention), _spelt(self.entities, entity)
        least, room = self.halves[0], sum(self.halves)
        rows = []
        for m, e in zip(mention.tolist(), entity.tolist(), strict=True):
            share = max(least, room - _length(others[e]))
            first = self.mentions.speller.row(own[m], share)
            second = self.entities.speller.row(others[e], room - min(share, _length(own[m])))
            rows.append(TokenRow(first.ids + second.ids, first.begin, first.end))
        return rows


def _spelt(texts: Texts, chosen: Ids) -> dict[int, FieldTokens]:
    """Spell some texts, each once."""
    places = np.unique(chosen)
    spelt = texts.speller.spell([texts.read(int(i)) for i in texts.first[places]])
    return dict(zip(places.tolist(), spelt, strict=True))


def _length(tokens: FieldTokens) -> int:
    return sum(map(len, tokens.values()))
