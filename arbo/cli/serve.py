"""The verb `serve`."""

import socket
import sys
from dataclasses import replace
from typing import Annotated

from typer import Option

from arbo.cli import console, options
from arbo.cli.fields import ENCODER, LINKER, READING, Chosen, Shown
from arbo.cli.finding import FINDING, FindingConfig
from arbo.cli.inputs import Kb, ReadingConfig
from arbo.cli.models import LinkingModels, load_linker
from arbo.errors import MissingDependency, UsageError


def serve(
    kb: Kb,
    models: LinkingModels,
    how: Annotated[Chosen, Shown((LINKER, ENCODER, READING, FINDING))],
    finder: options.Finder = "dictionary",
    host: Annotated[
        str, Option(help="Address to listen at; `0.0.0.0` lets other computers in, without a password.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen at; 0 for any free one.")] = 8000,
    as_json: options.Json = False,
) -> None:
    """Answer requests over HTTP: links, explanations, entities, searches, PubAnnotation, and OpenRefine.

    `arbo serve --kb medic.index`, then `curl 127.0.0.1:8000/link -d '{"text": "..."}'`; GET /openapi.json describes all
    operations. In OpenRefine, add the reconciliation service http://127.0.0.1:8000/reconcile. Ctrl-C stops.

    With a transformer, make an index with the same `--encoder`: a service keeps no embeddings on disk.
    """
    try:
        from arbo.serve.app import run
        from arbo.serve.web import LOCAL
    except ImportError as error:
        raise MissingDependency("arbo serve", extra="serve") from error
    from arbo.serve.service import Service
    from arbo.spans.by_name import finder_of

    linker = load_linker(models, how)
    threshold, expand = how.of(FINDING, FindingConfig()).find_threshold, linker.config.expand_abbreviations
    found = finder_of(finder, threshold, abbreviations=expand, option="--finder")
    base = kb.read(how.of(READING, ReadingConfig()))
    if getattr(linker.encoder, "cache", None) is not None:
        linker = linker.configured(encoder=replace(linker.encoder, cache=None))  # type: ignore[type-var]
    with listening_at(host, port) as listening:
        service = Service(linker.configured(kb=base), found)
        service.warm()
        address = f"[{host}]" if ":" in host else host
        address = f"http://{address}:{listening.getsockname()[1]}"
        console.say(f"serving {len(base):,} entities at {address}; Ctrl-C stops")
        if as_json:
            console.print_json({"address": address, "entities": len(base)})
            sys.stdout.flush()
        run(service, listening, name=f"{kb.path.name} (arbo)", hosts=LOCAL if host in LOCAL else ("*",))
    console.say("stopped")


def listening_at(host: str, port: int) -> socket.socket:
    """Listen at an address; raise UsageError if another program does."""
    try:
        made = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or each answer waits 40 ms for the client's ACK
        return made
    except OSError as error:
        raise UsageError(f"cannot listen at {host}, port {port}: {error.strerror}; choose another --port") from None
