"""What the command line prints: tables and texts on stdout for people, JSON for machines, the rest on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from arbo.evaluation import Evaluation
from arbo.result import Cluster, Link, Result
from arbo.store import json_ready

# Names and paths are plain text: no markup such as [b], no emoji codes such as :b:.
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def say(message: str) -> None:
    """Tell something by the way, on stderr."""
    err.print(Text(message, style="dim"))


def complain(message: str) -> None:
    """Print an error on stderr."""
    err.print(Text.assemble(("error: ", "bold red"), message))


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on stdout, infinities and NaN as null."""
    sys.stdout.write(json.dumps(json_ready(dict(value)), indent=2, ensure_ascii=False) + "\n")


def print_title(title: str) -> None:
    """Print a heading."""
    out.print()
    out.print(Text(title, style="bold"))


def print_summary(result: Result) -> None:
    """Print what was decided, in one line."""
    nil = result.link_table["entity_id"].null_count
    linked = result.link_table.num_rows - nil
    out.print(
        f"{linked + nil:,} mentions: {linked:,} linked, {nil:,} NIL in {len(result.discovered):,} discovered entities"
    )


def print_scores(evaluation: Evaluation) -> None:
    """Print the headline figures as a table."""
    if not evaluation.rows():
        out.print(str(evaluation))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("score")
    table.add_column("value", justify="right")
    table.add_column("over", style="dim")
    for name, value, over in evaluation.rows():
        table.add_row(name, f"{value:.3f}", over)
    out.print(table)


def print_links(result: Result, links: Sequence[Link]) -> None:
    """Print the explanations of links."""
    for link in links:
        out.print(Text(str(result.explain(link))))


def print_clusters(clusters: Sequence[Cluster]) -> None:
    """Print clusters as a table: id, name, how many mentions, and some of them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("cluster", "name", "mentions", "weakest join", "for instance"):
        table.add_column(column, justify="right" if column in ("mentions", "weakest join") else "left")
    for cluster in clusters:
        texts = list(dict.fromkeys(f"{mention.text} ({mention.document_id})" for mention in cluster.mentions))
        join = "" if cluster.weakest_join is None else f"{cluster.weakest_join:.3f}"
        example = ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")
        table.add_row(Text(cluster.id), Text(cluster.name), str(len(cluster.mentions)), join, Text(example))
    out.print(table)
