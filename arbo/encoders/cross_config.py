"""The settings of the cross-encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import ClassVar, Literal, Self, get_args

from arbo.encoders.encoder_config import EncoderConfig
from arbo.errors import UsageError
from arbo.settings import read_json, settings_of

PairPooling = Literal["cls", "mean"]
_MOST = 1e30  # times a similarity it is still a float32


@dataclass(frozen=True, slots=True)
class CrossEncoderConfig:
    """What a cross-encoder reads of a mention and an entity, and how its output becomes a score.

    Both are one sequence, the entity's part behind the mention's. The defaults are those of the ArboEL paper (3.3).
    """

    format: ClassVar[str] = "arbo-cross-encoder"
    kind: ClassVar[str] = "a cross-encoder"

    mention: str = "[CLS] {left} [START] {mention} [END] {right} [SEP]"
    """Template of a mention, with the fields of `EncoderConfig.mention`."""
    entity: str = "{name} [TITLE] {description} [SEP]"
    """Template of an entity, with the fields of `EncoderConfig.entity`; without ``[CLS]``, as it comes second."""
    pooling: PairPooling = "cls"
    """What the score is of: the first token's vector, or the mean of all."""
    context: int | None = None
    """Words on either side of the mention; None for as many as fit."""
    within_line: bool = False
    """Whether the context ends where the mention's line does: for texts of one sentence a line."""
    max_length: int = 256
    """Tokens of a pair, markers included. Each part has half of them, and what the other does not need."""
    candidates: int = 64
    """How many candidates of a mention it is made for."""
    retrieval_weight: float = 0.0
    """What a first stage's similarity is multiplied with before it is added to the score, in training too: the
    cross-encoder then learns where the first stage errs. 0 leaves it out, as the papers do."""
    entity_threshold: float = 0.5
    """Default threshold on 1 minus the probability of an entity among the candidates, see `Linker.reranker`."""

    def __post_init__(self) -> None:
        if self.pooling not in get_args(PairPooling):
            raise UsageError(f"pooling {self.pooling!r} is not one of {', '.join(get_args(PairPooling))}")
        template = self.reading.templates()[1]
        if template.parts[0].text == "[CLS]":
            raise UsageError(f"template {self.entity!r} is the second part of a sequence: leave out its [CLS]")
        if type(self.candidates) is not int or self.candidates < 1:
            raise UsageError(f"candidates must be an integer of at least 1, not {self.candidates!r}")
        if type(self.retrieval_weight) not in (int, float) or not 0 <= self.retrieval_weight <= _MOST:
            raise UsageError(f"retrieval_weight must be a number from 0 to {_MOST:g}, not {self.retrieval_weight!r}")
        if type(self.entity_threshold) not in (int, float) or not 0 <= self.entity_threshold <= 1:
            raise UsageError(f"entity_threshold must be a number from 0 to 1, not {self.entity_threshold!r}")

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

    @classmethod
    def from_json(cls, path: str | PathLike[str]) -> Self:
        """Read an object of these fields; unknown ones are an error."""
        return cls.from_dict(read_json(path, "the cross-encoder's configuration"), file=fspath(path))

    @classmethod
    def from_dict(cls, values: object, *, file: str | None = None) -> Self:
        """Make a configuration of named values; unknown names are an error."""
        return settings_of(cls, values, file=file)


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
