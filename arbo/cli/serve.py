"""The verbs `serve` and `explore`, which answer a browser or other programs."""

from __future__ import annotations

import secrets
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import ENCODER, KB, LINKER, READING, Chosen, Shown
from arbo.cli.inputs import ReadingConfig, check_output
from arbo.cli.models import FINDING, LinkingModels, load_finder, load_linker
from arbo.errors import MissingDependency, UsageError
from arbo.files import real

_HOST = "Address to listen at; `0.0.0.0` lets other computers in, without a password."
Port = Annotated[int, Option(metavar="N", min=0, max=65_535, help="Port to listen at; 0 for any free one.")]


def serve(
    kb: options.Kb,
    models: LinkingModels,
    how: Annotated[Chosen, Shown((LINKER, ENCODER, READING, FINDING), KB)],
    finder: options.Finder = "dictionary",
    host: Annotated[str, Option(help=_HOST)] = "127.0.0.1",
    port: Port = 8000,
) -> None:
    """Answer requests over HTTP: links, explanations, entities, searches, PubAnnotation, and OpenRefine.

    `arbo serve --kb medic.index`, then `curl 127.0.0.1:8000/link -d '{"text": "..."}'`; GET /openapi.json describes all
    operations. In OpenRefine, add the reconciliation service http://127.0.0.1:8000/reconcile. Ctrl-C stops.

    With a transformer, make an index with the same `--encoder`: a service keeps no embeddings on disk.
    """
    try:
        from arbo.serve.app import app_of
        from arbo.serve.web import LOCAL, serve as serve_at
    except ImportError as error:
        raise MissingDependency("arbo serve", extra="serve") from error
    from arbo.serve.service import Service

    linker = load_linker(models, how)
    model = load_finder(finder, how, "--finder", expand_abbreviations=linker.config.expand_abbreviations)
    base = how.of(READING, ReadingConfig()).knowledge_base(kb)
    if getattr(linker.encoder, "cache", None) is not None:
        linker = linker.configured(encoder=replace(linker.encoder, cache=None))  # type: ignore[type-var]
    with _listening_at(host, port) as listening:
        service = Service(linker.configured(kb=base), model)
        service.warm()
        address = f"[{host}]" if ":" in host else host
        address = f"http://{address}:{listening.getsockname()[1]}"
        console.say(f"serving {len(base):,} entities at {address}; Ctrl-C stops")
        if console.as_json:
            console.print_json({"address": address, "entities": len(base)})
            sys.stdout.flush()
        hosts = LOCAL if host in LOCAL else ("*",)
        serve_at(app_of(service, name=f"{kb.name} (arbo)", hosts=hosts), listening)
    console.say("stopped")


def _listening_at(host: str, port: int) -> socket.socket:
    """Listen at an address; raise UsageError if another program does."""
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or answers wait 40 ms for the client's ACK
        return listening
    except OSError as error:
        raise UsageError(f"cannot listen at {host}, port {port}: {error.strerror}; choose another --port") from None


_BEFORE = "Show what changed since this run. [default: the run of which RUN was made; with --out, none]"
_OUT = "Write one HTML file with all that the page shows, instead of serving it."
_NO_TEXTS = (
    "Leave the texts of documents and the long forms of abbreviations out of --out. Texts, types and gold ids of "
    "mentions stay, and names and aliases of entities."
)


def explore(
    run: options.Run,
    before: Annotated[Path | None, Option(metavar="RUN0", help=_BEFORE)] = None,
    corrections: options.Answers = None,
    author: options.Author = None,
    kb: options.OptionalKb = None,
    out: Annotated[Path | None, Option(metavar="FILE", help=_OUT)] = None,
    no_texts: Annotated[bool, Option("--no-texts", help=_NO_TEXTS)] = False,
    port: Port = 0,
) -> None:
    """Open a run in the browser: look at it, search it, and review it.

    Open the address that is printed; it has a secret, and only this computer can reach it. The review asks and writes
    as `arbo review` does; `apply` makes RUN-reviewed as `arbo add RUN --corrections FILE --out RUN-reviewed` makes it,
    with `--kb` if it is given here, and shows what changed. With `--kb`, entities have their descriptions, and the
    review searches all of them. Ctrl-C stops.

    `arbo explore run --out run.html` writes the page as one file, which asks for nothing from anywhere.
    """
    if out is not None:
        _write(run, out, before, texts=not no_texts)
        return
    try:
        from arbo.explore.page import Page, app_of
        from arbo.serve.web import serve as serve_at
    except ImportError as error:
        raise MissingDependency("arbo explore", extra="serve") from error

    saved, folder = arbo.open_run(run), real(run)
    target, file = folder.with_name(f"{folder.name}-reviewed"), corrections or saved.corrections
    page = Page(saved, target, file, before=before, author=author, kb=kb, tell=console.say)
    token = secrets.token_urlsafe(24)
    with _listening_at("127.0.0.1", port) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/#token={token}"
        if console.as_json:
            console.print_json({"address": address, "run": str(run), "corrections": str(file)})
        else:
            console.show(address)
            console.say("open this address in a browser; Ctrl-C stops")
        sys.stdout.flush()
        serve_at(app_of(page, token), listening)
    console.say("stopped")


def _write(run: Path, out: Path, before: Path | None, *, texts: bool) -> None:
    """Write the page of a run as one file."""
    from arbo.explore.report import report

    check_output(out, "page", (".html", ".htm"), run)
    result = arbo.Result.load(run)
    earlier = None if before is None else arbo.Result.load(before)
    size = report(result, out, name=real(run).name, texts=texts, before=earlier)
    n = result.link_table.num_rows
    value = {"out": str(out), "mentions": n, "bytes": size, "texts": texts}
    console.answer(value, f"page of {n:,} mentions ({size / 1e6:.1f} MB) written to {out}")
