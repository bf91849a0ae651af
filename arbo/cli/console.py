"""The output of the command line: tables, text and JSON on stdout, notes on stderr."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

import arbo
from arbo.errors import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from arbo.results.diff import Diff

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of a text around; names may come from untrusted files."""

as_json = False  # whether the present verb prints JSON, the option that all verbs have


def print_parts(stream: IO[str], *parts: tuple[str, dict[str, Any]]) -> None:
    """Print texts on one line; `typer.style` takes the styles that they have on a terminal.

    Control characters are escaped, except tabs and line feeds.
    """
    typer.echo("".join(typer.style(escaped(text), **style) for text, style in parts), stream)


def escaped(text: str) -> str:
    """Return a text without characters that steer a terminal: their codes stand for them."""
    return _STEERING.sub(lambda one: one[0].encode("unicode_escape").decode(), text)


def on_one_line(text: str) -> str:
    """Replace each white space character by a blank."""
    return re.sub(r"\s", " ", text)


def show(text: object, **style: Any) -> None:
    """Print a text on stdout, on a terminal with a style of `typer.style`."""
    print_parts(sys.stdout, (str(text), style))


def say(message: str) -> None:
    """Print a note on stderr."""
    print_parts(sys.stderr, (message, {"dim": True}))


def say_notes(notes: Mapping[str, int], place: str = "") -> None:
    """Print notes with their counts on stderr, after the words in ``place``."""
    for note, count in notes.items():
        say(f"{place}{counted(count, note)}")


def warn(*messages: str) -> None:
    """Print warnings on stderr."""
    for message in messages:
        print_parts(sys.stderr, ("warning: ", {"bold": True, "fg": "yellow"}), (message, {}))


def complain(message: str) -> None:
    """Print an error on stderr."""
    print_parts(sys.stderr, ("error: ", {"bold": True, "fg": "red"}), (message, {}))


def print_json(value: Mapping[str, Any]) -> None:
    """Print a JSON object on stdout, with infinities and NaN as null."""
    from arbo.files import json_ready

    text = json.dumps(json_ready(dict(value)), indent=2, ensure_ascii=False)
    sys.stdout.write(_STEERING.sub(lambda one: f"\\u{ord(one[0]):04x}", text) + "\n")


def answer(value: Mapping[str, Any], text: object) -> None:
    """Print the result of a verb on stdout: as JSON, or as text."""
    if as_json:
        print_json(value)
    else:
        show(text)


def print_title(title: str) -> None:
    """Print a heading."""
    show(f"\n{title}", bold=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, total: int = 0) -> None:
    """Print a table without borders, and how many of the ``total`` rows are left out."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(escaped(cell)) for cell in row] for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for place, name in enumerate(columns):
        has_numbers = all(re.fullmatch(r"[\d.,]*", row[place].plain) for row in cells)
        table.add_column(name, overflow="fold", justify="right" if has_numbers else "left")
    for row in cells:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 100_000  # in a pipe, no row is wrapped
    # Plain text, without markup such as [b] or emoji codes such as :b:.
    Console(highlight=False, soft_wrap=True, markup=False, emoji=False, width=width).print(table)
    if total > len(cells):
        show(f"and {total - len(cells):,} more; --limit shows more, --json prints all")


def rows_shown(limit: int | None) -> int | None:
    """Return the number of rows for `--limit`: by default 20 on a terminal, and all (None) elsewhere."""
    return 20 if limit is None and sys.stdout.isatty() else limit


def command(*words: object) -> str:
    """Return a command for a shell, in which paths may have blanks."""
    return shlex.join(["arbo", *map(str, words)])


def print_next(run: Path, *verbs: Sequence[str]) -> None:
    """Print where a run was written, and commands to try on it: ``verbs``, each with its arguments, and export."""
    show(f"\nwritten to {run}; next:")
    for verb, *words in (*verbs, ["export", "--to", "csv", "--out", "links.csv"]):
        show(f"  {command(verb, run, *words)}")


def print_summary(result: arbo.Result) -> None:
    """Print the numbers of mentions and of discovered entities on one line."""
    n, nil = result.mention_table.num_rows, result.n_nil
    mentions, discovered = counted(n, "mentions"), counted(len(result.discovered), "discovered entities")
    if result.manifest["knowledge_base"] is None:
        alone = (result.cluster_table["size"].to_numpy() == 1).sum()
        show(f"{mentions} in {discovered}, {alone:,} with one mention")
    else:
        show(f"{mentions}: {n - nil:,} linked, {nil:,} NIL in {discovered}")


def print_discovered(result: arbo.Result, n: int) -> None:
    """Print a table of the ``n`` largest discovered entities."""
    import numpy as np

    from arbo.results.views import cluster_view

    rows = np.arange(len(result.clusters))[len(result.clusters) - len(result.discovered) :]
    print_view(cluster_view(result, rows[:n]).drop_columns("entity_id"), as_table=True)


def print_view(view: pa.Table, *, as_table: bool, total: int = 0, linked: bool = True) -> None:
    """Print a view of a run as a table, or as tab-separated lines for other programs.

    In a table, columns without any value are left out, and the link of a mention, if the run is ``linked``, its
    runner-up and the next cluster have one column each.
    """
    from arbo.results.run import cell

    rows, names = view.to_pylist(), view.column_names
    if not as_table:
        for line in (names, *(map(cell, row.values()) for row in rows)):
            sys.stdout.write("\t".join(" ".join(text.split()) for text in line) + "\n")
        return
    but, titles = set[str](), {name: name.replace("_", " ") for name in names}
    if "mention_id" in names:
        but = {"start", "end", "cluster_id" if linked else "entity_id"}
        but |= {"document_id"} if all(row["mention_id"].startswith(row["document_id"]) for row in rows) else set()
        if "confidence" in names:
            but |= {"margin"} if "runner_up_id" in names else {"margin", "score"}
        for row in rows:
            row |= {"entity_id": "NIL,", "entity_name": row["cluster_id"]} if row["entity_id"] is None else {}
    for whole in ("entity", "runner_up", "next_cluster"):
        if f"{whole}_name" in names:
            titles[f"{whole}_id"] = "link" if whole == "entity" else whole.replace("_", " ")
            for row in rows:
                row[f"{whole}_id"] = " ".join(filter(None, (row[f"{whole}_id"], row.pop(f"{whole}_name"))))
    shown = [name for name in names if name not in but and any(row.get(name) not in (None, "", []) for row in rows)]
    cells = ([f"{cell(row[name]):.200}" for name in shown] for row in rows)
    print_table([titles[name] for name in shown or names], cells, total=total)


def print_changes(changes: Diff, limit: int) -> None:
    """Print the first changes of clusters, those that matter most first, and of mentions as tables."""
    clusters, mentions = changes.ranked.slice(0, limit), changes.mention_view(limit).drop_columns("document")
    clusters = clusters.rename_columns(["from" if name == "of" else name for name in clusters.column_names])
    for title, view, every in (("Clusters", clusters, changes.clusters), ("Mentions", mentions, changes.mentions)):
        if len(view):
            print_title(title)
            print_view(view, as_table=True, total=len(every))
