"""The verb `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli import console, options


def diff(
    run: options.Run,
    other: Annotated[Path, typer.Argument(metavar="RUN2", help="The later run folder.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="Rows to show of each table.")] = 20,
    as_json: options.Json = False,
) -> None:
    """Compare two runs: the clusters and the mentions that changed from RUN to RUN2.

    Any two runs can be compared, also with other settings, another model or more documents. Mentions are matched by
    id. `--json` prints all rows.
    """
    from arbo import Result
    from arbo.results.diff import diff as compare

    changes = compare(Result.load(run), Result.load(other))
    if as_json:
        console.print_json(changes.as_dict())
        return
    console.out.print(console.plain(str(changes)))
    console.print_changes(changes, limit)
