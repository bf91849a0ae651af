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
    from arbo.edges.model import EdgeModel
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


def tuned_encoder(
    tuned: Path | None, model: str | None, fields: Mapping[str, Any] | None = None, cache: Path | None = None
) -> Encoder:
    """Load the encoder ``model``, else that of a file of `arbo tune`, else make an n-gram encoder.

    Raise UsageError as `encoder_like` does, and if the file was tuned with another encoder.
    """
    settings = tuned_model(tuned, "encoder")
    encoder = encoder_like(settings, model, fields, cache, file=tuned)
    if settings and not same_model(settings, encoder.settings):
        name = settings.get("model", settings.get("encoder"))
        if model is None and not fields:
            raise _changed(tuned, f"encoder {name}")
        fault = f"with another encoder ({name}) or other encoder settings"
        raise _unfit(tuned, fault, "leave --encoder and settings of the encoder out")
    return encoder


def tuned_reranker(tuned: Path | None, model: str | None) -> CrossEncoder | None:
    """Load the reranker ``model``, else that of a file of `arbo tune`, if there is one.

    Raise UsageError if the file was tuned with another reranker, or without one.
    """
    settings = tuned_model(tuned, "reranker")
    if (name := model or settings.get("model")) is None:
        return None
    from arbo.encoders.cross import CrossEncoder

    reranker = CrossEncoder.from_pretrained(name)
    if tuned and not same_model(settings, reranker.settings):
        if model is None:
            raise _changed(tuned, f"reranker {name}")
        raise _unfit(tuned, f"{'with another' if settings else 'without a'} reranker", "leave --reranker out")
    return reranker


def tuned_edges(tuned: Path | None, file: Path | None) -> EdgeModel | None:
    """Load an edge model, if there is one; raise UsageError if a file of `arbo tune` was tuned with another choice."""
    model = None
    if file is not None:
        from arbo.edges.model import EdgeModel

        model = EdgeModel.load(file)
    before = tuned_model(tuned, "edges")
    if tuned and before.get("fingerprint") != (model.settings["fingerprint"] if model else None):
        if not before:
            raise _unfit(tuned, "without an edge model", "leave --edges out")
        fault = f"with {'another' if model else 'an'} edge model"
        raise _unfit(tuned, fault, "give --edges the model that it was tuned with")
    return model


def check_reranking(tuned: Path | None, before: LinkerConfig, settings: LinkerConfig) -> None:
    """Raise UsageError if a file of `arbo tune` was tuned with a reranker and other settings of it."""
    if tuned_model(tuned, "reranker"):
        for name in ("candidates", "skip_margin"):
            if (now := getattr(settings, name)) != (was := getattr(before, name)):
                raise _unfit(tuned, f"with {name}={was}, not {now}", f"leave {name} out")


def _unfit(tuned: Path | None, fault: str, remedy: str) -> UsageError:
    return UsageError(f"{tuned} was tuned {fault}, so its thresholds would not fit; {remedy}, or tune again")


def _changed(tuned: Path | None, model: str) -> UsageError:
    return UsageError(
        f"the {model} has changed since {tuned} was tuned with it, so the thresholds would not fit; tune again"
    )
