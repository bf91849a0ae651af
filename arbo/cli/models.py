"""The linkers and encoders that options name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import arbo
from arbo.cli import options
from arbo.cli.fields import ENCODER, JOB, LINKER, Chosen
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo import Linker
    from arbo.encoders.encoder import Encoder

_NUMBER = r"none|[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf(inity)?"


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

    tuned = models.config
    base = arbo.LinkerConfig() if tuned is None else arbo.LinkerConfig.from_json(tuned)
    entity, mention = (None, None) if threshold is None else _limits(threshold)
    settings = how.of(LINKER, base, entity_threshold=entity, mention_threshold=mention)
    check_reranking(tuned, base, settings)
    encoder, reranker = (
        load_encoder(models.encoder, how, tuned),
        tuned_reranker(tuned, getattr(models, "reranker", None)),
    )
    if reranker and tuned is None and "candidates" not in how.given(LINKER):
        settings = replace(settings, candidates=reranker.config.candidates)
    edges = tuned_edges(tuned, models.edges)
    return arbo.Linker(None, encoder, settings, announce=bars, reranker=reranker, edges=edges)


def load_encoder(model: str | None, how: Chosen, tuned: Path | None = None) -> Encoder:
    """Return the chosen encoder with the chosen settings, see `arbo.pipeline.named_linker.tuned_encoder`."""
    from arbo.pipeline.named_linker import tuned_encoder

    cache = how.given(JOB).get("cache")
    return tuned_encoder(tuned, model, how.given(ENCODER), cache and Path(cache))


def _limits(text: str) -> tuple[str, str]:
    """Return the thresholds of `--threshold` on entity edges and mention edges."""
    if re.fullmatch(r"0,\d*[1-9]\d*", text):
        mend = f"for a limit of 0 on entity edges write {text.replace('0,', '0.0,', 1)}"
        raise UsageError(f"--threshold {text}: write {text.replace(',', '.')} with a decimal point; {mend}")
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(re.fullmatch(_NUMBER, part, re.IGNORECASE) for part in parts):
        raise UsageError(f"--threshold {text!r}: expected a number or `none`, or two of them separated by a comma")
    return parts[0], parts[-1]
