"""The settings of label attention."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from arbo.encoders.encoder_config import EncoderConfig
from arbo.settings import Count, Finite, Settings, Share

NamePooling = Literal["mean", "cls"]


@dataclass(frozen=True, slots=True)
class LabelAttentionConfig(Settings):
    """Settings of label attention: how names and texts are encoded, and the thresholds on words and entities.

    The defaults are those of the OSLAT paper where it gives them.
    """

    format: ClassVar[str] = "arbo-label-attention"
    called: ClassVar[str] = "the configuration of label attention"

    pooling: NamePooling = "mean"
    """Vector of a name: the mean of its token vectors (section 3), or the vector of the first token (section 3.1)."""
    max_length: Count = 256
    """Maximum number of tokens of a sentence, including special tokens; longer sentences are truncated."""
    max_name_length: Count = 32
    """Maximum number of tokens of a name, including special tokens; longer names are truncated."""
    attention_threshold: Share = 0.05
    """Minimum share of an entity's attention, the mean over its names, for a word to be part of the mention. Section
    6.1 compares it with each token of a word; here it is compared with the sum of its tokens."""
    entity_threshold: Finite = 0.5
    """Minimum score of an entity in a sentence; training with development documents sets the best one for them."""

    @property
    def reading(self) -> EncoderConfig:
        """How names are encoded."""
        return EncoderConfig(pooling=self.pooling, max_length=self.max_name_length)
