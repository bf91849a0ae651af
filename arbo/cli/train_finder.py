"""The verb that trains mention finders: train-finder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import Docs, Kb, tell_known
from arbo.cli.train_options import Dev, Training, oslat_preset
from arbo.training.config import FinderPresetName, OslatTraining

_READS = "Settings of the model: a JSON file with fields of arbo.LabelAttentionConfig."
_Reads = Annotated[Path | None, options.encode("--encoder-config", metavar="FILE", help=_READS)]
_PRESET = (
    "at a rate that does not rise, names as means of their tokens. --config and --encoder-config override single "
    "fields. [default: none, with the defaults below]"
)
_Preset = Annotated[FinderPresetName | None, oslat_preset(_PRESET)]


def train_finder(
    docs: Docs,
    kb: Kb,
    dev: Dev,
    training: Annotated[Training, OslatTraining],
    encoder_config: _Reads = None,
    preset: _Preset = None,
    expand: options.Abbreviations = None,
) -> None:
    """Train a model that finds mentions in unmarked texts (OSLAT), for `arbo spans --finder`.

    First `arbo train-names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`, then `arbo
    train-finder train.txt --dev dev.txt --kb doid.obo --encoder aligned --out model`.

    Training reads the entities of each sentence of DOCS, but not their positions. The model learns where a name occurs
    in a text, and whether the entity occurs at all. --dev selects the best model and the minimum score of an entity.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.training.presets import FINDER_PRESETS

    base = None if preset is None else FINDER_PRESETS[preset]
    settings = training.settings(OslatTraining() if base is None else base.training)
    start = _start(training.encoder, encoder_config, base and base.model)
    documents, entities = docs.read(), kb.read()
    tell_known(documents, entities)
    if dev.dev is None:
        console.warn(
            "without --dev the last model is kept and the minimum score of an entity is not tuned; set it with "
            "--find-threshold of `arbo spans`"
        )
    how: dict[str, Any] = {"dev": dev.read(docs), "out": training.out, "options": training.run(_scores)}
    trained = arbo.train_oslat(start, documents, entities, expand_abbreviations=expand is None, config=settings, **how)
    told = (
        f"minimum score of an entity: {trained.threshold:.3f}\n"
        f"next: arbo spans DOCS --finder {training.out} ..., or arbo link DOCS --find-mentions {training.out} ..."
    )
    training.report(trained.settings, settings.as_dict(), told)


def _scores(figures: Mapping[str, Any]) -> str | None:
    return f"likelihood of synonyms {figures['likelihood']:.3f}" if "likelihood" in figures else None


def _start(model: str, encoder_config: Path | None, config: arbo.LabelAttentionConfig | None) -> arbo.LabelAttention:
    """Start from the transformer of an encoder; without ``config``, with its pooling if label attention supports it."""
    from arbo.spans.config import POOLINGS

    encoder = arbo.DualEncoder.from_pretrained(model)
    if not encoder.shared:
        wrong = f"{model} has two transformers, but label attention reads names and texts with one"
        raise arbo.UsageError(f"{wrong}; start from another encoder, e.g. from `arbo train-names`")
    pooling = encoder.config.pooling
    if config is None:
        config = arbo.LabelAttentionConfig(pooling=pooling) if pooling in POOLINGS else arbo.LabelAttentionConfig()
    return arbo.LabelAttention.of(encoder.mention_tower, config.overridden(encoder_config))
