"""The verb `explain`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

from typer import Argument

import arbo
from arbo.cli import console, options


def explain(
    run: options.Run,
    what: Annotated[
        list[str], Argument(metavar="MENTION...", help="Mentions, given by id, document, entity, cluster or text.")
    ],
    as_json: options.Json = False,
) -> None:
    """Explain decisions on mentions of a run: the path from the entity, or why no entity was reached.

    `arbo explain run D06-3` explains one mention. If a document, an entity, a cluster or a text has several mentions,
    they are listed, and you choose one by its id; `--json` explains all of them.
    """
    from arbo.results.views import mention_view, rows_called

    result = arbo.Result.load(run)
    found = {name: rows_called(result, name) for name in what}
    if as_json:
        every = [result.links[row] for rows in found.values() for row in rows]
        console.print_json({"explanations": [asdict(result.explain(link)) for link in every]})
        return
    console.print_links(result, [result.links[rows[0]] for rows in found.values() if len(rows) == 1])
    for name, rows in found.items():
        if len(rows) > 1:
            console.say(f"{len(rows):,} mentions of {name}; choose one by its mention_id:")
            console.print_view(mention_view(result, rows), as_table=sys.stdout.isatty())
