"""The settings of label attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from arbo.encoders.encoder_config import EncoderConfig
from arbo.settings import Count, Finite, Settings, Share

NamePooling = Literal["mean", "cls"]

POOLINGS: tuple[NamePooling, ...] = get_args(NamePooling)


@dataclass(frozen=True, slots=True)
class LabelAttentionConfig(Settings):
    """How names and texts are read, and from where on a token belongs to an entity, or an entity to a text.

    The defaults are those of the OSLAT paper, as far as it says.
    """

    format: ClassVar[str] = "arbo-label-attention"
    called: ClassVar[str] = "the configuration of label attention"

    pooling: NamePooling = "mean"
    """What a name's vector is: the mean of its tokens (section 3), or the first one's (section 3.1)."""
    scaled: bool = False
    """Whether attention is divided by the square root of the vectors' length: the paper's is not, its code's is."""
    max_length: Count = 256
    """Tokens of a text that are read at once, markers included; of a longer text several windows are."""
    max_name_length: Count = 32
    """Tokens of a name, markers included; what is longer is cut off."""
    attention_threshold: Share = 0.05
    """Share of a name's attention from which on a word is of the entity (section 6.1)."""
    entity_threshold: Finite = 0.5
    """Score from which on an entity is in a text; development documents choose another."""

    @property
    def reading(self) -> EncoderConfig:
        """How a name is read."""
        return EncoderConfig(pooling=self.pooling, max_length=self.max_name_length)
