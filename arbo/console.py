"""What the command line prints: tables and texts on stdout for people, JSON for machines, the rest on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from arbo.store import json_ready

if TYPE_CHECKING:
    from arbo.holders import Holders
    from arbo.kb_problems import Problem
    from arbo.kb_stats import KnowledgeBaseStats
    from arbo.result import Cluster, Link, Result

# Names and paths are plain text: no markup such as [b], no emoji codes such as :b:.
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


# Names and messages come from anybody's files: what would steer the terminal is shown instead of sent.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def plain(text: str, style: str = "") -> Text:
    """Return a text as it is, control characters spelt out."""
    return Text(text.translate(_CONTROL), style=style)


def say(message: str) -> None:
    """Tell something by the way, on stderr."""
    err.print(plain(message, style="dim"))


def warn(message: str) -> None:
    """Print what someone should look at, on stderr."""
    err.print(Text.assemble(("warning: ", "bold yellow"), plain(message)))


def complain(message: str) -> None:
    """Print an error on stderr."""
    err.print(Text.assemble(("error: ", "bold red"), plain(message)))


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout, infinities and NaN as null."""
    sys.stdout.write(json.dumps(json_ready(dict(value)), indent=2, ensure_ascii=False) + "\n")


def print_title(title: str) -> None:
    """Print a heading."""
    out.print()
    out.print(plain(title, style="bold"))


def print_summary(result: Result) -> None:
    """Print what was decided, in one line."""
    nil = result.link_table["entity_id"].null_count
    linked = result.link_table.num_rows - nil
    if result.manifest["knowledge_base"] is None:
        import pyarrow.compute as pc

        alone = pc.sum(pc.equal(result.cluster_table["size"], 1)).as_py() or 0
        out.print(
            f"{nil:,} mentions in {len(result.discovered):,} discovered entities, {alone:,} of them of one mention"
        )
        return
    out.print(
        f"{linked + nil:,} mentions: {linked:,} linked, {nil:,} NIL in {len(result.discovered):,} discovered entities"
    )


def print_links(result: Result, links: Sequence[Link]) -> None:
    """Print the explanations of links."""
    for link in links:
        out.print(plain(str(result.explain(link))))


def print_clusters(clusters: Sequence[Cluster]) -> None:
    """Print clusters as a table: id, name, how many mentions, and some of them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cluster", "name", "mentions", "weakest join", "for instance"):
        table.add_column(column, justify="right" if column in ("mentions", "weakest join") else "left")
    for cluster in clusters:
        texts = list(dict.fromkeys(f"{mention.text} ({mention.document_id})" for mention in cluster.mentions))
        join = "" if cluster.weakest_join is None else f"{cluster.weakest_join:.3f}"
        example = ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")
        table.add_row(plain(cluster.id), plain(cluster.name), str(len(cluster.mentions)), join, plain(example))
    out.print(table)


def print_stats(stats: KnowledgeBaseStats) -> None:
    """Print the figures of a knowledge base as a table, and its most ambiguous names."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in stats.rows():
        table.add_row(*map(plain, row))
    out.print(table)
    if stats.most_ambiguous:
        print_title("Most ambiguous names")
        _print_holders(stats.most_ambiguous)


def print_problems(problems: Sequence[Problem]) -> None:
    """Print what is wrong, each with its mend and examples."""
    for problem in problems:
        style = "bold red" if problem.severity == "error" else "bold yellow"
        out.print(Text.assemble((problem.severity, style), f" ({problem.count:,}): ", (problem.wrong, "bold")))
        out.print(plain(f"  {problem.mend}"))
        _print_holders(problem.examples)
        out.print()
    errors = sum(problem.severity == "error" for problem in problems)
    out.print(f"kinds of errors: {errors}, kinds of warnings: {len(problems) - errors}" if problems else "no problem")


def _print_holders(examples: Sequence[Holders]) -> None:
    for example in examples:
        out.print(plain(f"    {example}", style="dim"))
