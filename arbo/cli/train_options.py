"""What the verbs of training share: options, how these change a configuration, and what is told at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

if TYPE_CHECKING:
    from arbo.training.config import LoopConfig
    from arbo.training.options import RunOptions

Settings = TypeVar("Settings", bound="LoopConfig")

Dev = Annotated[
    Path | None,
    typer.Option("--dev", metavar="DOCS", help="Documents to choose the best model on; same format."),
]
ModelOut = Annotated[Path, typer.Option("--out", help="Model folder to write; an earlier model there is replaced.")]
Start = Annotated[
    str,
    typer.Option(
        "--encoder",
        metavar="MODEL",
        help="Where to start: a local folder, `all-MiniLM-L6-v2` from its pip package, or a name on the hub.",
    ),
]
Steps = Annotated[int | None, typer.Option("--steps", metavar="N", min=1, help="Stop after this many steps.")]
Tensorboard = Annotated[
    Path | None,
    typer.Option("--tensorboard", metavar="FOLDER", help="Write the figures there too, for TensorBoard."),
]


EncoderConfig = Annotated[
    Path | None,
    typer.Option(
        "--encoder-config",
        metavar="FILE",
        help="What the transformer reads and how: a JSON file with fields of arbo.EncoderConfig, e.g. "
        '{"pooling": "mention", "context": 25}.',
    ),
]
_NUMBERS: Mapping[str, tuple[str, int | None]] = {
    "epochs": ("Passes over the training data.", 1),
    "batch_size": ("Examples in a step.", 1),
    "learning_rate": ("Highest learning rate.", None),
    "seed": ("Seed of all that is random.", 0),
}
"""What they are, and the least that they may be."""


def number(name: str, settings: type) -> Any:
    """Make the option that changes a number of a training's settings."""
    what, least = _NUMBERS[name]
    option = f"--{name.replace('_', '-')}"
    return typer.Option(option, metavar="N", min=least, help=f"{what} {default_of(settings, name)}")


def default_of(settings: type, name: str) -> str:
    """Tell what holds where neither an option nor a preset is given."""
    return f"[default: {next(field.default for field in fields(settings) if field.name == name)}]"


def settings_file(settings: type) -> Any:
    """Make the option for a file of a training's settings."""
    told = f"All settings: a JSON file with fields of arbo.{settings.__name__}; the options below override it."
    return typer.Option("--config", metavar="FILE", help=told)


def changed_by(settings: Settings, file: Path | None, **changes: Any) -> Settings:
    """Change the settings that a file gives, then those that options give, which are None for those not given."""
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(settings.overridden(file), **given)


def run_options(tensorboard: Path | None, scores: Callable[[Mapping[str, Any]], str | None]) -> RunOptions:
    """Show progress, and tell what ``scores`` makes of the figures of the development documents, if there are any."""
    from arbo import RunOptions
    from arbo.cli import console
    from arbo.progress import bars

    def tell(figures: dict[str, Any]) -> None:
        told = scores(figures)
        if told is not None:
            place = f"epoch {figures['epoch'] + 1}, step {figures['step']:,}: loss {figures['loss']:.3f}"
            console.say(f"{place}; on the development documents {told}")

    return RunOptions(tensorboard=tensorboard, announce=bars, on_log=tell)


class Trained(Protocol):
    """A model that knows its settings."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What identifies it."""


def report(out: Path, trained: Trained, training: Mapping[str, Any], told: str, *, as_json: bool) -> None:
    """Say where the model is, and what can be done with it; or print it as JSON."""
    from arbo.cli import console

    if as_json:
        console.print_json({"model": str(out), "settings": trained.settings, "training": training})
    else:
        console.out.print(f"written to {out}; figures of every step: {out}.log.jsonl\n{told}")
