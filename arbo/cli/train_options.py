"""Options, changes of settings and the final report that the training verbs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

import arbo
from arbo.cli.inputs import read_documents

if TYPE_CHECKING:
    from arbo.data.records import OnError
    from arbo.readers import DocumentFormat
    from arbo.training.config import LoopConfig

Settings = TypeVar("Settings", bound="LoopConfig")

_DEV = "Annotated documents that select the best model, in the format of DOCS. [default: keep the last model]"
_START = (
    "Model to start from: a local folder, `all-MiniLM-L6-v2` from its pip package, or a name on the Hugging Face Hub."
)
_STEPS = "Stop after this many steps. [default: train all epochs]"
_TENSORBOARD = "Also write the log to this folder, for TensorBoard."
_DEV_IDS = "Keep only documents of --dev with the ids in FILE."
Dev = Annotated[Path | None, typer.Option("--dev", metavar="DOCS", help=_DEV)]
DevIds = Annotated[Path | None, typer.Option("--dev-ids", metavar="FILE", help=_DEV_IDS)]
ModelOut = Annotated[Path, typer.Option("--out", help="Model folder to write; replaces an earlier model.")]
Start = Annotated[str, typer.Option("--encoder", metavar="MODEL", help=_START)]
Steps = Annotated[int | None, typer.Option("--steps", metavar="N", min=1, help=_STEPS)]
Tensorboard = Annotated[Path | None, typer.Option("--tensorboard", metavar="FOLDER", help=_TENSORBOARD)]
_NUMBERS: Mapping[str, tuple[str, int | None]] = {
    "epochs": ("Passes over the training data.", 1),
    "batch_size": ("Examples per step.", 1),
    "learning_rate": ("Peak learning rate.", None),
    "seed": ("Random seed.", 0),
}
"""Help and minimum of each option."""


def reads_file(settings: str, example: str, reader: str = "transformer") -> Any:
    """Return the option for a file with changes to the settings of what a model reads."""
    told = (
        f"JSON file with changes to fields of arbo.{settings}, which say what the {reader} reads and how its output is "
        f"used, e.g. {example}."
    )
    return typer.Option("--encoder-config", metavar="FILE", help=told)


EncoderConfig = Annotated[Path | None, reads_file("EncoderConfig", '{"pooling": "mention", "context": 25}')]


def number(name: str, settings: type) -> Any:
    """Return the option for a numeric training setting."""
    what, least = _NUMBERS[name]
    option = f"--{name.replace('_', '-')}"
    return typer.Option(option, metavar="N", min=least, help=f"{what} {default_of(settings, name)}")


def default_of(settings: type, name: str) -> str:
    """Format the default of a field for the help."""
    return f"[default: {next(field.default for field in fields(settings) if field.name == name)}]"


def settings_file(settings: type) -> Any:
    """Return the option for a file of training settings."""
    told = f"Settings: a JSON file with fields of arbo.{settings.__name__}; the options below override it."
    return typer.Option("--config", metavar="FILE", help=told)


def changed_by(settings: Settings, file: Path | None, **changes: Any) -> Settings:
    """Return the settings, overridden by those in a file, if there is one, then by options that are not None."""
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(settings.overridden(file), **given)


def held_out(
    dev: Path | None, ids: Path | None, format_: DocumentFormat | None, types: list[str] | None, on_error: OnError
) -> arbo.Corpus | None:
    """Read the documents of --dev, if it is given; raise UsageError for --dev-ids without it."""
    if dev is not None:
        return read_documents(dev, format_, types, on_error, ids=ids)
    if ids is not None:
        raise arbo.UsageError("--dev-ids needs --dev; add it, or leave --dev-ids out")
    return None


def run_options(tensorboard: Path | None, scores: Callable[[Mapping[str, Any]], str | None]) -> arbo.RunOptions:
    """Return options that show progress, and print what ``scores`` returns for each line of the log, if not None."""
    from arbo.cli import console
    from arbo.progress import bars

    def tell(figures: dict[str, Any]) -> None:
        told = scores(figures)
        if told is not None:
            place = f"epoch {figures['epoch'] + 1}, step {figures['step']:,}: loss {figures['loss']:.3f}"
            console.say(f"{place}; on the development documents {told}")

    return arbo.RunOptions(tensorboard=tensorboard, announce=bars, on_log=tell)


def report(out: Path, settings: Mapping[str, Any], training: Mapping[str, Any], told: str, *, as_json: bool) -> None:
    """Print where the model is and how to use it, or its settings and those of its training as JSON."""
    from arbo.cli import console

    if as_json:
        console.print_json({"model": str(out), "settings": settings, "training": training})
    else:
        console.out.print(f"written to {out}; log of all steps: {out}.log.jsonl\n{told}")
