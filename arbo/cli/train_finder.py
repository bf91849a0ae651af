"""The verb that trains mention finders: train-finder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import Docs, Kb, tell_known
from arbo.cli.train_options import Dev, Training, oslat_preset
from arbo.training.config import FinderPresetName, LabelAttentionTraining, LinkingHeadConfig

if TYPE_CHECKING:
    from arbo.training.presets import FinderPreset

_READS = "Settings of the model: a JSON file with fields of arbo.LabelAttentionConfig."
_CONFIG = (
    'Settings of training: a JSON file {"attention": {...}, "head": {...}} with fields of arbo.LabelAttentionTraining '
    "and arbo.LinkingHeadConfig; the options below override both."
)
_Reads = Annotated[Path | None, options.encode("--encoder-config", metavar="FILE", help=_READS)]
_PRESET = (
    "with a linear head, names as means of their tokens, and a threshold on tokens. --config and --encoder-config "
    "override single fields. [default: none, with the defaults below]"
)
_Preset = Annotated[FinderPresetName | None, oslat_preset(_PRESET)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Training(Training):
    config: Annotated[Path | None, options.training(metavar="FILE", help=_CONFIG)] = None


def train_finder(
    docs: Docs,
    kb: Kb,
    dev: Dev,
    training: Annotated[_Training, LabelAttentionTraining],
    encoder_config: _Reads = None,
    preset: _Preset = None,
    expand: options.Abbreviations = None,
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
    from arbo.training.oslat.synonyms import AnnotatedTexts
    from arbo.training.presets import FINDER_PRESETS

    base = None if preset is None else FINDER_PRESETS[preset]
    attention, head = _settings(training.config, base)
    attention, head = training.numbers(attention), training.numbers(head)
    start = _start(training.encoder, encoder_config, base and base.model)
    documents, entities = docs.read(), kb.read()
    tell_known(documents, entities)
    alone = AnnotatedTexts.of(documents, entities).n_alone
    if alone:
        console.say(f"entities with only one name, counted per document: {alone:,}; only the linking head uses them")
    if dev.dev is None:
        console.warn(
            "without --dev the last model is kept and the minimum score of an entity is not tuned; set it with "
            "--find-threshold of `arbo spans`"
        )
    parts: dict[str, Any] = {"attention": attention, "head": head}
    how: dict[str, Any] = {"dev": dev.read(docs), "out": training.out, "options": training.run(_scores)}
    trained = arbo.train_oslat(start, documents, entities, expand_abbreviations=expand is None, **how, **parts)
    told = (
        f"figures of label attention: {training.out}.attention.log.jsonl\n"
        f"minimum score of an entity: {trained.threshold:.3f}\n"
        f"next: arbo spans DOCS --finder {training.out} ..., or arbo link DOCS --find-mentions {training.out} ..."
    )
    training.report(trained.settings, {name: part.as_dict() for name, part in parts.items()}, told)


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
        wrong = f"{model} has two transformers, but label attention reads names and texts with one"
        raise arbo.UsageError(f"{wrong}; start from another encoder, e.g. from `arbo train-names`")
    pooling = encoder.config.pooling
    if config is None:
        config = arbo.LabelAttentionConfig(pooling=pooling) if pooling in POOLINGS else arbo.LabelAttentionConfig()
    return arbo.LabelAttention.of(encoder.mention_tower, config.overridden(encoder_config))
