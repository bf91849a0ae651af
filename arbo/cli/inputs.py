"""From options to values: settings, a knowledge base, documents; what was odd in a file is told on stderr."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from arbo.cli.options import DocumentFormat, KnowledgeBaseFormat, MethodName, OnError, SearchName

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus
    from arbo.data.knowledge_base import KnowledgeBase
    from arbo.encoders.cross import CrossEncoder
    from arbo.encoders.cross_config import CrossEncoderConfig
    from arbo.encoders.dual import DualEncoder
    from arbo.encoders.encoder import Encoder
    from arbo.encoders.encoder_config import EncoderConfig
    from arbo.linking.config import LinkerConfig
    from arbo.spans.config import LabelAttentionConfig
    from arbo.spans.finding import Finder
    from arbo.training.config import LoopConfig

Settings = TypeVar("Settings", bound="LoopConfig | EncoderConfig | CrossEncoderConfig | LabelAttentionConfig")


def linker_config(
    config: Path | None,
    method: MethodName | None,
    k: int | None,
    threshold: str | None,
    search: SearchName | None,
    candidates: int | None = None,
    skip_margin: float | None = None,
    rerank_mentions: bool | None = None,
) -> LinkerConfig:
    """Return the configuration of a file, or the default one, with what the options change.

    Raises:
        UsageError: the file was tuned with a reranker that was asked otherwise, so that its thresholds would not fit.

    """
    from arbo.errors import UsageError
    from arbo.linking.config import LinkerConfig, tuned_reranker

    settings = LinkerConfig() if config is None else LinkerConfig.from_json(config)
    asked = {"candidates": candidates, "skip_margin": skip_margin, "rerank_mentions": rerank_mentions}
    changes: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if config is not None and tuned_reranker(config):
        for name, value in changes.items():
            if value != (tuned := getattr(settings, name)):
                raise UsageError(
                    f"{config} was tuned with {name}={tuned}, not {value}: thresholds would not fit; leave that option "
                    "out, or tune again"
                )
    if method is not None:
        changes["method"] = method.value
    if search is not None:
        changes["search"] = search.value
    if k is not None:
        changes["k"] = k
    if threshold is not None:
        changes["entity_threshold"], changes["mention_threshold"] = _limits(threshold)
    return replace(settings, **changes)


def _limits(text: str) -> tuple[float | None, float | None]:
    from arbo.errors import UsageError

    parts = text.split(",")
    try:
        values = [None if part.strip() == "none" else float(part) for part in parts]
    except ValueError:
        values = []
    if len(values) not in (1, 2):
        raise UsageError(f"--threshold {text!r}: expected a number or `none`, or two of them joined by a comma")
    return values[0], values[-1]


def load_encoder(model: str | None, encoder_config: Path | None, cache: Path | None, tuned: Path | None) -> Encoder:
    """Return the encoder that is named, else the one that a configuration was tuned with, else that of n-grams.

    Raises:
        UsageError: the configuration was tuned with another encoder, whose thresholds would not fit.

    """
    from arbo.encoders.model_folder import same_model
    from arbo.errors import UsageError
    from arbo.linking.config import tuned_encoder

    settings = (tuned_encoder(tuned) if tuned else None) or {}
    encoder = encoder_like(settings, tuned, model, encoder_config, cache)
    if settings and not same_model(settings, encoder.settings):
        raise UsageError(
            f"{tuned} was tuned with another encoder ({settings.get('model', settings.get('encoder'))}), or with other "
            "weights or settings of it: thresholds would not fit; leave --encoder and --encoder-config out, "
            "or tune again"
        )
    return encoder


def encoder_like(
    settings: dict[str, Any], file: Path | None, model: str | None, encoder_config: Path | None, cache: Path | None
) -> Encoder:
    """Return the encoder that is named, else the one of these settings, which a file has, else that of n-grams."""
    from arbo.encoders.dual import DualEncoder
    from arbo.encoders.encoder_config import EncoderConfig
    from arbo.encoders.ngrams import NgramEncoder
    from arbo.errors import UsageError

    if model is None:
        model = settings.get("model", "ngram")
    if model == "ngram":
        if encoder_config is not None or cache is not None:
            raise UsageError("--encoder-config and --cache are for transformers: name one with --encoder")
        return NgramEncoder()
    _check_name(model)
    config = None  # that of the model
    if encoder_config is None and "model" in settings:
        config = EncoderConfig.from_dict(settings.get("config"), file=str(file))
    return reading(DualEncoder.from_pretrained(model, config, cache=cache or _cache_folder()), encoder_config)


def reading(encoder: DualEncoder, file: Path | None) -> DualEncoder:
    """Change single fields of what an encoder reads, and how: those that a JSON file gives.

    Thresholds that a model has are of its metric and its pooling: with others it has none, unless the file gives them.
    """
    was = encoder.config
    config = overridden(was, file, "the encoder's configuration")
    if (config.pooling, config.metric) != (was.pooling, was.metric):
        bare = replace(was, entity_threshold=None, mention_threshold=None)
        config = overridden(bare, file, "the encoder's configuration")
    return replace(encoder, config=config)


def load_reranker(model: str | None, tuned: Path | None) -> CrossEncoder | None:
    """Return the reranker that is named, else the one that a configuration was tuned with, if there was one.

    Raises:
        UsageError: the configuration was tuned with another one, or with none.

    """
    from arbo.encoders.cross import CrossEncoder
    from arbo.encoders.model_folder import same_model
    from arbo.errors import UsageError
    from arbo.linking.config import tuned_reranker

    settings = (tuned_reranker(tuned) if tuned else None) or {}
    name = model or settings.get("model")
    if name is None:
        return None
    reranker = CrossEncoder.from_pretrained(name)
    if tuned and not same_model(settings, reranker.settings):
        raise UsageError(
            f"{tuned} was tuned with {'another reranker' if settings else 'no reranker'}: thresholds would not fit; "
            "leave --reranker out, or tune again"
        )
    return reranker


def load_finder(name: str, option: str, threshold: float | None = None) -> Finder:
    """Return what finds mentions in unmarked documents; None for the threshold of its own."""
    from arbo.errors import UsageError
    from arbo.spans.baselines import Fuzzy
    from arbo.spans.finding import DictionaryFinder, PairFinder, without_repetition

    if name == "dictionary":
        if threshold is not None:
            raise UsageError(f"--find-threshold: `dictionary` gives no scores; name `fuzzy` or a model with {option}")
        return DictionaryFinder()
    if name == "fuzzy":
        fuzzy = Fuzzy() if threshold is None else Fuzzy(threshold)
        return PairFinder(fuzzy, fuzzy.threshold)
    if not Path(name).is_dir():
        raise UsageError(
            f"{option} {name!r}: no such folder; there are `dictionary`, the names as they are, `fuzzy`, much like "
            "them, and models: the folder that arbo train --preset oslat wrote"
        )
    from arbo.spans.model import LabelAttention

    model = LabelAttention.from_pretrained(name)
    return PairFinder(model, model.threshold if threshold is None else threshold, mentions=without_repetition)


def _check_name(model: str) -> None:
    """Catch a mistyped name before the hub is asked for it."""
    from difflib import get_close_matches

    from arbo.encoders.minilm import MINILM
    from arbo.errors import UsageError

    known = {name.lower(): name for name in ("ngram", MINILM)}
    close = get_close_matches(model.lower(), known, n=1)
    if close and model not in known.values() and not Path(model).exists():
        raise UsageError(f"--encoder {model!r}: there is no such folder; did you mean {known[close[0]]}?")


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arbo"


def read_kb(path: Path, format_: KnowledgeBaseFormat, xrefs: list[str] | None) -> KnowledgeBase:
    """Read a knowledge base, seen through its xrefs of these prefixes if any are named."""
    from arbo.cli import console
    from arbo.readers import read_knowledge_base

    kb = read_knowledge_base(path, format_.value)
    if xrefs:
        kb = kb.through_xrefs(*xrefs)
    for note, count in kb.notes.items():
        console.say(f"{path.name}: {count:,} {note}")
    return kb


def read_documents(path: Path, format_: DocumentFormat, types: list[str] | None, on_error: OnError) -> Corpus:
    """Read documents, with the mentions of these types alone if any are named."""
    from arbo.cli import console
    from arbo.readers import read_documents

    documents = read_documents(path, format_.value, types=types, on_error=on_error.value)
    for note, count in documents.notes.items():
        console.say(f"{path.name}: {count:,} {note}")
    return documents


def tell_known(documents: Corpus, kb: KnowledgeBase) -> None:
    """Say how many mentions of training documents have an entity."""
    from arbo.cli import console

    annotated = [
        (mention.gold, document.domain) for document in documents for mention in document.mentions if mention.gold
    ]
    known = sum(kb.first_row(gold, domain) is not None for gold, domain in annotated)
    console.say(
        f"{known:,} of {len(annotated):,} mentions with an id have it in the knowledge base: they are trained on"
    )
    if known < len(annotated) / 2:
        console.warn("the knowledge base lacks most: do the ids match? --kb-xrefs MSH, say, lets it answer to MeSH ids")


def overridden(base: Settings, file: Path | None, what: str) -> Settings:
    """Change the settings that a JSON file gives; unknown ones are an error, in which ``what`` names them all."""
    from arbo.settings import read_json

    return base if file is None else changed(base, read_json(file, what), file)


def changed(base: Settings, values: object, file: Path) -> Settings:
    """Change the settings that an object of a JSON file gives; unknown ones are an error."""
    from arbo.settings import settings_of

    return settings_of(type(base), asdict(base) | values if isinstance(values, dict) else values, file=str(file))
