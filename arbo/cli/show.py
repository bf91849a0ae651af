"""The verb `show`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import arbo
from arbo.cli import console, options

if TYPE_CHECKING:
    from arbo.results.run import Ints

_TEXT = "Only mentions whose text, long form or entity name contains WORDS."
_WHAT = "Only mentions given by their id, document, entity, cluster or text. [default: all]"


def show(
    run: options.Run,
    what: Annotated[list[str] | None, Argument(metavar="[WHAT]...", help=_WHAT, show_default=False)] = None,
    nil: Annotated[bool, Option("--nil", help="Only mentions that are NIL.")] = False,
    text: Annotated[str | None, Option(metavar="WORDS", help=_TEXT)] = None,
    lowest_margin: Annotated[
        bool, Option("--lowest-margin", help="Sort by the margin between the two nearest entities, lowest first.")
    ] = False,
    clusters: Annotated[bool, Option("--clusters", help="Show clusters instead of mentions.")] = False,
    limit: options.Limit = None,
    as_json: options.Json = False,
) -> None:
    """Show the mentions of a run with their links, or its clusters.

    `arbo show run --lowest-margin --limit 10` lists the ten least certain mentions, and `arbo show run --clusters
    --nil` the discovered entities. The output is a table on a terminal, and tab-separated in a pipe. `--json` prints
    mentions and clusters.
    """
    import numpy as np

    from arbo.results.views import Selection, cluster_view, clusters_of, mention_view, rows_called

    result = arbo.Result.load(run)
    rows = Selection(nil, words=text, lowest_margin=lowest_margin).rows(result)
    if what:
        rows = rows[np.isin(rows, [row for name in what for row in rows_called(result, name)])]
    if as_json:
        views = {"mentions": mention_view(result, rows[:limit])}
        views["clusters"] = cluster_view(result, clusters_of(result, rows)[:limit])
        console.print_json({name: view.to_pylist() for name, view in views.items()})
    else:
        _print(result, clusters_of(result, rows) if clusters else rows, clusters, limit)


def _print(result: arbo.Result, rows: Ints, clusters: bool, limit: int | None) -> None:
    from arbo.results.views import cluster_view, mention_view

    on_terminal = sys.stdout.isatty()
    shown = (cluster_view if clusters else mention_view)(result, rows[: console.rows_shown(limit)])
    if on_terminal:
        console.print_summary(result)
    console.print_view(shown, as_table=on_terminal)
    if on_terminal and len(shown) < len(rows):
        console.out.print(f"and {len(rows) - len(shown):,} more; --limit shows more, --json prints all")
