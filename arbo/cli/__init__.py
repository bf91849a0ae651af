"""The command line: a module for related verbs; the other modules hold the code that verbs share."""

import gc
import os
import signal
import sys
from collections import UserDict
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer import Option
from typer.core import TyperGroup

from arbo import errors
from arbo.cli import console
from arbo.errors import ArboError, DataError, UsageError

_MARKUP: Literal["markdown"] = "markdown"
_VERBS = (
    ("link", "demo link discover find"),
    ("train", "tune"),
    ("score", "evaluate score"),
    ("show", "show explain diff export review explore"),
    ("link", "add"),
    ("show", "serve"),
    ("train", "train"),
    ("kb", "kb"),
)
"""The modules of the verbs, in the order of the help."""
_GROUPS = {
    "train": ("Train an encoder, names, edges, a finder or a reranker.", "encoder names edges finder reranker"),
    "kb": ("Inspect, convert or change a knowledge base.", "check edit convert index"),
}
"""The verbs that have verbs."""


class _Commands(UserDict[str, Any]):
    """The commands of verbs by their names; a module is imported when one of its verbs is needed."""

    def __init__(self, *verbs: tuple[str, str]) -> None:
        super().__init__({name: module for module, names in verbs for name in names.split()})

    def __getitem__(self, name: str) -> Any:
        module = self.data[name]
        if name in _GROUPS:
            text, names = _GROUPS[name]
            commands: Any = _Commands((module, names))
            return TyperGroup(name=name, help=text, commands=commands, no_args_is_help=True, rich_markup_mode=_MARKUP)
        from arbo.cli.options import spread

        alone = typer.Typer(add_completion=False, rich_markup_mode=_MARKUP, pretty_exceptions_enable=False)
        alone.command(name)(spread(getattr(import_module(f"{__name__}.{module}"), name)))
        return typer.main.get_command(alone)


class _Verbs(TyperGroup):
    """The verbs; click sees a pipe that is closed."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": _Commands(*_VERBS)})

    def invoke(self, ctx: Any) -> Any:
        value = super().invoke(ctx)
        sys.stdout.flush()
        return value


app = typer.Typer(
    name="arbo",
    cls=_Verbs,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Link the mentions of documents to a knowledge base, and discover entities missing from it.\n\n"
    "Begin with `arbo demo`. Then: `arbo link DOCS --kb KB --out run/`.\n\n"
    "Results go to stdout, progress and notes to stderr; with `--json`, stdout contains only JSON. "
    "Exit codes: 0 success, 2 wrong usage, 3 invalid input data, 130 interrupted, 1 any other error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        from importlib import metadata

        typer.echo(f"arbo {metadata.version('arbo')}")
        raise typer.Exit


def main() -> None:
    """Run the command line, and exit with one of the codes that `arbo --help` lists."""
    gc.set_threshold(100_000)  # the objects of imports and readers are many, and stay
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # pydantic would look for them in all packages
    signal.signal(signal.SIGINT, _interrupted)
    errors.shown = True
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed before the start
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    try:
        if wrong := [one for one in sys.argv if one.encode(errors="ignore").decode() != one]:
            raise UsageError(f"the argument {wrong[0]!r:.100} is not UTF-8; write it in UTF-8, or rename the file")
        app()
    except OSError as error:
        with suppress(OSError), open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())  # or Python tries to write the rest at its end
        console.complain(f"cannot read or write {error.filename or 'standard output'}: {error.strerror}")
        sys.exit(1)
    except ArboError as error:
        console.complain(str(error))
        sys.exit(3 if isinstance(error, DataError) else 2 if isinstance(error, UsageError) else 1)
    except (SystemError, RuntimeError) as error:
        if not isinstance(error.__cause__, SystemExit):
            raise
        raise error.__cause__ from None  # of `_interrupted`, within numba or an import
    finally:
        errors.shown = False
        gc.freeze()  # so that the exit does not search them for cycles


def _interrupted(*_: object) -> NoReturn:
    sys.stderr.write("interrupted\n")
    sys.exit(130)
