"""Linkers by the names of their models, and with the settings that `arbo tune` wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arbo.encoders.by_name import NGRAM
from arbo.encoders.dual import DualEncoder
from arbo.encoders.encoder_config import EncoderConfig
from arbo.encoders.model_folder import same_model
from arbo.encoders.ngrams import NgramEncoder
from arbo.errors import UsageError
from arbo.linking.config import tuned_model

if TYPE_CHECKING:
    from arbo.encoders.cross import CrossEncoder
    from arbo.encoders.encoder import Encoder
    from arbo.linking.config import LinkerConfig


def encoder_like(
    settings: Mapping[str, Any],
    model: str | None = None,
    fields: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    *,
    file: Path | None = None,
) -> Encoder:
    """Load the encoder ``model``, else that of the settings in a file, else make an n-gram encoder.

    ``fields`` are values, perhaps as texts, for fields of its `EncoderConfig`. Raise UsageError for a name that seems
    misspelt, or if ``fields`` or ``cache`` are given for the n-gram encoder.
    """
    model = settings.get("model", NGRAM) if model is None else model
    if model == NGRAM:
        if setting := next(iter(fields or ()), None) or (cache and "cache"):
            raise UsageError(f"{setting} needs a transformer, not ngram; choose a transformer, or leave {setting} out")
        return NgramEncoder()
    config = None  # the model's own
    if "model" in settings and not fields:
        config = EncoderConfig.from_dict(settings.get("config"), file=str(file))
    folder = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "arbo")
    return changed_encoder(DualEncoder.from_pretrained(model, config, cache=folder), fields or {})


def changed_encoder(encoder: DualEncoder, fields: Mapping[str, Any]) -> DualEncoder:
    """Return an encoder with changed fields of its configuration.

    Thresholds depend on metric and pooling: if either changes, the model's thresholds are dropped.
    """
    before = encoder.config
    config = before.changed_by_words(fields)
    if (config.pooling, config.metric) != (before.pooling, before.metric):
        config = replace(before, entity_threshold=None, mention_threshold=None).changed_by_words(fields)
    return replace(encoder, config=config)


def reranker_named(name: str | None) -> CrossEncoder | None:
    """Load a reranker, if there is a name."""
    if name is None:
        return None
    from arbo.encoders.cross import CrossEncoder

    return CrossEncoder.from_pretrained(name)


def check_tuned(tuned: Path, before: LinkerConfig, settings: LinkerConfig, **models: Any) -> None:
    """Raise UsageError if thresholds of a file of `arbo tune` do not fit, as models or settings were others.

    ``before`` are the settings of the file, ``settings`` those that are used, and ``models`` the encoder, the reranker
    and the edge model that are used.
    """
    faults = []
    for part, (name, remedy) in _PARTS.items():
        was, now = tuned_model(tuned, part), models[part].settings if models[part] else {}
        if not was and now and part != "encoder":
            faults.append((f"without {name}", f"leave --{part} out"))
        elif was and not same_model(was, now):
            other = f"another {name.partition(' ')[2]}, or with other settings or weights of it"
            faults.append((f"with {other if now else name}", remedy))
    if tuned_model(tuned, "reranker"):
        for setting in ("candidates", "skip_margin"):
            if (value := getattr(settings, setting)) != (value_was := getattr(before, setting)):
                faults.append((f"with {setting}={value_was}, not {value}", f"leave {setting} out"))
    for fault, remedy in faults:
        raise UsageError(f"{tuned} was tuned {fault}, so its thresholds would not fit; {remedy}, or tune again")


_PARTS: Mapping[Any, tuple[str, str]] = {
    "encoder": ("an encoder", "leave --encoder and settings of the encoder out"),
    "reranker": ("a reranker", "leave --reranker or --config out"),
    "edges": ("an edge model", "give --edges the model that it was tuned with"),
}
"""What an error says of each part of a linker that a file of `arbo tune` names, and how to use the file."""
