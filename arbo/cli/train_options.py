"""Options, changes of settings and the final report that the training verbs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import Docs

if TYPE_CHECKING:
    from arbo.training.config import LoopConfig

Settings = TypeVar("Settings", bound="LoopConfig")

_DEV = "Annotated documents that select the best model. [default: keep the last model]"
_START = (
    "Model to start from: a local folder, `all-MiniLM-L6-v2` from its pip package, or a name on the Hugging Face Hub."
)
_STEPS = "Maximum number of steps. [default: none]"
_TENSORBOARD = "Folder for a log for TensorBoard."


def _number(name: str, told: str, least: int | None) -> Callable[[type], Any]:
    """Return a function that makes the option of a number from the settings of the training."""
    option = f"--{name.replace('_', '-')}"
    return lambda settings: options.training(
        option, metavar="N", min=least, help=f"{told} {default_of(settings, name)}"
    )


def _settings_file(settings: type) -> Any:
    told = f"JSON file with fields of arbo.{settings.__name__}; other options override it."
    return options.training("--config", metavar="FILE", help=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The options of all trainings of transformers; their help depends on the class of the settings."""

    out: Annotated[Path, Option(help="Model folder to write or replace.")]
    encoder: Annotated[str, options.encode(metavar="MODEL", help=_START)]
    config: Annotated[Path | None, _settings_file] = None
    epochs: Annotated[int | None, _number("epochs", "Passes over the data.", 1)] = None
    steps: Annotated[int | None, options.training(metavar="N", min=1, help=_STEPS)] = None
    batch_size: Annotated[int | None, _number("batch_size", "Examples per step.", 1)] = None
    learning_rate: Annotated[float | None, _number("learning_rate", "Peak learning rate.", None)] = None
    seed: Annotated[int | None, _number("seed", "Random seed.", 0)] = None
    tensorboard: Annotated[Path | None, options.training(metavar="FOLDER", help=_TENSORBOARD)] = None

    as_json: options.Json = False

    def settings(self, base: Settings, **others: Any) -> Settings:
        """Return settings with fields replaced by those of the file, if there is one, and then by options."""
        return self.numbers(base.overridden(self.config), **others)

    def numbers(self, base: Settings, **others: Any) -> Settings:
        """Return settings with fields replaced by options."""
        names = ("epochs", "steps", "batch_size", "learning_rate", "seed")
        given = {name: getattr(self, name) for name in names} | others
        return replace(base, **{name: value for name, value in given.items() if value is not None})

    def run(self, scores: Callable[[Mapping[str, Any]], str | None] = lambda figures: None) -> arbo.RunOptions:
        """Return the options of a run that shows its progress, and the scores of the model after each epoch."""
        from arbo.progress import bars

        def tell(figures: dict[str, Any]) -> None:
            told = scores(figures)
            if told is not None:
                place = f"epoch {figures['epoch'] + 1}, step {figures['step']:,}: loss {figures['loss']:.3f}"
                console.say(f"{place}; on the development documents {told}")

        return arbo.RunOptions(tensorboard=self.tensorboard, announce=bars, on_log=tell)

    def report(self, settings: Mapping[str, Any], training: Mapping[str, Any], told: str) -> None:
        """Print where the model was written, and what to do next."""
        made = {"model": str(self.out), "settings": settings, "training": training}
        said = f"written to {self.out}; log of all steps: {self.out}.log.jsonl\n{told}"
        console.answer(made, said, as_json=self.as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev:
    """The documents that select the best model."""

    dev: Annotated[Path | None, Option(metavar="DOCS", help=_DEV)] = None
    dev_ids: options.DevIds = None

    def read(self, docs: Docs) -> arbo.Corpus | None:
        """Read them like the training documents; raise UsageError for ids without documents."""
        return docs.others("--dev", self.dev, self.dev_ids)


def reads_file(settings: str, example: str, reader: str = "transformer") -> Any:
    """Return the option for a file with changes to the settings of what a model reads."""
    told = f"JSON file with changes to fields of arbo.{settings}, on what the {reader} reads and gives, e.g. {example}."
    return options.encode("--encoder-config", metavar="FILE", help=told)


EncoderConfig = Annotated[Path | None, reads_file("EncoderConfig", '{"pooling": "mention", "context": 25}')]


def default_of(settings: type, name: str) -> str:
    """Format the default of a field for the help."""
    return f"[default: {next(field.default for field in fields(settings) if field.name == name)}]"


def oslat_preset(what: str) -> Any:
    """Return the option of the only preset of a training."""
    told = f"Start from the settings of a paper: oslat, {what}"
    return options.training("--preset", metavar="PRESET", help=told)
