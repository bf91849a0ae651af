"""The verb that trains dual-encoders: train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import Docs, OptionalKb, read_gold, tell_known
from arbo.cli.models import reading
from arbo.cli.train_options import Dev, EncoderConfig, Training, default_of
from arbo.errors import UsageError
from arbo.training import config
from arbo.training.config import LossName, NegativeStrategy, PositiveStrategy, PresetName, Selection

_VERBS = {"self-alignment": "train-names", "oslat": "train-names --preset oslat, then arbo train-finder --preset oslat"}


def _preset(name: str) -> PresetName:
    """Check the name of a preset; two former presets are now verbs."""
    if name in _VERBS:
        raise typer.BadParameter(f"{name!r} is not a preset; run: arbo {_VERBS[name]}")
    if name.lower() not in get_args(PresetName):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(get_args(PresetName))}")
    return cast(PresetName, name.lower())


def _choice(option: str, choices: Any, what: str, default: str | None = None) -> Any:
    default = default or default_of(config.TrainingConfig, option.removeprefix("--"))
    told = f"{what}: {', '.join(get_args(choices))}. {default}"
    return options.training(option, metavar="NAME", help=told)


_TOWERS = (
    "One transformer for mentions and one for entities (needs --kb), or one for both; two in --encoder stay. [default: "
    "two with --preset and --kb, otherwise as in --encoder]"
)
_Towers = Annotated[bool | None, options.encode("--two-towers/--one-tower", help=_TOWERS, show_default=False)]
_PRESET = (
    "Settings of a paper: arboel; pel or pel-fgsm, with proxies; amh-dual, amh-mean or amh-som, with adaptive mixup. "
    "[default: none, with the defaults below]"
)
_Preset = Annotated[PresetName | None, options.training("--preset", parser=_preset, metavar="PRESET", help=_PRESET)]
_POSITIVES = "[default: entity, or arborescence without --kb]"
_Positives = Annotated[
    PositiveStrategy | None, _choice("--positives", PositiveStrategy, "What to move each mention towards", _POSITIVES)
]
_NEGATIVES = "[default: in-batch+knn, or knn without --kb]"
_Negatives = Annotated[
    NegativeStrategy | None, _choice("--negatives", NegativeStrategy, "What to move each mention away from", _NEGATIVES)
]
_EDGES = (
    "Edge model (see `arbo link`) that replaces similarities between mentions with --positives arborescence. [default: "
    "none]"
)
_Edges = Annotated[Path | None, options.training("--edges", metavar="MODEL", help=_EDGES)]
_Loss = Annotated[LossName | None, _choice("--loss", LossName, "Loss")]
_Best = Annotated[
    Selection | None,
    _choice("--best", Selection, "Score on --dev that selects the model", "[default: recall@1, or ari without --kb]"),
]

_NO_DEV = "without --dev the last model is kept and its thresholds are not tuned; run `arbo tune` before linking"


def train(
    docs: Docs,
    kb: OptionalKb,
    dev: Dev,
    training: Annotated[Training, config.TrainingConfig],
    encoder_config: EncoderConfig = None,
    two_towers: _Towers = None,
    preset: _Preset = None,
    positives: _Positives = None,
    negatives: _Negatives = None,
    loss: _Loss = None,
    edges: _Edges = None,
    best: _Best = None,
    expand: options.Abbreviations = None,
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
    from arbo.cli.models import load_edges
    from arbo.encoders.encoder import NO_LIMIT
    from arbo.training.presets import PRESETS

    if best is not None and dev.dev is None:
        raise UsageError("--best chooses the model by its score on --dev; add --dev, or leave --best out")
    base = None if preset is None else PRESETS[preset]
    defaults = base.training if base else config.WITHOUT_KB if kb.path is None else config.TrainingConfig()
    if kb.path is None:
        defaults = replace(defaults, best=config.WITHOUT_KB.best)
    settings = training.settings(defaults, positives=positives, negatives=negatives, loss=loss, best=best)
    start = reading(
        arbo.DualEncoder.from_pretrained(training.encoder, base and base.encoder), encoder_config
    ).with_markers()
    if (preset is not None and kb.path is not None) if two_towers is None else two_towers:
        start = start.with_two_towers()
    documents, entities = docs.read(), kb.read()
    _tell_examples(documents, entities, clusters=settings.positives != "entity")
    if dev.dev is None:
        console.warn(_NO_DEV)
    run = training.run(partial(_scores, settings.best))
    how: Any = {"edges": load_edges(edges, None), "expand_abbreviations": expand is None}
    how |= {"dev": dev.read(docs), "out": training.out, "config": settings, "options": run}
    trained = arbo.train(start, documents, entities, **how)
    entity, mention = ("none" if limit >= NO_LIMIT[trained.metric] else f"{limit:.3f}" for limit in trained.threshold)
    verb = f"arbo {'discover' if kb.path is None else 'link'} DOCS --encoder {training.out}"
    verb += " --no-abbreviations" * (expand is not None)
    told = f"default thresholds {entity} (entity) and {mention} (mention)\nnext: {verb} ..."
    training.report(trained.settings, settings.as_dict(), told)


def _tell_examples(documents: arbo.Corpus, kb: arbo.KnowledgeBase | None, *, clusters: bool) -> None:
    """Print how many mentions are trained on, and how many of these have no entity."""
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
