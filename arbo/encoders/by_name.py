"""Encoders by name, from vectors that are computed already, and from the models of other libraries."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.data import KnowledgeBase, MentionInput, names_of
from arbo.encoders.encoder import DEFAULT_THRESHOLD, Encoder
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Ids, Metric, Vectors
from arbo.errors import DataError, MissingDependency, UsageError
from arbo.progress import Announce, quiet
from arbo.settings import check_choice

NGRAM = "ngram"
VectorSource = Mapping[str, npt.ArrayLike] | npt.ArrayLike  # vectors by id, or a matrix


def encoder_of(encoder: Encoder | str | PathLike[str]) -> Encoder:
    """Return a given encoder, or load one by name: ``ngram``, or any that `DualEncoder.from_pretrained` takes.

    Another object with a method ``encode`` becomes a `NameModel`. Raise UsageError for any other object, and the errors
    of `DualEncoder.from_pretrained`.
    """
    if isinstance(encoder, (str, PathLike)):
        if fspath(encoder) == NGRAM:
            return NgramEncoder()
        try:
            from arbo.encoders.dual import DualEncoder  # which imports torch
        except ModuleNotFoundError as error:
            raise MissingDependency("a transformer encoder", extra="torch") from error
        return DualEncoder.from_pretrained(encoder)
    if hasattr(encoder, "encode_mentions"):
        return encoder
    if callable(getattr(encoder, "encode", None)):
        return NameModel(encoder)
    problem = f"expected an encoder object or the name of a model, not {type(encoder).__name__}"
    raise UsageError(f"{problem}; for vectors, use arbo.VectorEncoder")


@dataclass(frozen=True, eq=False, slots=True)
class NameModel(Encoder):
    """Encodes distinct names by the method ``encode`` of a model such as a `SentenceTransformer`.

    The method takes a list of texts; raise DataError unless it returns their vectors, (texts, dim).
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


@dataclass(frozen=True, eq=False, slots=True)
class VectorEncoder(Encoder):
    """Looks up vectors that any other encoder has computed.

    Args:
        mentions: the vector of each mention id; or a matrix (mentions, dim) with a row for each mention, in the order
            of the documents, which then fits only these documents.
        entities: the vector of each entity id, or several as (vectors, dim); or a matrix (entities, dim) in the order
            of the knowledge base. Not needed for discovery.
        metric: the metric of the vectors.
        limits: default thresholds on entity and mention edges. The defaults (0.35 and 0.2 for cosine, 0 for dot) are a
            guess; choose thresholds with `Linker.tune`, or by inspection.

    Raise UsageError if the metric is unknown.

    >>> encoder = VectorEncoder({"d:0-3": [1.0, 0.0]}, {"D1": [[0.9, 0.1], [0.0, 1.0]]})
    >>> encoder.metric
    'cosine'
    """

    mentions: VectorSource = field(repr=False)
    entities: VectorSource = field(default_factory=dict, repr=False)
    metric: Metric = "cosine"
    limits: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, tuple(DEFAULT_THRESHOLD))

    @property
    def threshold(self) -> tuple[float, float]:
        """The default thresholds, see `Encoder.threshold`."""
        return self.limits or DEFAULT_THRESHOLD[self.metric]

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Vectors:
        """Look up the vectors of every entity.

        Raise DataError for a missing vector, another length, a matrix of another shape, or numbers beyond float32.
        """
        return _stacked("entity", [id_ for (id_,) in kb.columns("id")], self.entities, self.dim)

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        """Look up the vector of every mention, only one for each; raise DataError as `encode_entities` does."""
        return _stacked("mention", [item.mention.id for item in mentions], self.mentions, self.dim)

    @property
    def dim(self) -> int:
        """The length of all vectors, taken from the first one; 0 without vectors."""
        both = [one.values() if isinstance(one, Mapping) else [one] for one in (self.mentions, self.entities)]
        return next((size for vector in chain(*both) for size in reversed(_array(vector).shape)), 0)

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the encoder in a manifest: its metric, and hashes of the vectors."""
        hashes = {name: _fingerprint(getattr(self, name)) for name in ("mentions", "entities")}
        return {"encoder": "vectors", "metric": self.metric, **hashes}


def _stacked(kind: str, ids: Sequence[str], source: VectorSource, dim: int) -> Vectors:
    if not isinstance(source, Mapping):
        matrix, owner = _array(source), None
        if matrix.shape != (len(ids), dim):
            problem = f"the matrix of {kind} vectors has the shape {matrix.shape}, not {(len(ids), dim)}"
            raise DataError(f"{problem}: give one row for each {kind}, in order, or a dict of vectors by {kind} id")
    else:
        if missing := [id_ for id_ in ids if id_ not in source]:
            problem = f"no vector for {len(missing):,} of {len(ids):,} {kind} ids, the first of them {missing[0]!r}"
            raise DataError(f"{problem}; give one for each id")
        rows = [_vectors_of(kind, id_, _array(source[id_]), dim) for id_ in ids]
        matrix = np.concatenate(rows) if rows else np.empty((0, dim), np.float32)
        owner = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    try:
        return Vectors.of(matrix, owner, n=len(ids))
    except ValueError as error:
        raise DataError(f"the {kind} vectors: {error}") from None


def _vectors_of(kind: str, id_: str, array: npt.NDArray[Any], dim: int) -> npt.NDArray[Any]:
    """Return the vectors of a mention or an entity; (vectors, dim)."""
    vectors = np.atleast_2d(array)
    is_one = len(vectors) == 1 if kind == "mention" else len(vectors) > 0
    if vectors.shape[1:] != (dim,) or not is_one or array.dtype.kind not in "iuf" or np.ma.is_masked(array):
        expected = f"({dim},)" + (f" or (vectors, {dim})" if kind == "entity" else "")
        problem = f"the {kind} has {array.dtype} of the shape {array.shape}; expected numbers of the shape {expected}"
        raise DataError(problem, id=id_)
    return vectors


def _array(values: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.ma.asarray(values) if np.ma.is_masked(values) else np.asarray(values)
    except ValueError:  # without a regular shape: an array of objects, which is refused later
        return np.array(None)


def _fingerprint(source: VectorSource) -> str:
    digest = hashlib.sha256()
    for id_, vectors in sorted(source.items()) if isinstance(source, Mapping) else [(None, source)]:
        array = _array(vectors)
        digest.update(repr((id_, array.shape)).encode())
        if array.dtype.kind in "iuf":
            with np.errstate(over="ignore"):
                digest.update(array.astype(np.float32).tobytes())
    return digest.hexdigest()
