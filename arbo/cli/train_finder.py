"""The verb that trains mention finders: train-finder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import arbo
from arbo.cli import options, train_options
from arbo.cli.inputs import read_documents, read_kb, tell_known
from arbo.cli.train_options import changed_by, number, report, run_options
from arbo.training.config import FinderPresetName, LabelAttentionTraining, LinkingHeadConfig

if TYPE_CHECKING:
    from arbo.training.presets import FinderPreset

_READS = "Settings of the model: a JSON file with fields of arbo.LabelAttentionConfig."
_CONFIG = (
    'Settings of training: a JSON file {"attention": {...}, "head": {...}} with fields of arbo.LabelAttentionTraining '
    "and arbo.LinkingHeadConfig; the options below override both."
)
_Reads = Annotated[Path | None, typer.Option("--encoder-config", metavar="FILE", help=_READS)]
_PRESET = (
    "Start from the settings of a paper: oslat, with a linear head, names as means of their tokens, and a threshold on "
    "tokens. --config and --encoder-config override single fields. [default: none, with the defaults below]"
)
_Preset = Annotated[
    FinderPresetName | None, typer.Option("--preset", case_sensitive=False, metavar="PRESET", help=_PRESET)
]
_Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=_CONFIG)]


def train_finder(
    docs: options.Documents,
    kb: options.Kb,
    out: train_options.ModelOut,
    encoder: train_options.Start,
    format_: options.Format = None,
    kb_format: options.KbFormat = None,
    dev: train_options.Dev = None,
    encoder_config: _Reads = None,
    kb_xrefs: options.KbXrefs = None,
    kb_types: options.KbTypes = None,
    types: options.Types = None,
    ids: options.Ids = None,
    dev_ids: train_options.DevIds = None,
    preset: _Preset = None,
    config: _Config = None,
    epochs: Annotated[int | None, number("epochs", LabelAttentionTraining)] = None,
    steps: train_options.Steps = None,
    batch_size: Annotated[int | None, number("batch_size", LabelAttentionTraining)] = None,
    learning_rate: Annotated[float | None, number("learning_rate", LabelAttentionTraining)] = None,
    seed: Annotated[int | None, number("seed", LabelAttentionTraining)] = None,
    tensorboard: train_options.Tensorboard = None,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Train a model that finds mentions in unmarked texts (OSLAT), for `arbo spans --finder`.

    First `arbo train-names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`, then `arbo
    train-finder train.txt --dev dev.txt --kb doid.obo --encoder aligned --out model`.

    Training reads the entities of each sentence of DOCS, but not their positions. It has two stages: label attention
    learns where a name occurs in a text, then a linking head learns whether the entity occurs at all. --dev selects the
    best model and the minimum score of an entity.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the logs are in
    OUT.attention.log.jsonl and OUT.log.jsonl.
    """
    from arbo.cli import console
    from arbo.training.oslat.synonyms import AnnotatedTexts
    from arbo.training.presets import FINDER_PRESETS

    numbers = {"epochs": epochs, "steps": steps, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    base = None if preset is None else FINDER_PRESETS[preset]
    attention, head = _settings(config, base)
    attention, head = changed_by(attention, None, **numbers), changed_by(head, None, **numbers)
    start = _start(encoder, encoder_config, base and base.model)
    documents = read_documents(docs, format_, types, on_error, ids=ids)
    entities = read_kb(kb, kb_format, kb_xrefs, kb_types)
    tell_known(documents, entities)
    alone = AnnotatedTexts.of(documents, entities).n_alone
    if alone:
        console.say(f"entities with only one name, counted per document: {alone:,}; only the linking head uses them")
    if dev is None:
        console.warn(
            "without --dev the last model is kept and the minimum score of an entity is not tuned; set it with "
            "--find-threshold of `arbo spans`"
        )
    held_out = train_options.held_out(dev, dev_ids, format_, types, on_error)
    parts: dict[str, Any] = {"attention": attention, "head": head}
    run = run_options(tensorboard, _scores)
    trained = arbo.train_oslat(start, documents, entities, dev=held_out, out=out, options=run, **parts)
    told = (
        f"figures of label attention: {out}.attention.log.jsonl\n"
        f"minimum score of an entity: {trained.threshold:.3f}\n"
        f"next: arbo spans DOCS --finder {out} ..., or arbo link DOCS --find-mentions {out} ..."
    )
    report(out, trained.settings, {name: part.as_dict() for name, part in parts.items()}, told, as_json=as_json)


def _scores(figures: Mapping[str, Any]) -> str | None:
    if "likelihood" in figures:
        return f"likelihood of synonyms {figures['likelihood']:.3f} (label attention)"
    return f"F1 {figures['f1']:.3f} (linking head)" if "f1" in figures else None


def _settings(file: Path | None, base: FinderPreset | None) -> tuple[LabelAttentionTraining, LinkingHeadConfig]:
    from arbo.settings import read_json

    attention, head = (base.attention, base.head) if base else (LabelAttentionTraining(), LinkingHeadConfig())
    if file is None:
        return attention, head
    values = read_json(file, "the training configuration")
    unknown = sorted(set(values) - {"attention", "head"}) if isinstance(values, dict) else ["this is not an object"]
    if unknown:
        raise arbo.DataError(
            'expected an object {"attention": {...}, "head": {...}} with fields of arbo.LabelAttentionTraining and '
            f"arbo.LinkingHeadConfig; {'unknown: ' * isinstance(values, dict)}{', '.join(unknown)}",
            file=str(file),
        )
    attention = attention.changed_by(values.get("attention", {}), file=str(file))
    return attention, head.changed_by(values.get("head", {}), file=str(file))


def _start(model: str, encoder_config: Path | None, config: arbo.LabelAttentionConfig | None) -> arbo.LabelAttention:
    """Start from the transformer of an encoder; without ``config``, with its pooling if label attention supports it."""
    from arbo.spans.config import POOLINGS

    encoder = arbo.DualEncoder.from_pretrained(model)
    if not encoder.shared:
        raise arbo.UsageError(
            f"{model} has two transformers, but label attention reads names and texts with one; start from another "
            "encoder, e.g. from `arbo train-names`"
        )
    pooling = encoder.config.pooling
    if config is None:
        config = arbo.LabelAttentionConfig(pooling=pooling) if pooling in POOLINGS else arbo.LabelAttentionConfig()
    return arbo.LabelAttention.of(encoder.mention_tower, config.overridden(encoder_config))
