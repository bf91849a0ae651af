"""The verb that trains rerankers: train-reranker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import arbo
from arbo.cli import options
from arbo.cli.inputs import Docs, Kb, tell_known
from arbo.cli.models import encoder_like
from arbo.cli.train_options import Dev, Training, reads_file
from arbo.files import real
from arbo.training.config import RerankingConfig, RerankingPresetName

_CANDIDATES_OF = (
    "Encoder that finds the candidates: `ngram` or a transformer, as in `arbo link --encoder`. [default: the encoder "
    "of --run, else ngram]"
)
_K_READ = "Number of candidates that the reranker reads for each mention. [default: 64, or 16 with --preset pel]"
_RUNS = (
    "Run of `arbo link` over DOCS or the documents of --dev, with the same knowledge base and no reranker; its "
    "candidates are used instead of a new search. May be repeated, once for each."
)
_PRESET = (
    "Start from the settings of a paper: arboel (64 candidates, score of the first token) or pel (16 candidates, score "
    "of the mean of all tokens, batches of 4). --config and --encoder-config override single fields."
)
_CandidatesOf = Annotated[str | None, Option("--candidates-of", metavar="MODEL", help=_CANDIDATES_OF)]
_K = Annotated[int | None, options.training("--k", metavar="N", min=2, help=_K_READ)]
_Reads = Annotated[Path | None, reads_file("CrossEncoderConfig", '{"max_length": 128}', "cross-encoder")]
_Runs = Annotated[list[Path] | None, Option("--run", metavar="RUN", help=_RUNS)]
_Preset = Annotated[RerankingPresetName, options.training("--preset", metavar="PRESET", help=_PRESET)]


def train_reranker(
    docs: Docs,
    kb: Kb,
    dev: Dev,
    training: Annotated[Training, RerankingConfig],
    candidates_of: _CandidatesOf = None,
    k: _K = None,
    encoder_config: _Reads = None,
    runs: _Runs = None,
    cache: options.Cache = None,
    preset: _Preset = "arboel",
    expand: options.Abbreviations = None,
) -> None:
    """Train a cross-encoder to choose among the candidates of an encoder, for `arbo link --reranker`.

    `arbo train-reranker train.txt --dev dev.txt --kb doid.obo --candidates-of ngram
    --encoder all-MiniLM-L6-v2 --out cross`, then `arbo link test.txt --kb doid.obo
    --reranker cross --out run`.

    Repeat the command to resume an interrupted training from OUT.training, which also holds the candidates. When
    training ends, the log is in OUT.log.jsonl.
    """
    from arbo.encoders.cross_config import CROSS_PRESETS
    from arbo.progress import bars
    from arbo.training.presets import RERANKING_PRESETS

    settings = training.settings(RERANKING_PRESETS[preset])
    reads = CROSS_PRESETS[preset].overridden(encoder_config)
    reads = reads if k is None else replace(reads, candidates=k)
    start = arbo.CrossEncoder.of(arbo.DualEncoder.from_pretrained(training.encoder).mention_tower, reads).with_markers()
    results = load_runs(runs or ())
    expands = expand_abbreviations(results)
    if results and expands and expand is not None:
        wrong = "the runs of --run expanded abbreviations"
        raise arbo.UsageError(f"{wrong}; leave --no-abbreviations out, or link them again with it")
    expands = expands and expand is None
    made_by, made_with = next(iter(results.items()), (None, None))
    first = encoder_like(made_with.manifest["encoder"] if made_with else {}, made_by, candidates_of, None, cache)
    documents, entities = docs.read(), kb.read()
    tell_known(documents, entities)
    trained = arbo.train_reranker(
        start,
        arbo.Linker(entities, first, arbo.LinkerConfig(expand_abbreviations=expands), announce=bars),
        documents,
        dev=dev.read(docs),
        candidates={str(run): candidates_in(run, result, entities) for run, result in results.items()},
        out=training.out,
        config=settings,
        options=training.run(_scores),
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


def load_runs(runs: Sequence[Path]) -> dict[Path, arbo.Result]:
    """Load the runs of --run; raise UsageError for a repeated one."""
    if len({real(run) for run in runs}) < len(runs):
        raise arbo.UsageError("--run names the same run twice; name each run once")
    return {run: arbo.Result.load(run) for run in runs}


def expand_abbreviations(results: Mapping[Path, arbo.Result]) -> bool:
    """Return whether the runs, if any, expand abbreviations; raise UsageError if some do and some do not."""
    made = {bool(result.manifest["config"].get("expand_abbreviations", True)) for result in results.values()}
    if len(made) > 1:
        raise arbo.UsageError("some of the runs were made with --no-abbreviations, some without; give runs of one kind")
    return made != {False}


def candidates_in(run: Path, result: arbo.Result, kb: arbo.KnowledgeBase) -> arbo.Candidates:
    """Return the candidates of a run; errors name the run."""
    try:
        return arbo.Candidates.of_result(result, kb)
    except arbo.UsageError as error:
        raise arbo.UsageError(f"{run}: {error}") from None
