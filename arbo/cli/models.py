"""The linkers, encoders and finders that options name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import arbo
from arbo.cli import options
from arbo.cli.fields import ENCODER, JOB, LINKER, Chosen, Group
from arbo.errors import UsageError
from arbo.settings import Finite, Settings

if TYPE_CHECKING:
    from arbo import Linker
    from arbo.encoders.encoder import Encoder
    from arbo.spans.finding import Finder


@dataclass(frozen=True, slots=True)
class FindingConfig(Settings):
    """Which proposed mentions are kept."""

    find_threshold: Finite | None = None
    """Minimum score of a mention that a model proposes; None means that of the model."""


FINDING = Group("finding", __name__, "FindingConfig")
ABBREVIATIONS = Group("abbreviations", "arbo.linking.config", "LinkerConfig", "expand_abbreviations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of a linker without a knowledge base."""

    encoder: options.Encoder = None
    edges: options.Edges = None
    config: options.Config = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkingModels(Models):
    """The models of a linker."""

    reranker: options.Reranker = None


def load_linker(models: Models, how: Chosen, threshold: str | None = None) -> Linker:
    """Return the linker of models and settings, without a knowledge base.

    Raise UsageError if ``threshold`` is malformed, or the configuration file was tuned with another encoder, reranker
    or edge model, or with other settings of the reranker, so that its thresholds would not fit.
    """
    from arbo.pipeline.named_linker import check_reranking, tuned_edges, tuned_reranker
    from arbo.progress import bars

    tuned, limits = models.config, [None] if threshold is None else [part.strip() for part in threshold.split(",")]
    if threshold and re.fullmatch(r"0,\d*[1-9]\d*", threshold):
        raise UsageError(f"--threshold {threshold}: write {threshold.replace(',', '.')} with a decimal point")
    if len(limits) > 2:
        raise UsageError(f"--threshold {threshold!r}: expected a number or `none`, or two of them separated by a comma")
    base = arbo.LinkerConfig() if tuned is None else arbo.LinkerConfig.from_json(tuned)
    settings = how.of(LINKER, base, entity_threshold=limits[0], mention_threshold=limits[-1])
    check_reranking(tuned, base, settings)
    encoder = load_encoder(models.encoder, how, tuned)
    reranker = tuned_reranker(tuned, getattr(models, "reranker", None))
    if reranker and tuned is None and "candidates" not in how.changes(LINKER):
        settings = replace(settings, candidates=reranker.config.candidates)
    edges = tuned_edges(tuned, models.edges)
    return arbo.Linker(None, encoder, settings, announce=bars, reranker=reranker, edges=edges)


def load_encoder(model: str | None, how: Chosen, tuned: Path | None = None) -> Encoder:
    """Return the chosen encoder with the chosen settings, see `arbo.pipeline.named_linker.tuned_encoder`."""
    from arbo.pipeline.named_linker import tuned_encoder

    cache = how.changes(JOB).get("cache")
    return tuned_encoder(tuned, model, how.changes(ENCODER), cache and Path(cache))


def load_finder(name: str, how: Chosen, option: str, *, expand_abbreviations: bool) -> Finder:
    """Return the finder that an option names, with the chosen threshold."""
    from arbo.spans.finding import finder_of

    threshold = how.of(FINDING, FindingConfig()).find_threshold
    return finder_of(name, threshold, abbreviations=expand_abbreviations, option=option)


def expands_abbreviations(how: Chosen) -> bool:
    """Whether to replace abbreviations by their long forms."""
    return how.of(ABBREVIATIONS, arbo.LinkerConfig()).expand_abbreviations
