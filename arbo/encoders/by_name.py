"""Encoders by name."""

from os import PathLike, fspath

from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import Encoder
from arbo.encoders.name_model import NameModel
from arbo.encoders.ngrams import NgramEncoder
from arbo.errors import UsageError

NGRAM = "ngram"


def encoder_of(encoder: Encoder | str | PathLike[str]) -> Encoder:
    """Return a given encoder, or load one by name: ``ngram``, or any that `DualEncoder.from_pretrained` takes.

    Another object with a method ``encode`` becomes a `NameModel`. Raise UsageError for any other object, and the errors
    of `DualEncoder.from_pretrained`.
    """
    if isinstance(encoder, (str, PathLike)):
        return NgramEncoder() if fspath(encoder) == NGRAM else DualEncoder.from_pretrained(encoder)
    if not hasattr(encoder, "encode_mentions") and callable(getattr(encoder, "encode", None)):
        return NameModel(encoder)
    if not hasattr(encoder, "encode_mentions"):
        problem = f"expected an encoder object or the name of a model, not {type(encoder).__name__}"
        raise UsageError(f"{problem}; for vectors, use arbo.VectorEncoder")
    return encoder
