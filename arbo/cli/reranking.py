"""The verb that makes rerankers: train-reranker."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
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
    ModelOut,
    OnError,
    OnErrorOption,
    Start,
    Steps,
    Tensorboard,
    Types,
    with_default,
)
from arbo.training.config import RerankingConfig

if TYPE_CHECKING:
    from arbo.candidates import Candidates
    from arbo.knowledge_base import KnowledgeBase
    from arbo.result import Result


class RerankerPresets(StrEnum):
    """What the papers train."""

    arboel = "arboel"
    pel = "pel"


def _help(name: str, what: str = "") -> str:
    return with_default(RerankingConfig, name, what)


def _candidates(run: Path, result: Result, kb: KnowledgeBase) -> Candidates:
    from arbo import Candidates, UsageError

    try:
        return Candidates.of_result(result, kb)
    except UsageError as error:
        raise UsageError(f"{run}: {error}") from None


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
        Path | None,
        typer.Option(
            "--encoder-config",
            metavar="FILE",
            help="What it reads of a mention and an entity: a JSON file with fields of arbo.CrossEncoderConfig, e.g. "
            '{"max_length": 128}.',
        ),
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
    dev: Annotated[
        Path | None,
        typer.Option("--dev", metavar="DOCS", help="Documents to choose the best model on; same format."),
    ] = None,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    preset: Annotated[
        RerankerPresets | None,
        typer.Option(
            "--preset",
            help="Start from what a paper trains: ArboEL (64 candidates, the first token is scored), or the proxy "
            "paper (16, the mean of all tokens). --config and --encoder-config override single fields.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="All settings: a JSON file with fields of arbo.RerankingConfig; the options below override it.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help=_help("epochs"))] = None,
    steps: Steps = None,
    batch_size: Annotated[
        int | None, typer.Option("--batch-size", min=1, help=_help("batch_size", "Mentions a step."))
    ] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help=_help("learning_rate"))] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help=_help("seed"))] = None,
    tensorboard: Tensorboard = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Train a cross-encoder to choose among the candidates of an encoder, for `arbo link --reranker`.

    `arbo train-reranker train.txt --dev dev.txt --format pubtator --kb doid.obo --kb-format obo --candidates-of ngram
    --encoder all-MiniLM-L6-v2 --out cross`, then `arbo link test.txt --format pubtator --kb doid.obo --kb-format obo
    --reranker cross --out run`.

    What is under way stands in the folder OUT.training, the candidates too, and log.jsonl with the figures of every
    step: after an interruption the same command goes on from there. In the end the log is OUT.log.jsonl.
    """
    from arbo import CrossEncoder, DualEncoder, Linker, Result, UsageError, console
    from arbo.encoders import CROSS_PRESETS
    from arbo.progress import bars
    from arbo.training.cross import train_reranker as train
    from arbo.training.presets import RERANKING_PRESETS, RerankingPresetName

    name: RerankingPresetName = "arboel" if preset is None else preset.value
    settings = overridden(RERANKING_PRESETS[name], config, "the training's configuration")
    given: dict[str, Any] = {
        "epochs": epochs,
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
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

    def tell(figures: dict[str, Any]) -> None:
        if "accuracy" in figures:
            console.say(
                f"epoch {figures['epoch'] + 1}, step {figures['step']:,}: loss {figures['loss']:.3f}; on the "
                f"development documents accuracy {figures['accuracy']:.3f}, where the entity is among the candidates "
                f"{figures['accuracy_normalized']:.3f}"
            )

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
        tensorboard=tensorboard,
        on_log=tell,
    )
    if as_json:
        console.print_json({"model": str(out), "settings": trained.settings, "training": settings.as_dict()})
        return
    console.out.print(
        f"written to {out}; figures of every step: {out}.log.jsonl\n"
        f"next: arbo link DOCS --encoder {first.settings.get('model', 'ngram')} --reranker {out} ..., after arbo tune "
        "if mentions can be NIL"
    )
