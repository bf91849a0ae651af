"""The interface of all encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from arbo.data.inputs import MentionInput
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Embeddings, Metric
from arbo.progress import Announce, quiet

DEFAULT_THRESHOLD: Mapping[Metric, tuple[float, float]] = {"cosine": (0.35, 0.2), "dot": (0.0, 0.0)}
"""Default thresholds on (entity, mention) edges for vectors of unknown origin, see DECISIONS.md, note 13."""


class Encoder(Protocol):
    """Embeds mentions and entities in one space."""

    @property
    def metric(self) -> Metric:
        """The metric of its vectors."""

    @property
    def threshold(self) -> tuple[float, float]:
        """Default thresholds on the dissimilarity of (entity, mention) edges, for a first run without gold data."""

    def fit(self, names: Sequence[str]) -> Self:
        """Fit the encoder to the names of a knowledge base, or of the mentions without one.

        Encoders with trained weights return themselves.
        """

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Embeddings:
        """Encode each entity as one or several vectors, for example one for each name, or as token vectors."""

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Embeddings:
        """Encode each mention as one vector, or as token vectors if entities are."""

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the encoder in a manifest, ready for JSON."""
