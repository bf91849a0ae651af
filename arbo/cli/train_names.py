"""The verb that aligns the names of a knowledge base: train-names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import arbo
from arbo.cli import options, train_options
from arbo.cli.inputs import read_documents, read_kb, tell_known
from arbo.cli.models import reading
from arbo.cli.train_options import changed_by, number, report, run_options
from arbo.training.config import FinderPresetName, SelfAlignmentConfig

_DOCUMENTS = (
    "Annotated documents, as files or folders, to align only the names of the entities in them. Without DOCS, all "
    "names are aligned."
)
_PRESET = "Start from the settings of a paper: oslat, at a rate that does not rise. [default: none, with those below]"
_Preset = Annotated[
    FinderPresetName | None, typer.Option("--preset", case_sensitive=False, metavar="PRESET", help=_PRESET)
]
_Documents = Annotated[list[Path] | None, typer.Argument(metavar="[DOCS]", help=_DOCUMENTS, show_default=False)]


def train_names(
    kb: options.Kb,
    out: train_options.ModelOut,
    encoder: train_options.Start,
    docs: _Documents = None,
    kb_format: options.KbFormat = None,
    format_: options.Format = None,
    encoder_config: train_options.EncoderConfig = None,
    kb_xrefs: options.KbXrefs = None,
    kb_types: options.KbTypes = None,
    types: options.Types = None,
    ids: options.Ids = None,
    preset: _Preset = None,
    config: Annotated[Path | None, train_options.settings_file(SelfAlignmentConfig)] = None,
    epochs: Annotated[int | None, number("epochs", SelfAlignmentConfig)] = None,
    steps: train_options.Steps = None,
    batch_size: Annotated[int | None, number("batch_size", SelfAlignmentConfig)] = None,
    learning_rate: Annotated[float | None, number("learning_rate", SelfAlignmentConfig)] = None,
    seed: Annotated[int | None, number("seed", SelfAlignmentConfig)] = None,
    tensorboard: train_options.Tensorboard = None,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Train an encoder to map all names of an entity to similar vectors; documents are optional.

    `arbo train-names --kb doid.obo --encoder all-MiniLM-L6-v2 --out aligned`. The result is an encoder
    like any other and a good start for `arbo train` and `arbo train-finder`.

    Repeat the command to resume an interrupted training from OUT.training. When training ends, the log is in
    OUT.log.jsonl.
    """
    from arbo.cli import console
    from arbo.training.presets import FINDER_PRESETS

    if not docs and (types or format_ or ids):
        raise arbo.UsageError("--types, --format and --ids need DOCS; give DOCS, or leave the options out")
    numbers = {"epochs": epochs, "steps": steps, "batch_size": batch_size, "learning_rate": learning_rate, "seed": seed}
    base = SelfAlignmentConfig() if preset is None else FINDER_PRESETS[preset].alignment
    settings = changed_by(base, config, **numbers)
    # OSLAT, section 3.1: the first token's vector is aligned.
    start = reading(arbo.DualEncoder.from_pretrained(encoder, arbo.EncoderConfig(pooling="cls")), encoder_config)
    entities, documents = read_kb(kb, kb_format, kb_xrefs, kb_types), None
    if not docs:
        console.say(f"aligning the names of all {len(entities):,} entities; give DOCS to align only those in documents")
    else:
        documents = read_documents(docs, format_, types, on_error, ids=ids)
        tell_known(documents, entities)
    run = run_options(tensorboard, lambda figures: None)
    trained = arbo.train_self_alignment(start, entities, documents=documents, out=out, config=settings, options=run)
    told = f"next: arbo train-finder DOCS --encoder {out} ..., or arbo link DOCS --encoder {out} ..."
    report(out, trained.settings, settings.as_dict(), told, as_json=as_json)
