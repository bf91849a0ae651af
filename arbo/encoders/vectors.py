"""Precomputed vectors, looked up by the ids of mentions and entities, or by their rows."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.data import KnowledgeBase, MentionInput
from arbo.encoders.encoder import DEFAULT_THRESHOLD, Encoder
from arbo.engine import Metric, Vectors
from arbo.errors import DataError
from arbo.progress import Announce, quiet
from arbo.settings import check_choice

VectorSource = Mapping[str, npt.ArrayLike] | npt.ArrayLike  # vectors by id, or a matrix


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

        Raise DataError if an entity has no vector, or if a vector differs in length from the first one, is not numeric,
        or has NaN, infinity or a number too large for float32; or if a matrix does not have one row for each entity.
        """
        return _stacked("entity", [id_ for (id_,) in kb.columns("id")], self.entities, self.dim)

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        """Look up the vector of every mention, only one for each; raise DataError as `encode_entities` does."""
        return _stacked("mention", [item.mention.id for item in mentions], self.mentions, self.dim)

    @property
    def dim(self) -> int:
        """The length of all vectors, taken from the first one; 0 without vectors."""
        sources = self.mentions, self.entities
        both = [one.values() if isinstance(one, Mapping) else [one] for one in sources]
        return next((size for vector in chain(*both) for size in reversed(_array(vector).shape)), 0)

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the encoder in a manifest: its metric, and hashes of the vectors."""
        return {
            "encoder": "vectors",
            "metric": self.metric,
            "mentions": _fingerprint(self.mentions),
            "entities": _fingerprint(self.entities),
        }


def _stacked(kind: str, ids: Sequence[str], source: VectorSource, dim: int) -> Vectors:
    if not isinstance(source, Mapping):
        matrix, owner = _array(source), None
        if matrix.shape != (len(ids), dim):
            raise DataError(
                f"the matrix of {kind} vectors has the shape {matrix.shape}, not {(len(ids), dim)}: give one row for "
                f"each {kind}, in order, or a dict of vectors by {kind} id"
            )
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
