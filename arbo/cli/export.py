"""The verb `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

import arbo
from arbo.cli import console, options
from arbo.cli.reporting import check_no_input
from arbo.formats import WRITERS, ExportFormat, Ids

_TO = f"Format to write: {', '.join(WRITERS)}."
_IDS = (
    "Ids to write in documents and clusters: links (for NIL, the discovered entity), or gold (the annotated ids). "
    "Tables have both."
)


def export(
    run: options.Run,
    to: Annotated[ExportFormat, Option(metavar="FORMAT", case_sensitive=False, help=_TO)],
    out: Annotated[Path, Option(metavar="PATH", help="File to write or replace; for brat, a new folder.")],
    ids: Annotated[Ids, Option(case_sensitive=False, help=_IDS)] = "links",
    as_json: options.Json = False,
) -> None:
    """Write a run for a spreadsheet, for other programs, or for scoring.

    `arbo export run --to csv --out links.csv`, or `arbo export run --to brat --out folder`.

    **csv**, **tsv**: one row for each mention, with its sentence, its link, the runner-up, and the path from the
    entity. In csv, a cell that a spreadsheet would run as a formula, such as `=cmd()`, gets the prefix `'`.

    **jsonl**, **pubtator**, **pubannotation**, **bioc**, **brat**: the documents, with links in place of gold ids
    unless `--ids gold`.

    **conll**: the words and chains of each document. **clusters**: clusters across documents, as JSON lines. `arbo
    score` reads both formats; `--ids gold` writes its KEY.

    Notes on stderr count the items that a format cannot hold, for example discontinuous mentions in PubTator.
    """
    from arbo.files import check_writable

    check_no_input("--out", out, [run])
    check_writable(out)
    ending = Path(out.name.lower().removesuffix(".gz")).suffix
    if ending in {".csv", ".tsv", ".xlsx", ".ods"} - {f".{to}"}:
        console.warn(f"{out} ends in {ending}, but its format is {to}; programs may misread it")
    result = arbo.Result.load(run)
    notes = result.export(out, to, ids=ids)
    console.say_notes(notes)
    n = result.link_table.num_rows
    told = {"out": str(out), "to": to, "mentions": n, "notes": notes}
    console.answer(told, f"run of {n:,} mentions written to {out}", as_json=as_json)
