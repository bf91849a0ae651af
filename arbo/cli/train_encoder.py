"""The verb `train encoder`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import arbo
from arbo.cli import console, options
from arbo.cli.fields import ENCODER, READING, Chosen, Group, Shown
from arbo.cli.finding import ABBREVIATIONS, AbbreviationConfig
from arbo.cli.inputs import Docs, OptionalKb, ReadingConfig, read_gold, tell_known
from arbo.cli.training import LOG, TRAINING, Training, preset as preset_option
from arbo.errors import UsageError
from arbo.settings import Settings
from arbo.training import config
from arbo.training.config import PresetName

_PRESET = "arboel; pel or pel-fgsm, with proxies; amh-dual, amh-mean or amh-som, with adaptive mixup. [default: none]"
_EDGES = (
    "Edge model (see `arbo link`) that replaces similarities between mentions with `positives=arborescence`. [default: "
    "none]"
)
_Edges = Annotated[Path | None, options.option("--edges", metavar="MODEL", help=_EDGES)]


@dataclass(frozen=True, slots=True)
class StartConfig(Settings):
    """The transformer at the start."""

    two_towers: bool | None = None
    """One transformer for mentions and one for entities (needs --kb), or one for both; None means two with --preset
    and --kb, and otherwise as in --encoder. Two in --encoder stay."""


_START = Group("start", __name__, "StartConfig")
_SETTINGS = Shown((TRAINING, ENCODER, READING, _START, ABBREVIATIONS, LOG))
_NO_DEV = "without --dev the last model is kept and its thresholds are not tuned; run `arbo tune` before linking"


def train_encoder(
    docs: Docs,
    kb: OptionalKb,
    training: Training,
    how: Annotated[Chosen, _SETTINGS],
    dev: options.Dev = None,
    preset: Annotated[PresetName | None, preset_option(_PRESET)] = None,
    edges: _Edges = None,
) -> None:
    """Train a dual-encoder on annotated documents, for `arbo link --encoder` and `arbo discover --encoder`.

    Without --kb, it learns from gold clusters alone: sets of mentions with the same gold id or gold cluster.

    `arbo train encoder train.txt --dev dev.txt --kb doid.obo --encoder all-MiniLM-L6-v2 --out model`, then `arbo link
    test.txt --kb doid.obo --encoder model --out run`.

    Without a preset, a transformer that arbo did not train reads only names, of mentions and entities alike. --dev
    selects the best model and its default thresholds.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.encoders.encoder import NO_LIMIT
    from arbo.pipeline.named_linker import changed_encoder, tuned_edges
    from arbo.training.presets import PRESETS

    if "best" in how.given(TRAINING) and dev is None:
        raise UsageError("best chooses the model by its score on --dev; add --dev, or leave best out")
    base = None if preset is None else PRESETS[preset]
    defaults = base.training if base else config.WITHOUT_KB if kb.path is None else config.TrainingConfig()
    if kb.path is None:
        defaults = replace(defaults, best=config.WITHOUT_KB.best)
    settings = how.of(TRAINING, defaults)
    start = arbo.DualEncoder.from_pretrained(training.encoder, base and base.encoder)
    start = changed_encoder(start, how.given(ENCODER)).with_markers()
    two_towers = how.of(_START, StartConfig()).two_towers
    if (preset is not None and kb.path is not None) if two_towers is None else two_towers:
        start = start.with_two_towers()
    inputs = how.of(READING, ReadingConfig())
    documents, entities = docs.read(inputs), kb.read(inputs)
    _tell_examples(documents, entities, clusters=settings.positives != "entity")
    if dev is None:
        console.warn(_NO_DEV)
    expand = how.of(ABBREVIATIONS, AbbreviationConfig()).expand_abbreviations
    more: Any = {"edges": tuned_edges(None, edges), "expand_abbreviations": expand}
    more |= {"dev": docs.dev(dev, inputs), "out": training.out, "config": settings}
    trained = arbo.train(start, documents, entities, options=training.run(how, partial(_scores, settings.best)), **more)
    entity, mention = ("none" if limit >= NO_LIMIT[trained.metric] else f"{limit:.3f}" for limit in trained.threshold)
    verb = f"arbo {'discover' if kb.path is None else 'link'} DOCS --encoder {training.out}"
    verb += " --set expand_abbreviations=false" * (not expand)
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
