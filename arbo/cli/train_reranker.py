"""The verb `train reranker`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import arbo
from arbo.cli import options
from arbo.cli.fields import JOB, READING, Chosen, Group, Shown
from arbo.cli.finding import ABBREVIATIONS, AbbreviationConfig
from arbo.cli.inputs import Docs, Kb, ReadingConfig, tell_known
from arbo.cli.models import load_encoder
from arbo.cli.training import LOG, RERANKING, Training, preset as preset_option
from arbo.training.config import RerankingPresetName

_CANDIDATES_OF = "Encoder that finds the candidates: `ngram` or a transformer, as in `arbo link --encoder`."
_PRESET = (
    "arboel (64 candidates, score of the first token) or pel (16 candidates, score of the mean of all tokens, batches "
    "of 4)."
)
_READS = Group("reranker", "arbo.encoders.cross_config", "CrossEncoderConfig")


def train_reranker(
    docs: Docs,
    kb: Kb,
    training: Training,
    how: Annotated[Chosen, Shown((RERANKING, _READS, READING, ABBREVIATIONS, JOB, LOG))],
    dev: options.Dev = None,
    candidates_of: Annotated[str, options.option(metavar="MODEL", help=_CANDIDATES_OF)] = "ngram",
    preset: Annotated[RerankingPresetName, preset_option(_PRESET)] = "arboel",
) -> None:
    """Train a cross-encoder to choose among the candidates of an encoder, for `arbo link --reranker`.

    `arbo train reranker train.txt --dev dev.txt --kb doid.obo --candidates-of ngram
    --encoder all-MiniLM-L6-v2 --out cross`, then `arbo link test.txt --kb doid.obo
    --reranker cross --out run`.

    Repeat the command to resume an interrupted training from OUT.training, which also holds the candidates. When
    training ends, the log is in OUT.log.jsonl.
    """
    from arbo.encoders.cross_config import CROSS_PRESETS
    from arbo.progress import bars
    from arbo.training.presets import RERANKING_PRESETS

    settings, reads = how.of(RERANKING, RERANKING_PRESETS[preset]), how.of(_READS, CROSS_PRESETS[preset])
    start = arbo.CrossEncoder.of(arbo.DualEncoder.from_pretrained(training.encoder).mention_tower, reads).with_markers()
    first = load_encoder(candidates_of, how)
    inputs = how.of(READING, ReadingConfig())
    documents, entities = docs.read(inputs), kb.read(inputs)
    tell_known(documents, entities)
    expand = how.of(ABBREVIATIONS, AbbreviationConfig()).expand_abbreviations
    trained = arbo.train_reranker(
        start,
        arbo.Linker(entities, first, arbo.LinkerConfig(expand_abbreviations=expand), announce=bars),
        documents,
        dev=docs.dev(dev, inputs),
        out=training.out,
        config=settings,
        options=training.run(how, _scores),
    )
    model = first.settings.get("model", "ngram")
    told = f"next: arbo link DOCS --encoder {model} --reranker {training.out} ..."
    told += "; if mentions can be NIL, run arbo tune first"
    training.report(trained.settings, settings.as_dict(), told)


def _scores(figures: Mapping[str, Any]) -> str | None:
    if "accuracy" not in figures:
        return None
    among = f"{figures['accuracy_normalized']:.3f} where the candidates contain the entity"
    return f"accuracy {figures['accuracy']:.3f}, {among}"
