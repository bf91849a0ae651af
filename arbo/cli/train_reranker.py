"""The verb that trains rerankers: train-reranker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arbo.cli.inputs import encoder_like, overridden, read_documents, read_kb, tell_known
from arbo.cli.options import (
    Cache,
    Documents,
    Format,
    Json,
    Kb,
    KbFormat,
    KbXrefs,
    OnError,
    OnErrorOption,
    Types,
)
from arbo.cli.train_options import (
    Dev,
    ModelOut,
    Start,
    Steps,
    Tensorboard,
    changed_by,
    file_of,
    number,
    report,
    run_options,
)
from arbo.training.config import RerankingConfig, RerankingPresetName

if TYPE_CHECKING:
    from arbo.candidates import Candidates
    from arbo.knowledge_base import KnowledgeBase
    from arbo.result import Result


def train_reranker(
    docs: Documents,
    format_: Format,
    kb: Kb,
    kb_format: KbFormat,
    out: ModelOut,
    encoder: Start,
    candidates_of: Annotated[
        str | None,
        typer.Option(
            "--candidates-of",
            metavar="MODEL",
            help="The first stage, whose nearest entities it learns to choose among: `ngram`, or a transformer, as of "
            "`arbo link --encoder`. [default: ngram, or what --run was made with]",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", min=2, help="How many of them it reads of each mention. [default: 64, or the preset's]"),
    ] = None,
    encoder_config: Annotated[
        Path | None, file_of("arbo.CrossEncoderConfig", "--encoder-config", "What it reads of a mention and an entity")
    ] = None,
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            "--run",
            metavar="RUN",
            help="A run of `arbo link` over DOCS or DEV with the same knowledge base, of an encoder alone: the "
            "candidates that it kept are taken, not searched again. Repeat for both.",
        ),
    ] = None,
    cache: Cache = None,
    dev: Dev = None,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    preset: Annotated[
        RerankingPresetName | None,
        typer.Option(
            "--preset",
            case_sensitive=False,
            metavar="PRESET",
            help="Start from what a paper trains: arboel (64 candidates, the first token is scored), or pel (16, the "
            "mean of all tokens). --config and --encoder-config override single fields. [default: arboel]",
        ),
    ] = None,
    config: Annotated[
        Path | None, file_of("arbo.RerankingConfig, which the options below override", "--config", "All settings")
    ] = None,
    epochs: Annotated[int | None, number("epochs", RerankingConfig)] = None,
    steps: Steps = None,
    batch_size: Annotated[int | None, number("batch_size", RerankingConfig)] = None,
    learning_rate: Annotated[float | None, number("learning_rate", RerankingConfig)] = None,
    seed: Annotated[int | None, number("seed", RerankingConfig)] = None,
    tensorboard: Tensorboard = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Train a cross-encoder to choose among the candidates of an encoder, for `arbo link --reranker`.

    `arbo train-reranker train.txt --dev dev.txt --format pubtator --kb doid.obo --kb-format obo --candidates-of ngram
    --encoder all-MiniLM-L6-v2 --out cross`, then `arbo link test.txt --format pubtator --kb doid.obo --kb-format obo
    --reranker cross --out run`.

    An interrupted training goes on with the same command: it is kept in OUT.training, with the candidates. In the end
    its log is OUT.log.jsonl.
    """
    from arbo import CrossEncoder, DualEncoder, Linker, Result, UsageError
    from arbo.encoders import CROSS_PRESETS
    from arbo.progress import bars
    from arbo.training.cross import train_reranker as train
    from arbo.training.presets import RERANKING_PRESETS

    name: RerankingPresetName = preset or "arboel"
    settings = changed_by(
        RERANKING_PRESETS[name],
        config,
        epochs=epochs,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
    )
    reads = overridden(CROSS_PRESETS[name], encoder_config, "the cross-encoder's configuration")
    if k is not None:
        reads = replace(reads, candidates=k)
    start = CrossEncoder.of(DualEncoder.from_pretrained(encoder).mention_tower, reads).with_markers()
    runs = runs or []
    if len({run.resolve() for run in runs}) < len(runs):
        raise UsageError("--run names the same run twice")
    results = [Result.load(run) for run in runs]
    made_with = results[0].manifest["encoder"] if runs else {}
    first = encoder_like(made_with, runs[0] if runs else None, candidates_of, None, cache)
    documents, entities = read_documents(docs, format_, types, on_error), read_kb(kb, kb_format, kb_xrefs)
    tell_known(documents, entities)
    trained = train(
        start,
        Linker(entities, first, announce=bars),
        documents,
        dev=None if dev is None else read_documents(dev, format_, types, on_error),
        candidates={str(run): _candidates(run, found, entities) for run, found in zip(runs, results, strict=True)},
        out=out,
        config=settings,
        options=run_options(tensorboard, _scores),
    )
    told = (
        f"next: arbo link DOCS --encoder {first.settings.get('model', 'ngram')} --reranker {out} ..., after arbo tune "
        "if mentions can be NIL"
    )
    report(out, trained, settings.as_dict(), told, as_json=as_json)


def _scores(figures: Any) -> str | None:
    if "accuracy" not in figures:
        return None
    among = f"where the entity is among the candidates {figures['accuracy_normalized']:.3f}"
    return f"accuracy {figures['accuracy']:.3f}, {among}"


def _candidates(run: Path, result: Result, kb: KnowledgeBase) -> Candidates:
    from arbo import Candidates, UsageError

    try:
        return Candidates.of_result(result, kb)
    except UsageError as error:
        raise UsageError(f"{run}: {error}") from None
