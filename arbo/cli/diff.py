"""The verb `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli import console, options


def diff(
    run: options.Run,
    other: Annotated[Path, typer.Argument(metavar="RUN2", help="The later run folder.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Rows to show in each table.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Compare two runs, and show the clusters and mentions that changed from RUN to RUN2.

    The runs may differ in settings, model or documents. Mentions are matched by id. `--json` prints all rows.
    """
    from arbo import Result
    from arbo.results.diff import diff as compare

    changes = compare(Result.load(run), Result.load(other))
    if as_json:
        console.print_json(changes.as_dict())
        return
    console.out.print(console.plain(str(changes)))
    console.print_changes(changes, limit)
