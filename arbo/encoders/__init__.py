"""Encoders: mentions and entities as vectors of one space."""

from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import Encoder, MentionInput
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.vectors import VectorEncoder

__all__ = ["DualEncoder", "Encoder", "EncoderConfig", "MentionInput", "NgramEncoder", "VectorEncoder"]
