"""The verbs that show runs: `show`, `explain`, `diff` and `export`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import check_no_input, check_output
from arbo.errors import UsageError
from arbo.formats import FOLDERS, WRITERS, ExportFormat, Ids

_TEXT = "Only mentions whose text, long form or entity name contains WORDS."
_DOUBTFUL = "Sort by confidence, lowest first; by margin if there is none."
_WRONG = "Only mentions whose link differs from the gold annotation, sorted by the reason."
_WHAT = "Only mentions given by their id, document, entity, cluster or text. [default: all]"


def show(
    run: options.Run,
    what: Annotated[list[str] | None, Argument(metavar="[WHAT]...", help=_WHAT)] = None,
    nil: Annotated[bool, Option("--nil", help="Only mentions that are NIL.")] = False,
    text: Annotated[str | None, Option(metavar="WORDS", help=_TEXT)] = None,
    doubtful: Annotated[bool, Option("--doubtful", help=_DOUBTFUL)] = False,
    wrong: Annotated[bool, Option("--wrong", help=_WRONG)] = False,
    clusters: Annotated[bool, Option("--clusters", help="Show clusters instead of mentions.")] = False,
    limit: options.Limit = None,
) -> None:
    """Show the mentions of a run with their links, or its clusters.

    `arbo show run --doubtful --limit 10` lists the ten least certain mentions, `arbo show run --wrong` the errors
    of a run with gold annotations, and `arbo show run --clusters --nil` the discovered entities. The output is a table
    on a terminal, and tab-separated in a pipe. `--json` prints mentions, clusters, and the weights of columns.
    """
    import numpy as np

    from arbo.results.views import WRONG, cluster_view, mention_view, rows_called, selected, wrong_kinds

    result = arbo.Result.load(run)
    rows = selected(result, nil=nil, words=text, doubtful=doubtful)
    kinds = wrong_kinds(result) if wrong else None
    if kinds is not None:
        rows = rows[kinds[rows] >= 0]
        rows = rows[np.argsort(kinds[rows], kind="stable")]
    if what:
        rows = rows[np.isin(rows, [row for name in what for row in rows_called(result, name)])]
    if console.as_json:
        views = {"mentions": mention_view(result, rows[:limit], kinds)}
        views["clusters"] = cluster_view(result, np.unique(result.cluster_rows[rows])[:limit])
        console.print_json({**{name: view.to_pylist() for name, view in views.items()}, "evidence": result.evidence})
        return
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        console.print_summary(result)
    if on_terminal and kinds is not None:
        counts = zip(WRONG, np.bincount(kinds[rows], minlength=len(WRONG)).tolist(), strict=True)
        console.show(f"{len(rows):,} wrong: {', '.join(f'{n:,} {kind}' for kind, n in counts if n)}")
    if clusters:
        rows = np.unique(result.cluster_rows[rows])
    shown = rows[: console.rows_shown(limit)]
    view = cluster_view(result, shown) if clusters else mention_view(result, shown, kinds)
    console.print_view(view, as_table=on_terminal, total=len(rows))


_MENTIONS = "Mentions, given by id, document, entity, cluster or text."


def explain(
    run: options.Run,
    what: Annotated[list[str], Argument(metavar="MENTION...", help=_MENTIONS)],
) -> None:
    """Explain decisions on mentions of a run: the path from the entity, or why no entity was reached.

    `arbo explain run D06-3` explains one mention. If a document, an entity, a cluster or a text has several mentions,
    they are listed, and you choose one by its id; `--json` explains all of them.
    """
    from arbo.results.views import mention_view, rows_called

    result = arbo.Result.load(run)
    rows = {name: rows_called(result, name) for name in what}
    if console.as_json:
        links = [result.links[row] for name in rows for row in rows[name]]
        console.print_json({"explanations": [asdict(result.explain(link)) for link in links]})
        return
    for name in rows:
        if len(rows[name]) == 1:
            console.show(result.explain(result.links[rows[name][0]]))
    for name in rows:
        if len(rows[name]) > 1:
            console.say(f"{len(rows[name]):,} mentions of {name}; choose one by its mention_id:")
            console.print_view(mention_view(result, rows[name]), as_table=sys.stdout.isatty())


_OTHER = "The run folder to compare with RUN; without it, RUN is the later one."


def diff(
    run: options.Run,
    other: Annotated[Path | None, Argument(metavar="[RUN2]", help=_OTHER)] = None,
    limit: options.Limit = None,
) -> None:
    """Compare two runs, and show the clusters and mentions that changed from RUN to RUN2.

    Without RUN2, what changed in RUN since the run of which `arbo add` made it. The runs may differ in
    settings, model or documents. Mentions are matched by id. Both predictions of a mention are
    shown side by side, with its gold ids and its sentence. In a pipe, the output is only the table of changed mentions,
    tab-separated. `--json` prints all rows of both tables.
    """
    if other is not None:
        changes = arbo.diff(run, other)
    else:
        after = arbo.open_run(run)
        if (before := after.parent()) is None:
            raise UsageError(f"give two runs: {run} was not made of another run")
        changes = arbo.diff(before, after.result)
    if console.as_json:
        console.print_json(changes.as_dict())
    elif sys.stdout.isatty():
        console.show(changes)
        console.print_changes(changes, 20 if limit is None else limit)
    else:
        console.say(str(changes))
        console.print_view(changes.mention_view(limit), as_table=False)


_TO = f"Format to write: {', '.join(WRITERS)}."
_IDS = (
    "Ids to write in documents and clusters: links (for NIL, the discovered entity), entities (for NIL none or -1), or "
    "gold (the annotated ids). "
    "Tables have both."
)


def export(
    run: options.Run,
    to: Annotated[ExportFormat, Option(metavar="FORMAT", case_sensitive=False, help=_TO)],
    out: Annotated[Path, Option(metavar="PATH", help="File to write or replace; for brat and graphs, a new folder.")],
    ids: Annotated[Ids, Option(case_sensitive=False, help=_IDS)] = "links",
) -> None:
    """Write a run for a spreadsheet, for other programs, or for scoring.

    `arbo export run --to csv --out links.csv`, or `arbo export run --to brat --out folder`.

    The tables **csv** and **tsv** have a row for each mention, with its sentence, its link and the runner-up;
    **clusters** are clusters across documents, and **conll** those of each document, for `arbo score`; **graphrag**,
    **lightrag** and **neo4j** are the graph of which the run was made, each cluster one node; the other
    formats hold the documents, with links in place of gold ids unless `--ids gold`.

    Notes on stderr count the items that a format cannot hold, for example discontinuous mentions in PubTator.
    """
    check_no_input(out, run) if to in FOLDERS else check_output(out, to, ("",), run)
    result = arbo.Result.load(run)
    notes = result.export(out, to, ids=ids)
    console.say_notes(notes)
    n = result.link_table.num_rows
    value = {"out": str(out), "to": to, "mentions": n, "notes": notes}
    console.answer(value, f"run of {n:,} mentions written to {out}")
