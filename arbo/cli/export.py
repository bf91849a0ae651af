"""The verb `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli import console, options
from arbo.cli.reporting import check_no_input
from arbo.writers import ExportFormat, Ids


def export(
    run: options.Run,
    to: Annotated[ExportFormat, typer.Option("--to", case_sensitive=False, help="Format to write.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="PATH", help="File to write or replace; for brat, a folder that is not there yet."
        ),
    ],
    ids: Annotated[
        Ids,
        typer.Option(
            "--ids",
            case_sensitive=False,
            help="Ids in documents and clusters: `links`, the entity of each mention or else the discovered entity; or "
            "`gold`, as annotated. Tables have both.",
        ),
    ] = "links",
    as_json: options.Json = False,
) -> None:
    """Write a run for a spreadsheet, for other programs, or for scoring.

    **csv**, **tsv**: one row for each mention, with its sentence, its link, and the path from the entity. A text that a
    spreadsheet would run, such as `=cmd()`, gets a `'` in front.

    **jsonl**, **pubtator**, **brat**: the documents, with the links in place of the gold ids.

    **conll**: the words and chains of each document; **clusters**: the clusters across documents. `arbo score` reads
    both; `--ids gold` writes its KEY.

    What a format cannot hold is counted on stderr, for example discontinuous mentions in PubTator.
    """
    from arbo import Result
    from arbo.files import check_writable

    check_no_input("--out", out, [run])
    check_writable(out)
    result = Result.load(run)
    notes = result.export(out, to, ids=ids)
    for note, count in notes.items():
        console.say(f"{count:,} {note}")
    n = result.link_table.num_rows
    if as_json:
        console.print_json({"out": str(out), "to": to, "mentions": n, "notes": notes})
    else:
        console.out.print(console.plain(f"{n:,} mentions written to {out}"))
