"""The cross-encoder of mention pairs: a transformer that reads two mentions in their sentences, and scores the pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from arbo.data.inputs import MentionInput
from arbo.encoders.cross import CrossEncoder, Pairs
from arbo.encoders.cross_config import CrossEncoderConfig, PairPooling
from arbo.engine import Floats, Ids
from arbo.progress import Announce, quiet
from arbo.settings import Count, Number


@dataclass(frozen=True, slots=True)
class PairConfig(CrossEncoderConfig):
    """Settings of a cross-encoder of mention pairs; those of entities, candidates and retrieval have no effect."""

    format: ClassVar[str] = "arbo-edges"

    entity: str = "{name} [SEP]"
    pooling: PairPooling = "both"
    context: Number | None = 25
    within_line: bool = True
    max_length: Count = 128


@dataclass(frozen=True, eq=False)
class PairEncoder(CrossEncoder):
    """Scores two mentions as a cross-encoder scores a mention and an entity; both have the mention's template."""

    kind: ClassVar[str] = "cross-encoder of mention pairs"
    reads: ClassVar[type[CrossEncoderConfig]] = PairConfig

    def mention_pairs(self, mentions: Sequence[MentionInput]) -> Pairs:
        """Collect the texts of mentions, as the first and as the second one of a pair."""
        template = self.config.mention.removeprefix("[CLS] ")
        second = replace(self._reader, config=replace(self.config.reading, mention=template))
        return Pairs(self._reader.mention_texts(mentions), second.mention_texts(mentions), self.config.max_length)

    def compare(self, mentions: Sequence[MentionInput], first: Ids, second: Ids, announce: Announce = quiet) -> Floats:
        """Score mention ``first[i]`` with mention ``second[i]``; return unbounded numbers, (pairs,).

        Each distinct pair of texts is read once, in batches of similar length, which affect only rounding. See
        `Tower.embed` for the errors.
        """
        used, place = np.unique(np.concatenate([first, second]), return_inverse=True)
        pairs = self.mention_pairs([mentions[row] for row in used])
        return self.read(pairs, place[: len(first)], place[len(first) :], announce)
