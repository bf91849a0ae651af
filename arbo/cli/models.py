"""Load the encoders, rerankers and edge models that options name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import arbo
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo.encoders.encoder import Encoder


def load_encoder(model: str | None, encoder_config: Path | None, cache: Path | None, tuned: Path | None) -> Encoder:
    """Return the chosen encoder, else the encoder of the tuned configuration, else the n-gram encoder.

    Raise UsageError as `encoder_like` does, and if the configuration was tuned with another encoder, so that its
    thresholds would not fit.
    """
    from arbo.encoders.model_folder import same_model
    from arbo.linking.config import tuned_model

    settings = tuned_model(tuned, "encoder")
    encoder = encoder_like(settings, tuned, model, encoder_config, cache)
    if settings and not same_model(settings, encoder.settings):
        name = settings.get("model", settings.get("encoder"))
        if model is None and encoder_config is None:
            raise _changed(tuned, f"encoder {name}")
        fault = f"with another encoder ({name}) or other encoder settings"
        raise unfit(tuned, fault, "leave --encoder and --encoder-config out")
    return encoder


def encoder_like(
    settings: dict[str, Any], file: Path | None, model: str | None, encoder_config: Path | None, cache: Path | None
) -> Encoder:
    """Return the chosen encoder, else the encoder of the settings in a file, else the n-gram encoder.

    Raise UsageError for a name that seems misspelt, or if ``encoder_config`` or ``cache`` is for the n-gram encoder.
    """
    from arbo.encoders.by_name import NGRAM, check_model_name

    if model is None:
        model = settings.get("model", NGRAM)
    if model == NGRAM:
        if encoder_config is not None or cache is not None:
            given = "--cache" if encoder_config is None else "--encoder-config"
            raise UsageError(f"{given} needs a transformer, not ngram; choose a transformer, or leave {given} out")
        return arbo.NgramEncoder()
    check_model_name(model)
    config = None  # the model's own
    if encoder_config is None and "model" in settings:
        config = arbo.EncoderConfig.from_dict(settings.get("config"), file=str(file))
    kept = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "arbo")
    return reading(arbo.DualEncoder.from_pretrained(model, config, cache=kept), encoder_config)


def reading(encoder: arbo.DualEncoder, file: Path | None) -> arbo.DualEncoder:
    """Return an encoder with fields of its configuration overridden by those in a JSON file, if there is one.

    Thresholds depend on metric and pooling: if the file changes either, the model's thresholds are dropped.
    """
    was = encoder.config
    config = was.overridden(file)
    if (config.pooling, config.metric) != (was.pooling, was.metric):
        bare = replace(was, entity_threshold=None, mention_threshold=None)
        config = bare.overridden(file)
    return replace(encoder, config=config)


def load_reranker(model: str | None, tuned: Path | None) -> arbo.CrossEncoder | None:
    """Return the chosen reranker, else the reranker of the tuned configuration, else None.

    Raise UsageError if the configuration was tuned with another reranker, or without one.
    """
    from arbo.encoders.model_folder import same_model
    from arbo.linking.config import tuned_model

    settings = tuned_model(tuned, "reranker")
    name = model or settings.get("model")
    if name is None:
        return None
    reranker = arbo.CrossEncoder.from_pretrained(name)
    if tuned and not same_model(settings, reranker.settings):
        if model is None:
            raise _changed(tuned, f"reranker {name}")
        raise unfit(tuned, f"{'with another' if settings else 'without a'} reranker", "leave --reranker out")
    return reranker


def load_edges(file: Path | None, tuned: Path | None) -> arbo.EdgeModel | None:
    """Return the chosen edge model, or None; raise UsageError if the configuration was tuned with another choice."""
    from arbo.linking.config import tuned_model

    model = None if file is None else arbo.EdgeModel.load(file)
    was = tuned_model(tuned, "edges")
    if tuned and was.get("fingerprint") != (model.settings["fingerprint"] if model else None):
        fault, mend = f"with {'another' if model else 'an'} edge model", "give --edges the model that it was tuned with"
        raise unfit(tuned, fault, mend) if was else unfit(tuned, "without an edge model", "leave --edges out")
    return model


def unfit(tuned: Path | None, fault: str, mend: str) -> UsageError:
    """Return the error for a configuration that was tuned in another way than it is used."""
    return UsageError(f"{tuned} was tuned {fault}, so its thresholds would not fit; {mend}, or tune again")


def _changed(tuned: Path | None, model: str) -> UsageError:
    return UsageError(
        f"the {model} has changed since {tuned} was tuned with it, so the thresholds would not fit; tune again"
    )
