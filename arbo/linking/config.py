"""The settings of a linker."""

from __future__ import annotations

from dataclasses import dataclass
from os import fspath
from typing import Any, Literal, Self

from arbo.engine import Method, SearchMethod
from arbo.errors import DataError, UsageError
from arbo.files import PathLike
from arbo.settings import Count, NotBelow0, Number, Settings, read_json

Limit = float | Literal["default"] | None
"""A largest dissimilarity, ``"default"`` for the encoder's own, or None for no limit."""


@dataclass(frozen=True, slots=True)
class LinkerConfig(Settings):
    """How mentions are linked. Defaults are for a first run without gold data; `Linker.tune` chooses better ones."""

    method: Method = "arborescence"
    """How the graph is clustered, see `clustering.partition`."""
    k: Number = 4
    """Nearest other mentions of each mention in the graph; 0 links each mention for itself."""
    entity_threshold: Limit = "default"
    """Heaviest edge from an entity; mentions that no entity reaches are NIL."""
    mention_threshold: Limit = "default"
    """Heaviest edge between mentions."""
    candidates: Count = 16
    """Nearest entities kept of each mention, for margins and recall@k; a reranker reads them."""
    skip_margin: NotBelow0 | None = None
    """Mentions whose nearest entity is so much nearer than the second are not read by a reranker; None reads all. See
    `arbo.retrieval.early_exit.skipping`."""
    rerank_mentions: bool = False
    """Whether a reranker makes the edges between mentions too, not those of entities alone, see
    `arbo.retrieval.reranking`."""
    search: SearchMethod = "exact"
    """How neighbours are found: ``exact``, or approximately over dense vectors, by a graph (``hnsw``) or by lists
    around centroids (``ivf``). With the pooling ``tokens`` this is the first stage, which proposes 256 things to be
    compared token by token. What an approximate search misses is measured and kept in the manifest."""
    expand_abbreviations: bool = True
    """Write out the abbreviations that a document defines itself before encoding."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        for name in ("entity_threshold", "mention_threshold"):
            value = getattr(self, name)
            if value is not None and value != "default" and (type(value) not in (int, float) or value != value):
                raise UsageError(f"{name} must be a number, None or 'default', not {value!r}")
            if value == float("-inf"):
                raise UsageError(f"{name} is -inf, which JSON cannot hold; any number below all edges does the same")
        if self.rerank_mentions and self.skip_margin is not None:
            raise UsageError("rerank_mentions reads the candidates of all mentions: leave skip_margin out")

    def limits(self, defaults: tuple[float, float]) -> tuple[float, float]:
        """Return the thresholds on (entity, mention) edges; ``defaults`` are the encoder's."""
        chosen = (self.entity_threshold, self.mention_threshold)
        entity, mention = (
            default if value == "default" else float("inf") if value is None else float(value)
            for value, default in zip(chosen, defaults, strict=True)
        )
        return entity, mention

    @classmethod
    def from_json(cls, path: PathLike) -> Self:
        """Read the ``config`` of a file that `arbo tune` wrote."""
        return cls.from_dict(_tuned(path)["config"], file=fspath(path))


def tuned_encoder(path: PathLike) -> dict[str, Any] | None:
    """Read the settings of the encoder that a configuration was tuned with; None where the file does not tell."""
    return _tuned_model(path, "encoder")


def tuned_reranker(path: PathLike) -> dict[str, Any] | None:
    """Read the settings of the reranker that a configuration was tuned with; None where there was none."""
    return _tuned_model(path, "reranker")


def _tuned_model(path: PathLike, part: str) -> dict[str, Any] | None:
    settings = _tuned(path).get(part)
    if settings is not None and not (isinstance(settings, dict) and isinstance(settings.get("model", ""), str)):
        raise DataError(f"`{part}` is not an object; give a file that `arbo tune` wrote", file=fspath(path))
    return settings


def _tuned(path: PathLike) -> dict[str, Any]:
    content = read_json(path, "the configuration")
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise DataError('the file has no {"config": {...}}; give a file that `arbo tune` wrote', file=fspath(path))
    return content
