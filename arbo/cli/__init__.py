"""The command line: most verbs have a module of their own; the other modules hold the code that verbs share."""

import gc
import os
import re
import shlex
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer import Option
from typer.core import TyperGroup

from arbo.cli import console, kb
from arbo.cli.fields import spread
from arbo.data import records
from arbo.errors import ArboError, DataError, UsageError


class _Verbs(TyperGroup):
    """The verbs; an unknown choice is reported without the words that typer puts before the message."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse likely mistakes; an empty argument would name the current folder."""
        if any(not word or re.fullmatch("--[a-z-]+=", word) for word in args):
            raise UsageError(f"an argument of `{shlex.join(args)}` is empty; is a shell variable unset?")
        if args.count("-") > 1:
            raise UsageError("two arguments are `-`, the standard input; give a file for one of them")
        for option in ("--ids", "--dev-ids"):
            if sum(word.partition("=")[0] == option for word in args) > 1:
                raise UsageError(f"{option} is given more than once; give it once")
        if args[:1] == ["compare"]:
            raise UsageError("there is no verb `compare`; compare scores with `arbo evaluate`, links with `arbo diff`")
        if args[:1] == ["discover"] and "--kb" in args:
            raise UsageError("discover uses no knowledge base; to link to one, run `arbo link`")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except OSError as error:
            _write_nothing_more()
            if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has seen enough
                raise typer.Exit(141) from error
            place = error.filename or "standard output or the current folder"
            raise ArboError(f"cannot read or write {place}: {error.strerror}") from error
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    name="arbo",
    cls=_Verbs,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Link the mentions of documents to a knowledge base, and discover entities missing from it.\n\n"
    "Begin with `arbo demo`. Then: `arbo link DOCS --kb KB --out run/`.\n\n"
    "Results go to stdout, progress and notes to stderr; with `--json`, stdout contains only JSON. "
    "Exit codes: 0 success, 2 wrong usage, 3 invalid input data, 130 interrupted, 141 broken pipe, 1 any other error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"arbo {version('arbo')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


_VERBS = "demo link discover find tune evaluate score show explain explore review add diff export serve resolve"
"""The verbs in the order of the help; each has a module of its name."""
for _verb in _VERBS.split():
    app.command()(spread(getattr(import_module(f"{__name__}.{_verb}"), _verb)))

_train = typer.Typer(help="Train an encoder, names, edges, a finder or a reranker.", no_args_is_help=True)
for _verb in ("encoder", "names", "edges", "finder", "reranker"):
    _module = import_module(f"{__name__}.train_{_verb}")
    _train.command(_verb)(spread(getattr(_module, f"train_{_verb}")))
app.add_typer(_train, name="train")
app.add_typer(kb.app, name="kb")


def main() -> None:
    """Run the command line, and exit with one of the codes that `arbo --help` lists."""
    gc.set_threshold(100_000)  # the objects of imports and readers are many, and stay
    signal.signal(signal.SIGINT, _interrupted)
    records.quiet = False
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the shell
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (it stays open)
    try:
        app()
    except OSError as error:  # while the help or the version is printed
        _write_nothing_more()
        console.complain(f"cannot write standard output: {error.strerror}")
        sys.exit(1)
    except ArboError as error:
        console.complain(str(error))
        sys.exit(3 if isinstance(error, DataError) else 2 if isinstance(error, UsageError) else 1)
    finally:
        records.quiet = True
        gc.freeze()  # so that the exit does not search them for cycles


def _write_nothing_more() -> None:
    """Let standard output lead nowhere, so that the end of Python does not write the rest."""
    with suppress(OSError), open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), sys.stdout.fileno())


def _interrupted(*_: object) -> NoReturn:
    sys.stderr.write("interrupted\n")
    sys.exit(130)
