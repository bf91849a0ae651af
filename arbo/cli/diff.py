"""The verb `diff`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import arbo
from arbo.cli import console, options


def diff(
    run: options.Run,
    other: Annotated[Path, typer.Argument(metavar="RUN2", help="The run folder to compare with RUN.")],
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> None:
    """Compare two runs, and show the clusters and mentions that changed from RUN to RUN2.

    The runs may differ in settings, model or documents. Mentions are matched by id. Both predictions of a mention are
    shown side by side, with its gold ids and its sentence. In a pipe, the output is only the table of changed mentions,
    tab-separated. `--json` prints all rows of both tables.
    """
    changes = arbo.diff(arbo.Result.load(run), arbo.Result.load(other))
    if as_json:
        console.print_json(changes.as_dict())
        return
    if sys.stdout.isatty():
        console.show(changes)
        console.print_changes(changes, 20 if limit is None else limit)
    else:
        console.say(str(changes))
        console.print_view(changes.mention_view(limit), as_table=False)
