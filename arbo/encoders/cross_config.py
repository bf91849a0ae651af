"""The settings of the cross-encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from arbo.encoders.encoder_config import EncoderConfig
from arbo.errors import UsageError
from arbo.settings import Count, Number, Range, Settings, Share

PairPooling = Literal["cls", "mean"]
_MOST = 1e30  # times a similarity it is still a float32
_Weight = Annotated[float, Range(f"a number from 0 to {_MOST:g}", 0, _MOST)]


@dataclass(frozen=True, slots=True)
class CrossEncoderConfig(Settings):
    """What a cross-encoder reads of a mention and an entity, and how its output becomes a score.

    Both are one sequence, the entity's part behind the mention's. The defaults are those of the ArboEL paper (3.3).
    """

    format: ClassVar[str] = "arbo-cross-encoder"
    called: ClassVar[str] = "the cross-encoder's configuration"

    mention: str = "[CLS] {left} [START] {mention} [END] {right} [SEP]"
    """Template of a mention, with the fields of `EncoderConfig.mention`."""
    entity: str = "{name} [TITLE] {description} [SEP]"
    """Template of an entity, with the fields of `EncoderConfig.entity`; without ``[CLS]``, as it comes second."""
    pooling: PairPooling = "cls"
    """What the score is of: the first token's vector, or the mean of all."""
    context: Number | None = None
    """Words on either side of the mention; None for as many as fit."""
    within_line: bool = False
    """Whether the context ends where the mention's line does: for texts of one sentence a line."""
    max_length: Count = 256
    """Tokens of a pair, markers included. Each part has half of them, and what the other does not need."""
    candidates: Count = 64
    """How many candidates of a mention it is made for."""
    retrieval_weight: _Weight = 0.0
    """What a first stage's similarity is multiplied with before it is added to the score, in training too: the
    cross-encoder then learns where the first stage errs. 0 leaves it out, as the papers do."""
    entity_threshold: Share = 0.5
    """Default threshold on 1 minus the probability of an entity among the candidates, see `Linker.reranker`."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        template = self.reading.templates()[1]
        if template.parts[0].text == "[CLS]":
            raise UsageError(f"template {self.entity!r} is the second part of a sequence: leave out its [CLS]")

    @property
    def reading(self) -> EncoderConfig:
        """What is read of each part, as if it were alone."""
        return EncoderConfig(
            mention=self.mention,
            entity=self.entity,
            entity_view="whole",
            pooling=self.pooling,
            context=self.context,
            within_line=self.within_line,
            max_length=self.max_length,
        )


CROSS_PRESETS: Mapping[Literal["arboel", "pel"], CrossEncoderConfig] = {
    "arboel": CrossEncoderConfig(),
    "pel": CrossEncoderConfig(
        mention="[CLS] {left} [Ms] {mention} [Me] {right} [SEP]",
        entity="{name} [ENT] {description} [SEP]",
        pooling="mean",
        candidates=16,
    ),
}
"""What the papers' cross-encoders read: ArboEL (section 3.3, appendix A.1), the proxy paper (appendix B, table 6)."""
