"""The settings of label attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike, fspath
from typing import ClassVar, Literal, Self, get_args

from arbo.encoders.encoder_config import EncoderConfig
from arbo.errors import UsageError
from arbo.settings import read_json, settings_of

NamePooling = Literal["mean", "cls"]

POOLINGS: tuple[NamePooling, ...] = get_args(NamePooling)


@dataclass(frozen=True, slots=True)
class LabelAttentionConfig:
    """How names and texts are read, and from where on a token belongs to an entity, or an entity to a text.

    The defaults are those of the OSLAT paper, as far as it says.
    """

    format: ClassVar[str] = "arbo-label-attention"
    kind: ClassVar[str] = "a label-attention model (of arbo train-finder)"

    pooling: NamePooling = "mean"
    """What a name's vector is: the mean of its tokens (section 3), or the first one's (section 3.1)."""
    scaled: bool = False
    """Whether attention is divided by the square root of the vectors' length: the paper's is not, its code's is."""
    max_length: int = 256
    """Tokens of a text that are read at once, markers included; of a longer text several windows are."""
    max_name_length: int = 32
    """Tokens of a name, markers included; what is longer is cut off."""
    attention_threshold: float = 0.05
    """Share of a name's attention from which on a word is of the entity (section 6.1)."""
    entity_threshold: float = 0.5
    """Score from which on an entity is in a text; development documents choose another."""

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise UsageError(f"pooling {self.pooling!r} is not one of {', '.join(POOLINGS)}")
        if type(self.scaled) is not bool:
            raise UsageError(f"scaled must be true or false, not {self.scaled!r}")
        for name in ("max_length", "max_name_length"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise UsageError(f"{name} must be a number of tokens, not {value!r}")
        if type(self.attention_threshold) not in (int, float) or not 0 <= self.attention_threshold <= 1:
            raise UsageError(f"attention_threshold must be a number from 0 to 1, not {self.attention_threshold!r}")
        if type(self.entity_threshold) not in (int, float) or not abs(self.entity_threshold) < math.inf:
            raise UsageError(f"entity_threshold must be a finite number, not {self.entity_threshold!r}")

    @property
    def reading(self) -> EncoderConfig:
        """How a name is read."""
        return EncoderConfig(pooling=self.pooling, max_length=self.max_name_length)

    @classmethod
    def from_json(cls, path: str | PathLike[str]) -> Self:
        """Read an object of these fields; unknown ones are an error."""
        return cls.from_dict(read_json(path, "the configuration of label attention"), file=fspath(path))

    @classmethod
    def from_dict(cls, values: object, *, file: str | None = None) -> Self:
        """Make a configuration of named values; unknown names are an error."""
        return settings_of(cls, values, file=file)
