"""The interface of all encoders."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from arbo.data import KnowledgeBase, MentionInput
from arbo.engine import Metric, Vectors
from arbo.files import json_ready
from arbo.progress import Announce, quiet

DEFAULT_THRESHOLD: Mapping[Metric, tuple[float, float]] = {"cosine": (0.35, 0.2), "dot": (0.0, 0.0)}
"""Default thresholds on entity edges and on mention edges, for vectors of unknown origin.

Those of cosines were chosen by n-grams; of inner products, whose scale is unknown, 0 excludes opposite directions.
"""
NO_LIMIT: Mapping[Metric, float] = {"cosine": 2.0, "dot": 1e6}
"""Default thresholds must be finite; a number above all dissimilarities stands for no limit."""


class Encoder(Protocol):
    """Embeds mentions and entities, so that their vectors can be compared."""

    @property
    def metric(self) -> Metric:
        """The metric of its vectors."""

    @property
    def threshold(self) -> tuple[float, float]:
        """Default thresholds on the dissimilarity of entity edges and of mention edges, for a run without gold data."""

    def fit(self, names: Sequence[str]) -> Self:
        """Return the encoder, fitted to the names of a knowledge base or, without one, of the mentions; or itself."""
        return self

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Vectors:
        """Encode each entity as one or several vectors, for example one for each name."""

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        """Encode each mention as one vector."""

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the encoder in a manifest, ready for JSON."""


def same_model(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether the settings of two models are equal, wherever they were loaded from."""
    return bool(json_ready({**one, "model": None}) == json_ready({**other, "model": None}))
