"""What every encoder offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

from arbo.data.inputs import MentionInput
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Embeddings, Metric
from arbo.progress import Announce, quiet

DEFAULT_THRESHOLD: Mapping[Metric, tuple[float, float]] = {"cosine": (0.35, 0.2), "dot": (0.0, 0.0)}
"""Thresholds on (entity, mention) edges for vectors that nothing is known of, see DECISIONS.md, note 13."""


class Encoder(Protocol):
    """Turns mentions and entities into vectors of one space."""

    @property
    def metric(self) -> Metric:
        """How its vectors are compared."""

    @property
    def threshold(self) -> tuple[float, float]:
        """Default thresholds on the dissimilarity of (entity, mention) edges, for a first run without gold data."""

    def fit(self, names: Sequence[str]) -> Self:
        """Learn what can be learnt from the names of a knowledge base; without one, from those of the mentions.

        Encoders with trained weights return themselves.
        """

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Embeddings:
        """Encode each entity as one or several vectors, for instance one a name; or as those of the tokens of each."""

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Embeddings:
        """Encode each mention as one vector, or as those of its tokens, if entities are."""

    @property
    def settings(self) -> dict[str, Any]:
        """What identifies the encoder in a manifest, ready for JSON."""
