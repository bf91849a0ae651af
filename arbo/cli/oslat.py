"""What `arbo train` does for the presets of OSLAT, which train something else than a dual-encoder for mentions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from arbo.cli.inputs import changed, overridden, read_documents, read_kb, reading, tell_known
from arbo.cli.options import DocumentFormat, KnowledgeBaseFormat, OnError

if TYPE_CHECKING:
    from arbo.documents import Corpus
    from arbo.encoders import LabelAttentionConfig
    from arbo.encoders.tower import Tower
    from arbo.knowledge_base import KnowledgeBase
    from arbo.training.config import LabelAttentionTraining, LinkingHeadConfig


class Given(NamedTuple):
    """The options of `arbo train` that mean something here."""

    docs: Path | None
    format_: DocumentFormat | None
    dev: Path | None
    kb: Path
    kb_format: KnowledgeBaseFormat
    kb_xrefs: list[str] | None
    types: list[str] | None
    encoder: str
    encoder_config: Path | None
    config: Path | None
    changes: Mapping[str, Any]
    """Fields of the training's configuration that options override."""
    out: Path
    tensorboard: Path | None
    on_error: OnError
    as_json: bool

    def documents(self, path: Path) -> Corpus:
        """Read documents."""
        assert self.format_ is not None
        return read_documents(path, self.format_, self.types, self.on_error)

    def knowledge_base(self) -> KnowledgeBase:
        """Read the knowledge base."""
        return read_kb(self.kb, self.kb_format, self.kb_xrefs)


def refuse(preset: str, meaningless: Mapping[str, object]) -> None:
    """Raise UsageError if an option was given that means nothing for a preset, rather than ignore it."""
    from arbo import UsageError

    named = [option for option, value in meaningless.items() if value is not None]
    if named:
        raise UsageError(f"{', '.join(named)}: the preset {preset} has no such choice; leave it out")


def align(given: Given) -> None:
    """Train by the preset `self-alignment`."""
    from arbo import DualEncoder, console
    from arbo.progress import bars
    from arbo.training.oslat.self_alignment import train_self_alignment
    from arbo.training.presets import SELF_ALIGNMENT

    settings = overridden(SELF_ALIGNMENT.training, given.config, "the training's configuration")
    settings = replace(settings, **given.changes)
    start = reading(DualEncoder.from_pretrained(given.encoder, SELF_ALIGNMENT.encoder), given.encoder_config)
    entities, documents = given.knowledge_base(), None if given.docs is None else given.documents(given.docs)
    if documents is None:
        console.say(f"the names of all {len(entities):,} entities are aligned; with DOCS those of the entities in them")
    else:
        tell_known(documents, entities)
    trained = train_self_alignment(
        start,
        entities,
        documents=documents,
        out=given.out,
        config=settings,
        tensorboard=given.tensorboard,
        announce=bars,
    )
    if given.as_json:
        content = {"model": str(given.out), "settings": trained.settings, "training": settings.as_dict()}
        console.print_json(content)
        return
    console.out.print(
        f"written to {given.out}; figures of every step: {given.out}.log.jsonl\n"
        f"next: arbo train DOCS --preset oslat --encoder {given.out} ..., or arbo link DOCS --encoder {given.out} ..."
    )


def attend(given: Given) -> None:
    """Train by the preset `oslat`."""
    from arbo import console
    from arbo.progress import bars
    from arbo.spans.model import LabelAttention
    from arbo.training.oslat.annotated_texts import AnnotatedTexts
    from arbo.training.oslat.stages import train_oslat

    attention, head = _settings(given)
    start = LabelAttention.of(*_start(given))
    assert given.docs is not None
    documents, entities = given.documents(given.docs), given.knowledge_base()
    tell_known(documents, entities)
    alone = AnnotatedTexts.of(documents, entities).n_alone
    if alone:
        console.say(f"{alone:,} entities of documents have one name alone: the head is trained on them, attention not")
    if given.dev is None:
        console.warn(
            "without --dev the last model is kept, and from which score on an entity is in a sentence is not chosen: "
            "try --find-threshold of `arbo spans`"
        )

    def tell(figures: dict[str, Any]) -> None:
        place = f"epoch {figures['epoch'] + 1}, step {figures['step']:,}: loss {figures['loss']:.3f}"
        if "likelihood" in figures:
            told = f"synonyms are {figures['likelihood']:.3f} likely among other names"
            console.say(f"attention, {place}; on the development documents {told}")
        elif "f1" in figures:
            console.say(f"linking head, {place}; on the development documents F1 {figures['f1']:.3f}")

    trained = train_oslat(
        start,
        documents,
        entities,
        dev=None if given.dev is None else given.documents(given.dev),
        out=given.out,
        attention=attention,
        head=head,
        tensorboard=given.tensorboard,
        announce=bars,
        on_log=tell,
    )
    if given.as_json:
        training = {"attention": attention.as_dict(), "head": head.as_dict()}
        console.print_json({"model": str(given.out), "settings": trained.settings, "training": training})
        return
    console.out.print(
        f"written to {given.out}; an entity is in a sentence from the score {trained.threshold:.3f} on\n"
        f"next: arbo spans DOCS --encoder {given.out} ..., or arbo link DOCS --find-mentions {given.out} ...\n"
        f"figures of every step: {given.out}.attention.log.jsonl and {given.out}.log.jsonl"
    )


def _settings(given: Given) -> tuple[LabelAttentionTraining, LinkingHeadConfig]:
    """Return how attention and head are trained: a file has an object for each, options are for both."""
    from arbo import DataError
    from arbo.settings import read_json
    from arbo.training.presets import OSLAT

    values = {} if given.config is None else read_json(given.config, "the training's configuration")
    unknown = sorted(set(values) - {"attention", "head"}) if isinstance(values, dict) else [type(values).__name__]
    if unknown:
        raise DataError(
            'expected an object of objects, {"attention": {...}, "head": {...}}, with fields of '
            f"arbo.LabelAttentionTraining and of arbo.LinkingHeadConfig; unknown: {', '.join(unknown)}",
            file=str(given.config),
        )
    file = given.config or Path()
    attention = changed(OSLAT.attention, values.get("attention", {}), file)
    head = changed(OSLAT.head, values.get("head", {}), file)
    return replace(attention, **given.changes), replace(head, **given.changes)


def _start(given: Given) -> tuple[Tower, LabelAttentionConfig]:
    """Return the transformer to begin with, and what it reads: names pooled as by the encoder it is of, if possible."""
    from arbo import DualEncoder, UsageError
    from arbo.encoders.label_attention_config import POOLINGS
    from arbo.training.presets import OSLAT

    encoder = DualEncoder.from_pretrained(given.encoder)
    if not encoder.shared:
        raise UsageError(
            f"{given.encoder} has two towers, and label attention reads names and texts with one: begin with another, "
            "such as one that arbo train --preset self-alignment makes"
        )
    pooling = encoder.config.pooling
    config = replace(OSLAT.model, pooling=pooling) if pooling in POOLINGS else OSLAT.model
    return encoder.mention_tower, overridden(config, given.encoder_config, "the configuration of label attention")
