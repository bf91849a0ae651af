"""Encoders by name."""

from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path

from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import Encoder
from arbo.encoders.ngrams import NgramEncoder
from arbo.encoders.pretrained import MINILM
from arbo.errors import UsageError

NGRAM = "ngram"


def encoder_of(encoder: Encoder | str | PathLike[str]) -> Encoder:
    """Return a given encoder, or load one by name: ``ngram``, or any that `DualEncoder.from_pretrained` takes.

    Raise UsageError for any other object, and for a name that seems misspelt, and the errors of
    `DualEncoder.from_pretrained`.
    """
    if isinstance(encoder, (str, PathLike)):
        check_model_name(name := fspath(encoder))
        return NgramEncoder() if name == NGRAM else DualEncoder.from_pretrained(name)
    if not hasattr(encoder, "encode_mentions"):
        kind = type(encoder).__name__
        mend = "for vectors, use arbo.VectorEncoder"
        raise UsageError(f"expected an encoder object or the name of a model, not {kind}; {mend}")
    return encoder


def check_model_name(name: str) -> None:
    """Raise UsageError for a name that is almost ``ngram`` or ``all-MiniLM-L6-v2``, and neither of them nor a path."""
    known = {known.lower(): known for known in (NGRAM, MINILM)}
    close = get_close_matches(name.lower(), known, n=1)
    if close and "/" not in name and name not in known.values() and not Path(name).exists():
        raise UsageError(f"no encoder {name!r}: no such folder; did you mean {known[close[0]]}?")
