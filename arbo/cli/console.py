"""The output of the command line: tables, text and JSON on stdout, notes on stderr."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

import arbo

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from arbo.kb.names import Example
    from arbo.kb.problems import Problem
    from arbo.kb.stats import KnowledgeBaseStats
    from arbo.results.diff import Diff
    from arbo.spans.finding import Found

# Names and paths are printed as plain text, without markup such as [b] or emoji codes such as :b:.
# In a pipe, no row of a table is wrapped.
_WIDTH = None if sys.stdout and sys.stdout.isatty() else 100_000
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False, width=_WIDTH)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)

# Names and messages may come from untrusted files: control characters, and those that turn the direction of a text
# around, are escaped, not sent to the terminal.
_TURNS = (*range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_CONTROL |= {code: f"\\u{code:04x}" for code in _TURNS}
_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(127, 160), *_TURNS)}


def plain(text: str, style: str = "") -> Text:
    """Return text to print without markup; control characters are escaped, except tabs and line feeds."""
    return Text(escaped(text), style=style)


def escaped(text: str) -> str:
    """Return a text without characters that steer a terminal: their codes stand for them."""
    return text.translate(_CONTROL)


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, of which one ends in a consonant and y, or takes an s, in the singular or plural.

    >>> counted(1, "entity"), counted(2_000, "entity"), counted(0, "name")
    ('1 entity', '2,000 entities', '0 names')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun.removesuffix('y')}{'ies' if noun.endswith('y') else 's'}"


def show(text: object, style: str = "") -> None:
    """Print a text on stdout."""
    out.print(plain(str(text), style))


def say(message: str) -> None:
    """Print a note on stderr."""
    err.print(plain(message, style="dim"))


def say_notes(notes: Mapping[str, int], place: str = "") -> None:
    """Print notes with their counts on stderr, after the words in ``place``."""
    for note, count in notes.items():
        say(f"{place}{count:,} {note}")


def warn(message: str) -> None:
    """Print a warning on stderr."""
    err.print(Text.assemble(("warning: ", "bold yellow"), plain(message)))


def complain(message: str) -> None:
    """Print an error on stderr."""
    err.print(Text.assemble(("error: ", "bold red"), plain(message)))


def print_json(value: Mapping[str, Any]) -> None:
    """Print a JSON object on stdout, with infinities and NaN as null."""
    from arbo.files import json_ready

    sys.stdout.write(json.dumps(json_ready(dict(value)), indent=2, ensure_ascii=False).translate(_IN_JSON) + "\n")


def answer(value: Mapping[str, Any], text: object, *, as_json: bool) -> None:
    """Print the result of a verb on stdout: as JSON, or as text."""
    if as_json:
        print_json(value)
    else:
        show(text)


def print_next(run: Path, *verbs: Sequence[str], before: Path | None = None) -> None:
    """Print where a run was written, and commands to try on it: ``verbs``, each with its arguments, and export.

    ``before`` is the run from which it was made, to compare it with.
    """
    out.print(f"\nwritten to {run}; next:")
    if before is not None:
        show(f"  arbo {shlex.join(['diff', str(before), str(run)])}")
    for verb, *words in (*verbs, ["export", "--to", "csv", "--out", "links.csv"]):
        show(f"  arbo {shlex.join([verb, str(run), *words])}")


def print_title(title: str) -> None:
    """Print a heading."""
    out.print()
    show(title, style="bold")


def print_summary(result: arbo.Result) -> None:
    """Print the numbers of mentions and of discovered entities on one line."""
    nil = result.n_nil
    linked = result.mention_table.num_rows - nil
    if result.manifest["knowledge_base"] is None:
        import pyarrow.compute as pc

        alone = pc.sum(pc.equal(result.cluster_table["size"], 1)).as_py() or 0
        out.print(f"{nil:,} mentions in {len(result.discovered):,} discovered entities, {alone:,} with one mention")
        return
    out.print(
        f"{linked + nil:,} mentions: {linked:,} linked, {nil:,} NIL in {len(result.discovered):,} discovered entities"
    )


def print_links(result: arbo.Result, links: Sequence[arbo.Link]) -> None:
    """Print the explanations of links."""
    for link in links:
        show(result.explain(link))


def print_clusters(clusters: Sequence[arbo.Cluster]) -> None:
    """Print a table of clusters: id, name, number of mentions, weakest join and examples."""
    table = _table(("cluster", "name", "mentions", "weakest join", "for instance"), ("mentions", "weakest join"))
    for cluster in clusters:
        texts = list(dict.fromkeys(f"{mention.text} ({mention.document_id})" for mention in cluster.mentions))
        join = "" if cluster.weakest_join is None else f"{cluster.weakest_join:.3f}"
        example = ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")
        table.add_row(plain(cluster.id), plain(cluster.name), str(len(cluster.mentions)), join, plain(example))
    out.print(table)


def _table(columns: Sequence[str], right: Collection[str] = (), *, fold: bool = False) -> Table:
    """Return an empty table without borders; columns in ``right`` are right-aligned."""
    made = (
        Column(name, justify="right" if name in right else "left", overflow="fold" if fold else "ellipsis")
        for name in columns
    )
    return Table(*made, box=None, pad_edge=False, header_style="bold")


def rows_shown(limit: int | None) -> int | None:
    """Return the number of rows for `--limit`: by default 20 on a terminal, and all (None) elsewhere."""
    return 20 if limit is None and sys.stdout.isatty() else limit


def print_view(view: pa.Table, *, as_table: bool) -> None:
    """Print a view of a run as a table, or as tab-separated lines for other programs."""
    from arbo.results.rows import cell

    rows = view.to_pylist()
    if not as_table:
        for line in (view.column_names, *(map(cell, row.values()) for row in rows)):
            sys.stdout.write("\t".join(" ".join(text.split()) for text in line) + "\n")
        return
    if "mention_id" in view.column_names:
        named = all(row["mention_id"].startswith(row["document_id"]) for row in rows)
        rows = [_shorter(row, {"start", "end", "cluster_id", "entity_name", *["document_id"] * named}) for row in rows]
    names = rows[0] if rows else view.column_names
    table = _table([name.replace("_", " ") for name in names], _NUMBERS, fold=True)
    for row in rows:
        table.add_row(*map(plain, map(cell, row.values())))
    out.print(table)


def _shorter(row: Mapping[str, Any], but: Collection[str]) -> dict[str, Any]:
    """Return a row of mentions that fits a terminal: with one column for its link, and without those in ``but``."""
    nil = row["entity_id"] is None
    link = f"NIL, {row['cluster_id']}" if nil else f"{row['entity_id']} {row['entity_name']}"
    return {
        "link" if name == "entity_id" else name: link if name == "entity_id" else value
        for name, value in row.items()
        if name not in but
    }


_NUMBERS = {"start", "end", "score", "margin", "confidence", "size", "weakest join"}
"""Columns with numbers, which are right-aligned."""


def print_changes(changes: Diff, limit: int, more: str = "--limit shows more, --json prints all") -> None:
    """Print the first changes of clusters, those that matter most first, and of mentions as tables."""
    clusters = _table(("change", "cluster", "name", "before", "after", "from", "into", "cause"), ("before", "after"))
    for row in changes.ranked[:limit]:
        sizes = f"{row.before:,}", f"{row.after:,}"
        others = ", ".join(row.of), ", ".join(row.into)
        clusters.add_row(*map(plain, (row.change, row.cluster, row.name, *sizes, *others, row.cause or "")))
    for title, n in (("Clusters", len(changes.clusters)), ("Mentions", len(changes.mentions))):
        if not min(n, limit):
            continue
        print_title(title)
        if title == "Clusters":
            out.print(clusters)
        else:
            print_view(changes.mention_view(limit).drop_columns("document"), as_table=True)
        if n > limit:
            out.print(f"and {n - limit:,} more; {more}")


def print_found(found: Found, kb: arbo.KnowledgeBase, limit: int | None) -> None:
    """Print the number of found mentions, and the first ``limit`` (None: all) in brackets in their context."""
    documents = {document.id: document for document in found.corpus}
    n_found, entities = len(found.proposals), len({proposal.entity for proposal in found.proposals})
    out.print(f"{n_found:,} mentions of {entities:,} entities found in {len(documents):,} documents")
    most = n_found if limit is None else limit
    if not n_found or not most:
        return
    scored = any(proposal.score != 1 for proposal in found.proposals)
    table = _table(("document", "in context", "found as", "", *(["score"] if scored else [])), ("score",))
    for mention, proposal in list(zip(found.corpus.mentions, found.proposals, strict=True))[:most]:
        entity = kb.entities[proposal.entity]
        context = _context(documents[mention.document_id].text, mention)
        score = [f"{proposal.score:.3f}"] if scored else []
        table.add_row(plain(mention.document_id), context, plain(entity.name), plain(entity.id), *score)
    out.print(table)
    if n_found > most:
        out.print(f"and {n_found - most:,} more; --limit shows more, --json prints all")


def _context(text: str, mention: arbo.Mention, width: int = 30) -> Text:
    """Return a mention in brackets, with ``width`` characters of context on either side, on one line."""
    place = max(0, mention.start - width)
    shown = Text("..." if place else "")
    for begin, end in sorted(mention.spans):
        shown.append_text(plain(on_one_line(text[place:begin])))
        shown.append_text(plain(f"[{on_one_line(text[max(begin, place) : end])}]", "bold"))
        place = max(place, end)
    shown.append_text(plain(on_one_line(text[place : place + width])))
    return shown.append("..." if place + width < len(text) else "")


def on_one_line(text: str) -> str:
    """Replace each white space character by a blank."""
    return re.sub(r"\s", " ", text)


def print_stats(stats: KnowledgeBaseStats) -> None:
    """Print the counts of a knowledge base as a table."""
    table = Table("", Column(justify="right"), Column(style="dim"), box=None, pad_edge=False, show_header=False)
    for row in stats.rows():
        table.add_row(*map(plain, row))
    out.print(table)


def print_problems(problems: Sequence[Problem]) -> None:
    """Print each problem with its solution and examples."""
    for problem in problems:
        style = "bold red" if problem.severity == "error" else "bold yellow"
        out.print(Text.assemble((problem.severity, style), f" ({problem.count:,}): ", (problem.wrong, "bold")))
        show(f"  {problem.solution}")
        _print_examples(problem.examples)
        out.print()
    errors = sum(problem.severity == "error" for problem in problems)
    counts = f"kinds of errors: {errors}, kinds of warnings: {len(problems) - errors}"
    out.print(counts if problems else "no problems found")


def _print_examples(examples: Sequence[Example]) -> None:
    for example in examples:
        show(f"    {example}", style="dim")
