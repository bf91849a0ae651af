"""Encoders by name, and from the models of other libraries."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

import numpy as np

from arbo.data import KnowledgeBase, MentionInput, names_of
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder import DEFAULT_THRESHOLD, Encoder
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Ids, Metric, Vectors
from arbo.errors import DataError, UsageError
from arbo.progress import Announce, quiet

NGRAM = "ngram"


@dataclass(frozen=True, eq=False, slots=True)
class NameModel(Encoder):
    """Encodes names, without their context, by the method ``encode`` of a model such as a `SentenceTransformer`.

    The method takes a list of texts and returns their vectors, (texts, dim), which are compared by the cosine; each
    distinct name is encoded once. Raise DataError for anything else that it returns.
    """

    model: Any
    metric: Metric = field(default="cosine", init=False)
    threshold: tuple[float, float] = field(default=DEFAULT_THRESHOLD["cosine"], init=False)

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Vectors:
        """Encode every name of every entity."""
        names, rows = kb.names()
        return self._encoded(names, rows.astype(np.int32), len(kb))

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        """Encode the name of each mention."""
        names = names_of(mentions)
        return self._encoded(names, np.arange(len(names), dtype=np.int32), len(names))

    @property
    def settings(self) -> dict[str, Any]:
        """The class of the model, which does not tell two models of a class apart."""
        kind = type(self.model)
        return {"encoder": "names", "class": f"{kind.__module__}.{kind.__qualname__}"}

    def _encoded(self, names: Sequence[str], owner: Ids, n: int) -> Vectors:
        place = {name: row for row, name in enumerate(dict.fromkeys(names))}
        matrix = np.asarray(self.model.encode([*place]) if place else np.empty((0, 1)))
        try:
            distinct = Vectors.of(matrix, np.arange(len(place)))
        except ValueError as error:
            raise DataError(f"`encode` must return a vector for each of the {len(place):,} texts: {error}") from None
        return Vectors(distinct.matrix, distinct.row[[place[name] for name in names]], owner, n)


def encoder_of(encoder: Encoder | str | PathLike[str]) -> Encoder:
    """Return a given encoder, or load one by name: ``ngram``, or any that `DualEncoder.from_pretrained` takes.

    Another object with a method ``encode`` becomes a `NameModel`. Raise UsageError for any other object, and the errors
    of `DualEncoder.from_pretrained`.
    """
    if isinstance(encoder, (str, PathLike)):
        return NgramEncoder() if fspath(encoder) == NGRAM else DualEncoder.from_pretrained(encoder)
    if hasattr(encoder, "encode_mentions"):
        return encoder
    if callable(getattr(encoder, "encode", None)):
        return NameModel(encoder)
    problem = f"expected an encoder object or the name of a model, not {type(encoder).__name__}"
    raise UsageError(f"{problem}; for vectors, use arbo.VectorEncoder")
