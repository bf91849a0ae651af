"""Encoders: mentions and entities as vectors of one space."""

from arbo.encoders.encoder import Encoder, MentionInput
from arbo.encoders.ngrams import NgramEncoder

__all__ = ["Encoder", "MentionInput", "NgramEncoder"]
