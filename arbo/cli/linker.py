"""The options of linkers, in groups, and the linker that they make."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import arbo
from arbo.cli import options
from arbo.cli.models import load_edges, load_encoder, load_reranker, unfit
from arbo.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class LinkerOptions:
    """The options of a linker; one that was not given is None. Most have the names of fields of `LinkerConfig`."""

    encoder: options.EncoderModel = None
    expand_abbreviations: options.Abbreviations = None

    def load(self, kb: arbo.KnowledgeBase | None = None) -> arbo.Linker:
        """Return the linker.

        Raise UsageError if ``threshold`` is malformed, or the configuration file was tuned with another encoder,
        reranker or edge model, or with other settings of the reranker, so that its thresholds would not fit.
        """
        from arbo.progress import bars

        given = defaultdict[str, Any](lambda: None, vars(self))
        tuned = given.pop("config", None)
        settings = _settings(tuned, given)
        encoder = load_encoder(self.encoder, given["encoder_config"], given["cache"], tuned)
        reranker = load_reranker(given["reranker"], tuned)
        if reranker and tuned is None and given["candidates"] is None:
            settings = replace(settings, candidates=reranker.config.candidates)
        edges = load_edges(given["edges"], tuned)
        return arbo.Linker(kb, encoder, settings, announce=bars, reranker=reranker, edges=edges)


@dataclass(frozen=True, kw_only=True)
class Encoding(LinkerOptions):
    """The options of a linker's encoder."""

    encoder_config: options.EncoderConfigFile = None
    cache: options.Cache = None


@dataclass(frozen=True, kw_only=True)
class Tuning(Encoding):
    """The options of a linker that is tuned."""

    map_types: options.MapTypes = None
    nil_linkage: options.NilLinkageOption = None
    edges: options.EdgesFile = None
    reranker: options.RerankerModel = None
    candidates: options.NumberOfCandidates = None
    skip_margin: options.SkipMargin = None


@dataclass(frozen=True, kw_only=True)
class Discovering(Encoding):
    """The options of a linker without a knowledge base."""

    config: options.Config = None
    k: options.K = None
    threshold: options.Threshold = None
    nil_linkage: options.NilLinkageOption = None
    nil_threshold: options.NilThreshold = None
    search: options.SearchOption = None
    edges: options.EdgesFile = None
    spread: options.SpreadOption = None


@dataclass(frozen=True, kw_only=True)
class Linking(Discovering, Tuning):
    """All options of a linker."""

    method: options.MethodOption = None
    per_document: options.PerDocument = None


def _settings(tuned: Path | None, given: Mapping[str, Any]) -> arbo.LinkerConfig:
    settings = arbo.LinkerConfig() if tuned is None else arbo.LinkerConfig.from_json(tuned)
    names = {field.name for field in fields(settings)}
    changes = {name: value for name, value in given.items() if name in names and value is not None}
    _check_reranking(tuned, settings, changes)
    if given["threshold"] is not None:
        changes["entity_threshold"], changes["mention_threshold"] = _limits(given["threshold"])
    return replace(settings, **changes)


def _check_reranking(tuned: Path | None, settings: arbo.LinkerConfig, changes: Mapping[str, object]) -> None:
    from arbo.linking.config import tuned_model

    if not tuned_model(tuned, "reranker"):
        return
    for name in ("candidates", "skip_margin"):
        was = getattr(settings, name)
        if changes.get(name, was) != was:
            raise unfit(tuned, f"with {name}={was}, not {changes[name]}", "leave that option out")


def _limits(text: str) -> tuple[float | None, float | None]:
    """Return the thresholds of `--threshold` on entity edges and mention edges; None means no threshold."""
    if re.fullmatch(r"0,\d*[1-9]\d*", text):
        mend = f"for a limit of 0 on entity edges write {text.replace('0,', '0.0,', 1)}"
        raise UsageError(f"--threshold {text}: write {text.replace(',', '.')} with a decimal point; {mend}")
    parts = text.split(",")
    try:
        values = [None if part.strip().lower() == "none" else float(part) for part in parts]
    except ValueError:
        values = []
    if len(values) not in (1, 2):
        raise UsageError(f"--threshold {text!r}: expected a number or `none`, or two of them separated by a comma")
    return values[0], values[-1]
