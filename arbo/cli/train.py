"""The verb that trains dual-encoders: train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

import arbo
from arbo.cli import options, train_options
from arbo.cli.inputs import read_documents, read_gold, read_kb, tell_known
from arbo.cli.models import reading
from arbo.cli.train_options import changed_by, default_of, number, report, run_options
from arbo.training.config import (
    WITHOUT_KB,
    LossName,
    NegativeStrategy,
    PositiveStrategy,
    PresetName,
    Selection,
    TrainingConfig,
)

_VERBS = {"self-alignment": "train-names", "oslat": "train-finder"}


def _preset(name: str) -> PresetName:
    """Check the name of a preset; two former presets are now verbs."""
    if name in _VERBS:
        raise typer.BadParameter(f"{name!r} is not a preset; run: arbo {_VERBS[name]}")
    if name.lower() not in get_args(PresetName):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(get_args(PresetName))}")
    return cast(PresetName, name.lower())


def _choice(option: str, choices: Any, what: str, default: str | None = None) -> Any:
    default = default or default_of(TrainingConfig, option.removeprefix("--"))
    told = f"{what}: {', '.join(get_args(choices))}. {default}"
    return typer.Option(option, metavar="NAME", case_sensitive=False, help=told)


_TOWERS = (
    "Two towers: train one transformer for mentions and one for entities; needs --kb. One tower: train the transformer "
    "of --encoder for both; if --encoder has two towers already, it keeps them. [default: two with --preset and --kb, "
    "otherwise as in --encoder]"
)
_Towers = Annotated[bool | None, typer.Option("--two-towers/--one-tower", help=_TOWERS, show_default=False)]
_PRESET = (
    "Start from the settings of a paper: arboel; pel or pel-fgsm, with proxies; amh-dual, amh-mean or amh-som, with "
    "adaptive mixup. --config and --encoder-config override single fields. [default: none, with the defaults below]"
)
_Preset = Annotated[PresetName | None, typer.Option("--preset", parser=_preset, metavar="PRESET", help=_PRESET)]
_POSITIVES = "[default: entity, or arborescence without --kb]"
_Positives = Annotated[
    PositiveStrategy | None, _choice("--positives", PositiveStrategy, "What to move each mention towards", _POSITIVES)
]
_Negatives = Annotated[
    NegativeStrategy | None, _choice("--negatives", NegativeStrategy, "What to move each mention away from")
]
_EDGES = (
    "Edge model of `arbo train-edges`, or `english` for the one that arbo contains. It needs --positives arborescence, "
    "where it replaces the encoder's similarities between mentions. [default: none]"
)
_Edges = Annotated[Path | None, typer.Option("--edges", metavar="MODEL", help=_EDGES)]
_Loss = Annotated[LossName | None, _choice("--loss", LossName, "Loss")]
_Best = Annotated[
    Selection | None,
    _choice("--best", Selection, "Score on --dev that selects the model", "[default: recall@1, or ari without --kb]"),
]

_NO_DEV = "without --dev the last model is kept and its thresholds are not tuned; run `arbo tune` before linking"


def train(
    docs: options.Documents,
    out: train_options.ModelOut,
    encoder: train_options.Start,
    format_: options.Format = None,
    kb: options.OptionalKb = None,
    kb_format: options.KbFormat = None,
    dev: train_options.Dev = None,
    encoder_config: train_options.EncoderConfig = None,
    two_towers: _Towers = None,
    kb_xrefs: options.KbXrefs = None,
    kb_types: options.KbTypes = None,
    types: options.Types = None,
    ids: options.Ids = None,
    dev_ids: train_options.DevIds = None,
    preset: _Preset = None,
    config: Annotated[Path | None, train_options.settings_file(TrainingConfig)] = None,
    positives: _Positives = None,
    negatives: _Negatives = None,
    loss: _Loss = None,
    edges: _Edges = None,
    best: _Best = None,
    epochs: Annotated[int | None, number("epochs", TrainingConfig)] = None,
    steps: train_options.Steps = None,
    batch_size: Annotated[int | None, number("batch_size", TrainingConfig)] = None,
    learning_rate: Annotated[float | None, number("learning_rate", TrainingConfig)] = None,
    seed: Annotated[int | None, number("seed", TrainingConfig)] = None,
    tensorboard: train_options.Tensorboard = None,
    expand: options.Abbreviations = None,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Train a dual-encoder on annotated documents, for `arbo link --encoder` and `arbo discover --encoder`.

    Without --kb, it learns from gold clusters alone: sets of mentions with the same gold id or gold cluster.

    `arbo train train.txt --dev dev.txt --format pubtator --kb doid.obo --kb-format obo --encoder all-MiniLM-L6-v2 --out
    model`, then `arbo link test.txt --format pubtator --kb doid.obo --kb-format obo --encoder model --out run`.

    Without a preset, a transformer that arbo did not train reads only names, of mentions and entities alike. --dev
    selects the best model and its default thresholds.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.cli import console
    from arbo.cli.models import load_edges
    from arbo.training.presets import PRESETS

    base = None if preset is None else PRESETS[preset]
    defaults = base.training if base else WITHOUT_KB if kb is None else TrainingConfig()
    if kb is None:
        defaults = replace(defaults, best=WITHOUT_KB.best)
    numbers = {"epochs": epochs, "steps": steps, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    parts = {"positives": positives, "negatives": negatives, "loss": loss, "best": best}
    settings = changed_by(defaults, config, **parts, **numbers)
    start = reading(arbo.DualEncoder.from_pretrained(encoder, base and base.encoder), encoder_config).with_markers()
    if (preset is not None and kb is not None) if two_towers is None else two_towers:
        start = start.with_two_towers()
    documents = read_documents(docs, format_, types, on_error, ids=ids)
    entities = None if kb is None else read_kb(kb, kb_format, kb_xrefs, kb_types)
    _tell_examples(documents, entities, clusters=settings.positives != "entity")
    if dev is None:
        console.warn(_NO_DEV)
    held_out = train_options.held_out(dev, dev_ids, format_, types, on_error)
    run = run_options(tensorboard, partial(_scores, settings.best))
    how: Any = {"edges": load_edges(edges, None), "expand_abbreviations": expand is None}
    trained = arbo.train(start, documents, entities, dev=held_out, out=out, config=settings, options=run, **how)
    entity, mention = trained.threshold
    thresholds = f"default thresholds {entity:.3f} (entity) and {mention:.3f} (mention)"
    told = f"{thresholds}\nnext: arbo {'discover' if kb is None else 'link'} DOCS --encoder {out} ..."
    report(out, trained.settings, settings.as_dict(), told, as_json=as_json)


def _tell_examples(documents: arbo.Corpus, kb: arbo.KnowledgeBase | None, *, clusters: bool) -> None:
    """Print how many mentions are trained on, and how many of these have no entity."""
    from arbo.cli import console
    from arbo.training.data import TrainingSet

    if kb is None:
        read_gold(documents, None)  # warns of a doubtful id
    else:
        tell_known(documents, kb)
    if clusters:
        data = TrainingSet.of(documents, kb or arbo.KnowledgeBase(), clusters=True, expand_abbreviations=False)
        n = (data.entity[data.queries] < 0).sum()
        console.say(f"mentions without an entity that share a gold id or gold cluster, and are trained on: {n:,}")


def _scores(best: str, figures: Mapping[str, Any]) -> str | None:
    names = dict.fromkeys(("recall@1", "recall@64", "ari", best) if "recall@1" in figures else ("ari", "b3", "conll"))
    return ", ".join(f"{name} {figures[name]:.3f}" for name in names) if "ari" in figures else None
