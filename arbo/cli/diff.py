"""The verb `diff`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from typer import Argument

import arbo
from arbo.cli import console, options
from arbo.errors import UsageError

if TYPE_CHECKING:
    from arbo.results.diff import Diff


def diff(
    run: options.Run,
    other: Annotated[
        Path | None,
        Argument(metavar="[RUN2]", help="The run folder to compare with RUN; without it, RUN is the later one."),
    ] = None,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> None:
    """Compare two runs, and show the clusters and mentions that changed from RUN to RUN2.

    Without RUN2, what changed in RUN since the run of which `arbo add` made it. The runs may differ in
    settings, model or documents. Mentions are matched by id. Both predictions of a mention are
    shown side by side, with its gold ids and its sentence. In a pipe, the output is only the table of changed mentions,
    tab-separated. `--json` prints all rows of both tables.
    """
    changes = _since_parent(run) if other is None else arbo.diff(run, other)
    if as_json:
        console.print_json(changes.as_dict())
        return
    if sys.stdout.isatty():
        console.show(changes)
        console.print_changes(changes, 20 if limit is None else limit)
    else:
        console.say(str(changes))
        console.print_view(changes.mention_view(limit), as_table=False)


def _since_parent(run: Path) -> Diff:
    """Compare the run of which a run was made with it."""
    from arbo.pipeline.saved_run import parent_of
    from arbo.results.run import Run

    def refuse(told: str) -> NoReturn:
        raise UsageError(f"{told}; give its place: `arbo diff PLACE {run}`")

    after = Run.read(run)
    before = parent_of(run, after.manifest, refuse)
    if before is None:
        raise UsageError(f"give two runs: {run} was not made of another run")
    return arbo.diff(before, after)
