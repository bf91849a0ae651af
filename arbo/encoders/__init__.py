"""Encoders: mentions and entities as vectors of one space, and the cross-encoder, which reads them in pairs."""

from arbo.encoders.cross import CrossEncoder
from arbo.encoders.cross_config import CROSS_PRESETS, CrossEncoderConfig
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import Encoder, MentionInput
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.label_attention_config import LabelAttentionConfig
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.vectors import VectorEncoder

__all__ = [
    "CROSS_PRESETS",
    "CrossEncoder",
    "CrossEncoderConfig",
    "DualEncoder",
    "Encoder",
    "EncoderConfig",
    "LabelAttentionConfig",
    "MentionInput",
    "NgramEncoder",
    "VectorEncoder",
]
