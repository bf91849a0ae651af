"""The verb that makes encoders: train."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from arbo.cli import oslat
from arbo.cli.inputs import overridden, read_documents, read_kb, reading, tell_known
from arbo.cli.options import (
    DocumentFormat,
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
from arbo.training.config import TrainingConfig


class Positives(StrEnum):
    """What a mention is drawn towards."""

    entity = "entity"
    arborescence = "arborescence"
    one_nearest = "1nn"
    one_random = "1rand"
    one_nearest_cluster = "1nn-cluster"
    one_random_cluster = "1rand-cluster"


class Negatives(StrEnum):
    """What it is pushed away from."""

    in_batch = "in-batch"
    in_batch_hard = "in-batch-hard"
    in_batch_mixed = "in-batch-mixed"
    random = "random"
    knn = "knn"
    mixed = "mixed"


class Losses(StrEnum):
    """How scores become a loss."""

    arborescence = "arborescence"
    cross_entropy = "cross-entropy"
    proxy = "proxy"
    bce = "bce"


class Presets(StrEnum):
    """What the papers train."""

    arboel = "arboel"
    pel = "pel"
    pel_fgsm = "pel-fgsm"
    amh_dual = "amh-dual"
    amh_mean = "amh-mean"
    amh_som = "amh-som"
    self_alignment = "self-alignment"
    oslat = "oslat"


def _help(name: str, what: str = "") -> str:
    return with_default(TrainingConfig, name, what)


def train(
    kb: Kb,
    kb_format: KbFormat,
    out: ModelOut,
    encoder: Start,
    docs: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DOCS]",
            help="Annotated documents: a file or a folder of files. The preset self-alignment can do without.",
            show_default=False,
        ),
    ] = None,
    format_: Annotated[
        DocumentFormat | None, typer.Option("--format", help="Format of DOCS.", show_default=False)
    ] = None,
    encoder_config: Annotated[
        Path | None,
        typer.Option(
            "--encoder-config",
            metavar="FILE",
            help="What the transformer reads and how: a JSON file with fields of arbo.EncoderConfig, e.g. "
            '{"pooling": "mention", "context": 25}; with the preset oslat of arbo.LabelAttentionConfig.',
        ),
    ] = None,
    two_towers: Annotated[
        bool | None,
        typer.Option(
            "--two-towers/--one-tower",
            help="Train one transformer for mentions and another for entities, as all presets but OSLAT's do, or "
            "one for both.",
            show_default=False,
        ),
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(
            "--dev",
            metavar="DOCS",
            help="Documents to choose the best model and its default thresholds on; same format.",
        ),
    ] = None,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    preset: Annotated[
        Presets | None,
        typer.Option(
            "--preset",
            help="Start from what a paper trains: ArboEL, the proxy paper without or with its regulariser, adaptive "
            "mixup; OSLAT is told above. Two towers read mentions in context and entities with their description; the "
            "first token (arboel, amh-dual), the mean of all (amh-mean) or all of them one by one (amh-som) are "
            "compared by inner product, or the mean by cosine (pel, pel-fgsm). --config and --encoder-config override "
            "single fields. Without a preset: what to start with, one tower that reads names, near negatives, "
            "cross-entropy over cosines.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="All settings: a JSON file with fields of arbo.TrainingConfig; the options below override it. With "
            "the preset self-alignment fields of arbo.SelfAlignmentConfig, with oslat two objects, "
            '{"attention": {...}, "head": {...}}, of arbo.LabelAttentionTraining and arbo.LinkingHeadConfig.',
        ),
    ] = None,
    positives: Annotated[
        Positives | None, typer.Option("--positives", help=_help("positives", "What mentions are drawn towards."))
    ] = None,
    negatives: Annotated[
        Negatives | None, typer.Option("--negatives", help=_help("negatives", "What they are pushed away from."))
    ] = None,
    loss: Annotated[Losses | None, typer.Option("--loss", help=_help("loss"))] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help=_help("epochs"))] = None,
    steps: Steps = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", min=1, help=_help("batch_size"))] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help=_help("learning_rate"))] = None,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help=_help("seed"))] = None,
    tensorboard: Tensorboard = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Train a dual-encoder on annotated documents, for `arbo link --encoder` and `arbo discover --encoder`.

    `arbo train train.txt --dev dev.txt --format pubtator --kb doid.obo --kb-format obo --encoder all-MiniLM-L6-v2 --out
    model`, then `arbo link test.txt --format pubtator --kb doid.obo --kb-format obo --encoder model --out run`.

    What is under way stands in the folder OUT.training, log.jsonl with the figures of every step too: after an
    interruption the same command goes on from there. In the end the log is OUT.log.jsonl.

    OSLAT finds the entities of a text without anybody having marked where they are: of DOCS it reads which entities
    are in a sentence, never in which words. It is trained in two commands. `arbo train --preset self-alignment --kb
    doid.obo --kb-format obo --encoder all-MiniLM-L6-v2 --out aligned` draws the names of each entity together, and
    makes an encoder like any other; with DOCS those of the entities in them alone. `arbo train train.txt --dev dev.txt
    --format pubtator --preset oslat --kb doid.obo --kb-format obo --encoder aligned --out model` then trains where a
    name looks in a text, and a head that says whether it is there; --epochs, --steps, --batch-size, --learning-rate
    and --seed are for both. Documents are read sentence by sentence, as `arbo spans --encoder model` will read them;
    --dev chooses the score from which on an entity is in one.
    """
    from arbo import DualEncoder, UsageError, console
    from arbo.progress import bars
    from arbo.training.dual.trainer import train as train_encoder
    from arbo.training.presets import PRESETS, PresetName

    numbers = {
        "epochs": epochs,
        "steps": steps,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    changes: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    if docs is None and preset is not Presets.self_alignment:
        raise UsageError("DOCS is missing: annotated documents to train on; the preset self-alignment needs none")
    if (docs is None) != (format_ is None):
        raise UsageError("DOCS and --format go together: the one is read as the other says")
    if preset is Presets.self_alignment or preset is Presets.oslat:
        is_alignment = preset is Presets.self_alignment
        meaningless: dict[str, object] = {"--positives": positives, "--negatives": negatives, "--loss": loss}
        meaningless["--two-towers or --one-tower"] = two_towers
        if is_alignment:
            meaningless |= {"--dev": dev, "--types": types if docs is None else None}
        oslat.refuse(preset.value, meaningless)
        given = oslat.Given(
            docs=docs,
            format_=format_,
            dev=dev,
            kb=kb,
            kb_format=kb_format,
            kb_xrefs=kb_xrefs,
            types=types,
            encoder=encoder,
            encoder_config=encoder_config,
            config=config,
            changes=changes,
            out=out,
            tensorboard=tensorboard,
            on_error=on_error,
            as_json=as_json,
        )
        (oslat.align if is_alignment else oslat.attend)(given)
        return
    assert docs is not None
    assert format_ is not None
    base = None if preset is None else PRESETS[cast(PresetName, preset.value)]
    settings = overridden(base.training if base else TrainingConfig(), config, "the training's configuration")
    chosen = {"positives": positives, "negatives": negatives, "loss": loss}
    changes |= {name: choice.value for name, choice in chosen.items() if choice is not None}
    settings = replace(settings, **changes)
    start = reading(DualEncoder.from_pretrained(encoder, base and base.encoder), encoder_config).with_markers()
    if preset is not None if two_towers is None else two_towers:
        start = start.with_two_towers()

    def tell(figures: dict[str, Any]) -> None:
        if "recall@1" in figures:
            place = f"epoch {figures['epoch'] + 1}, step {figures['step']:,}"
            scores = ", ".join(f"{name} {figures[name]:.3f}" for name in ("recall@1", "recall@64", "ari"))
            console.say(f"{place}: loss {figures['loss']:.3f}; on the development documents {scores}")

    documents, entities = read_documents(docs, format_, types, on_error), read_kb(kb, kb_format, kb_xrefs)
    tell_known(documents, entities)
    if dev is None:
        console.warn(
            "without --dev the last model is kept, and its thresholds are not chosen: `arbo tune` it before linking"
        )
    trained = train_encoder(
        start,
        documents,
        entities,
        dev=None if dev is None else read_documents(dev, format_, types, on_error),
        out=out,
        config=settings,
        tensorboard=tensorboard,
        announce=bars,
        on_log=tell,
    )
    if as_json:
        console.print_json({"model": str(out), "settings": trained.settings, "training": settings.as_dict()})
        return
    entity, mention = trained.threshold
    console.out.print(
        f"written to {out}; default thresholds {entity:.3f} (entity) and {mention:.3f} (mention)\n"
        f"next: arbo link DOCS --encoder {out} ...; figures of every step: {out}.log.jsonl"
    )
