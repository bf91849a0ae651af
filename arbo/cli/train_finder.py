"""The verb `train finder`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import arbo
from arbo.cli import console, options
from arbo.cli.fields import READING, Chosen, Group, Shown
from arbo.cli.finding import ABBREVIATIONS, AbbreviationConfig
from arbo.cli.inputs import Docs, Kb, ReadingConfig, tell_known
from arbo.cli.training import LOG, OSLAT, Training, preset as preset_option
from arbo.training.config import FinderPresetName, OslatTraining

_PRESET = "oslat, at a rate that does not rise, names as means of their tokens. [default: none]"
_MODEL = Group("model", "arbo.spans.config", "LabelAttentionConfig")


def train_finder(
    docs: Docs,
    kb: Kb,
    training: Training,
    how: Annotated[Chosen, Shown((OSLAT, _MODEL, READING, ABBREVIATIONS, LOG))],
    dev: options.Dev = None,
    preset: Annotated[FinderPresetName | None, preset_option(_PRESET)] = None,
) -> None:
    """Train a model that finds mentions in unmarked texts (OSLAT), for `arbo find --finder`.

    First `arbo train names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`, then `arbo train finder train.txt
    --dev dev.txt --kb doid.obo --encoder aligned --out model`.

    Training reads the entities of each sentence of DOCS, but not their positions. The model learns where a name occurs
    in a text, and whether the entity occurs at all. --dev selects the best model and the minimum score of an entity.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.training.presets import FINDER_PRESETS

    base = None if preset is None else FINDER_PRESETS[preset]
    settings = how.of(OSLAT, OslatTraining() if base is None else base.training)
    start = _start(training.encoder, how, base and base.model)
    inputs = how.of(READING, ReadingConfig())
    documents, entities = docs.read(inputs), kb.read(inputs)
    tell_known(documents, entities)
    if dev is None:
        console.warn(
            "without --dev the last model is kept and the minimum score of an entity is not tuned; set it with "
            "`arbo find --set find_threshold=...`"
        )
    more: dict[str, Any] = {"dev": docs.dev(dev, inputs), "out": training.out, "options": training.run(how, _scores)}
    more |= {"expand_abbreviations": how.of(ABBREVIATIONS, AbbreviationConfig()).expand_abbreviations}
    trained = arbo.train_oslat(start, documents, entities, config=settings, **more)
    text = (
        f"minimum score of an entity: {trained.threshold:.3f}\n"
        f"next: arbo find DOCS --finder {training.out} ..., or arbo link DOCS --find-mentions {training.out} ..."
    )
    training.report(trained.settings, settings.as_dict(), text)


def _scores(figures: Mapping[str, Any]) -> str | None:
    return f"likelihood of synonyms {figures['likelihood']:.3f}" if "likelihood" in figures else None


def _start(model: str, how: Chosen, config: arbo.LabelAttentionConfig | None) -> arbo.LabelAttention:
    """Start from the transformer of an encoder; without ``config``, with its pooling if label attention supports it."""
    from arbo.spans.config import POOLINGS

    encoder = arbo.DualEncoder.from_pretrained(model)
    if not encoder.shared:
        wrong = f"{model} has two transformers, but label attention reads names and texts with one"
        raise arbo.UsageError(f"{wrong}; start from another encoder, e.g. from `arbo train names`")
    pooling = encoder.config.pooling
    if config is None:
        config = arbo.LabelAttentionConfig(pooling=pooling) if pooling in POOLINGS else arbo.LabelAttentionConfig()
    return arbo.LabelAttention.of(encoder.mention_tower, how.of(_MODEL, config))
