"""The verb `explore`."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.reporting import check_jsonl_output
from arbo.cli.serve import listening_at
from arbo.errors import MissingDependency
from arbo.files import real

_BEFORE = "Show what changed since this run. [default: the run of which RUN was made]"
_OUT = "Write one HTML file with all that the page shows, instead of serving it."
_NO_TEXTS = (
    "Leave the texts of documents and the long forms of abbreviations out of --out. Texts, types and gold ids of "
    "mentions stay, and names and aliases of entities."
)


def explore(
    run: options.Run,
    before: Annotated[Path | None, Option(metavar="RUN0", show_default=False, help=_BEFORE)] = None,
    corrections: options.Answers = None,
    author: options.Author = None,
    kb: options.OptionalKb = None,
    out: Annotated[Path | None, Option(metavar="FILE", show_default=False, help=_OUT)] = None,
    no_texts: Annotated[bool, Option("--no-texts", help=_NO_TEXTS)] = False,
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen at; 0 for any free one.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Open a run in the browser: look at it, search it, and review it.

    Open the address that is printed; it has a secret, and only this computer can reach it. The review asks and writes
    as `arbo review` does; `apply` makes RUN-reviewed as `arbo add RUN --corrections FILE --out RUN-reviewed` makes it,
    with `--kb` if it is given here, and shows what changed. With `--kb`, entities have their descriptions, and the
    review searches all of them. Ctrl-C stops.

    `arbo explore run --out run.html` writes the page as one file, which asks for nothing from anywhere.
    """
    if out is not None:
        _write(run, out, texts=not no_texts, as_json=as_json)
        return
    try:
        from arbo.explore.page import Page
        from arbo.explore.server import run as serve
    except ImportError as error:
        raise MissingDependency("arbo explore", extra="serve") from error

    saved, folder = arbo.open_run(run), real(run)
    target, file = folder.with_name(f"{folder.name}-reviewed"), corrections or saved.corrections
    page = Page(saved, target, before=before, file=file, author=author, kb=kb, tell=console.say)
    token = secrets.token_urlsafe(24)
    with listening_at("127.0.0.1", port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/#token={token}"
        if as_json:
            console.print_json({"address": address, "run": str(run), "corrections": str(file)})
        else:
            console.show(address)
            console.say("open this address in a browser; Ctrl-C stops")
        sys.stdout.flush()
        serve(page, listening, token)
    console.say("stopped")


def _write(run: Path, out: Path, *, texts: bool, as_json: bool) -> None:
    """Write the page of a run as one file."""
    from arbo.explore.report import report

    check_jsonl_output(out, run, endings=(".html", ".htm"))
    result = arbo.Result.load(run)
    size = report(result, out, name=real(run).name, texts=texts)
    n = result.link_table.num_rows
    told = {"out": str(out), "mentions": n, "bytes": size, "texts": texts}
    console.answer(told, f"page of {n:,} mentions ({size / 1e6:.1f} MB) written to {out}", as_json=as_json)
