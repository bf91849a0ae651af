"""The verb `report`."""

from pathlib import Path
from typing import Annotated

from typer import Option

from arbo.cli import console, options
from arbo.cli.reporting import check_jsonl_output
from arbo.files import real

_NO_TEXTS = (
    "Leave out the texts of documents and the long forms of abbreviations. Texts, types and gold ids of "
    "mentions stay, and names and aliases of entities."
)


def report(
    run: options.Run,
    out: Annotated[Path, Option(metavar="FILE", help="HTML file to write or replace.")] = Path("run.html"),
    no_texts: Annotated[bool, Option("--no-texts", help=_NO_TEXTS)] = False,
    open_: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write a run as one HTML page, to look at in a browser and to send.

    `arbo report run --out run.html` shows scores, clusters as trees with their weakest steps, mentions with their paths
    and rivals, documents with highlights, new entities, and what other thresholds would change. The file holds all that
    it shows, the texts included, and asks for nothing from anywhere.
    """
    from arbo import Result
    from arbo.explore.report import report as write

    check_jsonl_output(out, run, endings=(".html", ".htm"))
    result = Result.load(run)
    size = write(result, out, name=real(run).name, texts=not no_texts)
    n = result.link_table.num_rows
    told = {"out": str(out), "mentions": n, "bytes": size, "texts": not no_texts}
    console.answer(told, f"page of {n:,} mentions ({size / 1e6:.1f} MB) written to {out}", as_json=as_json)
    if open_:
        import webbrowser

        webbrowser.open(real(out).as_uri())
