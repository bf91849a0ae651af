"""Make the linker of `arbo link`, `discover` and `tune` from their options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import arbo
from arbo.cli.models import load_edges, load_encoder, load_reranker
from arbo.errors import UsageError


@dataclass(frozen=True, slots=True)
class LinkerOptions:
    """The options of a linker; an option that was not given is None."""

    fields: Mapping[str, Any]
    """Fields of `LinkerConfig` by name."""
    encoder: str | None
    encoder_config: Path | None
    cache: Path | None
    reranker: str | None = None
    threshold: str | None = None
    config: Path | None = None
    """The file of `arbo tune`."""
    edges: Path | None = None

    def load(self) -> arbo.Linker:
        """Return the linker, without a knowledge base.

        Raise UsageError if ``threshold`` is malformed, or the configuration file was tuned with another encoder,
        reranker or edge model, or with other settings of the reranker, so that its thresholds would not fit.
        """
        from arbo.progress import bars

        settings = self._settings()
        encoder = load_encoder(self.encoder, self.encoder_config, self.cache, self.config)
        reranker = load_reranker(self.reranker, self.config)
        if reranker and self.config is None and self.fields.get("candidates") is None:
            settings = replace(settings, candidates=reranker.config.candidates)
        edges = load_edges(self.edges, self.config)
        return arbo.Linker(None, encoder, settings, announce=bars, reranker=reranker, edges=edges)

    def _settings(self) -> arbo.LinkerConfig:
        settings = arbo.LinkerConfig() if self.config is None else arbo.LinkerConfig.from_json(self.config)
        changes = {name: value for name, value in self.fields.items() if value is not None}
        _check_reranking(self.config, settings, changes)
        if self.threshold is not None:
            changes["entity_threshold"], changes["mention_threshold"] = _limits(self.threshold)
        return replace(settings, **changes)


def _check_reranking(tuned: Path | None, settings: arbo.LinkerConfig, changes: Mapping[str, object]) -> None:
    from arbo.linking.config import tuned_model

    if not tuned_model(tuned, "reranker"):
        return
    for name in ("candidates", "skip_margin", "rerank_mentions"):
        was = getattr(settings, name)
        if changes.get(name, was) != was:
            raise UsageError(
                f"{tuned} was tuned with {name}={was}, not {changes[name]}, so its thresholds would not fit; leave "
                "that option out, or tune again"
            )


def _limits(text: str) -> tuple[float | None, float | None]:
    """Return the thresholds of `--threshold` on entity edges and mention edges; None means no threshold."""
    if re.fullmatch(r"0,\d*[1-9]\d*", text):
        raise UsageError(
            f"--threshold {text}: write {text.replace(',', '.')} with a decimal point; for a limit of 0 on entity "
            f"edges write {text.replace('0,', '0.0,', 1)}"
        )
    parts = text.split(",")
    try:
        values = [None if part.strip().lower() == "none" else float(part) for part in parts]
    except ValueError:
        values = []
    if len(values) not in (1, 2):
        raise UsageError(f"--threshold {text!r}: expected a number or `none`, or two of them separated by a comma")
    return values[0], values[-1]
