"""Encoders by name."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import Encoder
from arbo.encoders.minilm import MINILM
from arbo.encoders.ngrams import NgramEncoder
from arbo.errors import UsageError

NGRAM = "ngram"


def encoder_of(encoder: Any) -> Encoder:
    """Return an encoder as it is, or the one of this name: ``ngram``, or what `DualEncoder.from_pretrained` takes.

    Raises:
        UsageError: the value is neither an encoder nor a name, or the name is misspelt.
        ArboError: the model is not there.

    """
    if isinstance(encoder, (str, os.PathLike)):
        name = os.fspath(encoder)
        check_model_name(name)
        return NgramEncoder() if name == NGRAM else DualEncoder.from_pretrained(name)
    if not hasattr(encoder, "encode_mentions"):
        raise UsageError(
            f"the encoder must be an encoder or the name of a model, not {type(encoder).__name__}; "
            "wrap vectors of your own in VectorEncoder"
        )
    given: Encoder = encoder
    return given


def check_model_name(name: str) -> None:
    """Raise UsageError for a misspelt name before the hub is asked."""
    known = {own.lower(): own for own in (NGRAM, MINILM)}
    close = get_close_matches(name.lower(), known, n=1)
    if close and name not in known.values() and not Path(name).exists():
        raise UsageError(f"no encoder {name!r}: no such folder; did you mean {known[close[0]]}?")
