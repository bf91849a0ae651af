"""The verb `explain`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from arbo.cli import console, options
from arbo.errors import UsageError


def explain(
    run: options.Run,
    mention: Annotated[list[str], typer.Argument(metavar="MENTION...", help="Ids of mentions.")],
    as_json: options.Json = False,
) -> None:
    """Explain the decisions on mentions of a run: the path from the entity, or why no entity was reached."""
    from arbo import Result

    result = Result.load(run)
    unknown = [id_ for id_ in mention if id_ not in result.row_of]
    if unknown:
        raise UsageError(f"the run has no mention {', '.join(map(repr, unknown))}; see its mentions.parquet")
    links = [result.link_of(id_) for id_ in mention]
    if as_json:
        console.print_json({"explanations": [asdict(result.explain(at)) for at in links]})
    else:
        console.print_links(result, links)
