"""The cross-encoder: a transformer that reads a mention and an entity together, and scores the pair.

It must read every pair, and therefore scores only the candidates of a first stage, see `arbo.retrieval.reranking`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
import torch

from arbo.data import KnowledgeBase, MentionInput
from arbo.encoders.dual import DualEncoder, Texts
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.model_folder import OneTower
from arbo.encoders.pretrained import linear_of
from arbo.encoders.templates import FieldTokens, TokenRow
from arbo.encoders.tower import Tower
from arbo.engine import Floats, Ids
from arbo.errors import UsageError
from arbo.progress import Announce, quiet
from arbo.settings import Count, NotBelow0, Number, Settings, Share

SLICE = 4096  # number of pairs whose tokens are in memory at once

PairPooling = Literal["cls", "mean"]


@dataclass(frozen=True, slots=True)
class CrossEncoderConfig(Settings):
    """Settings of the cross-encoder: its input for a mention and an entity, and the pooling of its output.

    A pair is one sequence: the mention, then the entity. The defaults are those of the ArboEL paper (section 3.3).
    """

    format: ClassVar[str] = "arbo-cross-encoder"

    mention: str = "[CLS] {left} [START] {mention} [END] {right} [SEP]"
    """Template of a mention, with the fields of `EncoderConfig.mention`."""
    entity: str = "{name} [TITLE] {description} [SEP]"
    """Template of an entity, with the fields of `EncoderConfig.entity`; without ``[CLS]``, as it comes second."""
    pooling: PairPooling = "cls"
    """Vector from which the score is computed: that of the first token (``cls``) or the mean of all (``mean``)."""
    context: Number | None = None
    """Maximum number of words on either side of the mention; None means as many as fit."""
    within_line: bool = False
    """Restrict the context to the line of the mention, for texts with one sentence per line."""
    max_length: Count = 256
    """Maximum number of tokens per pair, including special tokens. Each part gets half, plus what the other does not
    use."""
    candidates: Count = 64
    """Number of candidates per mention in training and, by default, in `arbo link`; in Python, a `Linker` with this
    reranker reads `LinkerConfig.candidates` of them."""
    retrieval_weight: NotBelow0 = 0.0
    """Weight of the similarity from retrieval, which is added to the score. It is also added in training, so that the
    cross-encoder learns to correct the retrieval. 0 leaves the similarity out, as the papers do."""
    entity_threshold: Share = 0.5
    """Default threshold on 1 minus the probability of an entity among the candidates; see
    `arbo.retrieval.reranking`."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        if self.reading.templates()[1].parts[0].text == "[CLS]":
            raise UsageError(f"template {self.entity!r} is the second part of a sequence; leave out its [CLS]")

    @property
    def reading(self) -> EncoderConfig:
        """The settings for reading each part alone."""
        shared = ("mention", "entity", "context", "within_line", "max_length")
        return EncoderConfig(entity_view="whole", **{name: getattr(self, name) for name in shared})


# Without slots: `cached_property` keeps the reader in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class CrossEncoder(OneTower[CrossEncoderConfig]):
    """Scores a mention and an entity with a transformer over both and a linear layer over its pooled vector.

    Load a model with `from_pretrained`, or make one with `of` and train it with `arbo.train_reranker`. Token types do
    not distinguish mention and entity, as in ArboEL's code. The tower's projection is the linear layer, with a bias.
    """

    kind: ClassVar[str] = "cross-encoder"
    settings_class: ClassVar[type[Settings]] = CrossEncoderConfig

    def __post_init__(self) -> None:
        if min(self.halves) < 1:
            rule = "half of it must hold the markers of a template and at least one more token"
            raise UsageError(f"max_length={self.config.max_length} is too small: {rule}; raise max_length")

    @classmethod
    def of(cls, tower: Tower, config: CrossEncoderConfig | None = None) -> Self:
        """Make an untrained cross-encoder from any transformer; its linear layer is the same each time."""
        width = tower.model.config.hidden_size
        weight = torch.nn.init.orthogonal_(torch.empty(1, width), generator=torch.Generator().manual_seed(0))
        layer = linear_of({"weight": weight, "bias": torch.zeros(1)}, width).to(tower.model.device)
        return cls(Tower.of(tower.model, tower.tokenizer, layer), config or CrossEncoderConfig())

    def with_markers(self) -> Self:
        """Return a copy with the markers of both templates in its vocabulary; see `DualEncoder.with_markers`."""
        return replace(self, tower=self._reader.with_markers().mention_tower)

    @property
    def retrieval_weight(self) -> float:
        """See `CrossEncoderConfig.retrieval_weight`."""
        return self.config.retrieval_weight

    @property
    def halves(self) -> tuple[int, int]:
        """Guaranteed number of tokens for the fields of the mention, and for those of the entity."""
        half, (mention, entity) = self.config.max_length // 2, self._reader.spellers
        return mention.room - (self.config.max_length - half), entity.room - half

    def texts(self, mentions: Sequence[MentionInput], kb: KnowledgeBase) -> tuple[Texts, Texts]:
        """Collect the distinct texts of mentions, and those of entities."""
        return self._reader.mention_texts(mentions), self._reader.entity_texts(kb)

    def spell(self, texts: tuple[Texts, Texts], mention: Ids, entity: Ids) -> list[TokenRow]:
        """Tokenise pairs of `texts`, given by their indices; ``begin`` and ``end`` of a row delimit the mention."""
        mentions, entities = _spelt(texts[0], mention), _spelt(texts[1], entity)
        least, room, (of_mention, of_entity) = self.halves[0], sum(self.halves), self._reader.spellers
        rows = []
        for m, e in zip(mention.tolist(), entity.tolist(), strict=True):
            share = max(least, room - sum(map(len, entities[e].values())))
            first = of_mention.row(mentions[m], share)
            second = of_entity.row(entities[e], room - min(share, sum(map(len, mentions[m].values()))))
            rows.append(TokenRow(first.ids + second.ids, first.begin, first.end))
        return rows

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score mention ``mention[i]`` with the entity in row ``entity[i]``; return unbounded numbers, (pairs,).

        Each distinct pair of texts is read once. See `Tower.embed` for the errors.
        """
        used, place = np.unique(entity, return_inverse=True)
        texts = self.texts(mentions, kb.of_rows(used))
        n = len(texts[1].keys)
        distinct, row = np.unique(texts[0].row[mention] * n + texts[1].row[place], return_inverse=True)
        scores = np.empty(len(distinct), np.float32)
        slices = range(0, len(distinct), SLICE)
        for begin in announce("scoring pairs")(slices, len(slices)):
            rows = self.spell(texts, *np.divmod(distinct[begin : begin + SLICE], n))
            scores[begin : begin + SLICE] = self.tower.embed(rows, self.config.pooling)[:, 0]
        return scores[row]

    @cached_property
    def _reader(self) -> DualEncoder:
        return DualEncoder(self.tower, self.tower, self.config.reading)


def _spelt(texts: Texts, chosen: Ids) -> dict[int, FieldTokens]:
    places = np.unique(chosen)
    spelt = texts.speller.spell([texts.read(int(i)) for i in texts.first[places]])
    return dict(zip(places.tolist(), spelt, strict=True))
