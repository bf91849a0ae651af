"""The verbs that read a run folder: evaluate and explain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli.inputs import read_documents
from arbo.cli.options import DocumentFormat, Json, OnError, Run


def evaluate(
    run: Run,
    train: Annotated[
        Path | None, typer.Option("--train", help="Training documents: split linking into seen and unseen.")
    ] = None,
    format_: Annotated[
        DocumentFormat | None, typer.Option("--format", help="Format of the training documents.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a run against the gold annotations that its documents had."""
    from arbo import Result, UsageError, console

    if (train is None) != (format_ is None):
        raise UsageError("--train and --format go together")
    seen = None if train is None or format_ is None else read_documents(train, format_, None, OnError.fail)
    evaluation = Result.load(run).evaluate(train=seen)
    if as_json:
        console.print_json(evaluation.as_dict())
    else:
        console.print_scores(evaluation)


def explain(
    run: Run,
    mention: Annotated[list[str], typer.Argument(metavar="MENTION...", help="Ids of mentions.")],
    as_json: Json = False,
) -> None:
    """Say why mentions of a run were decided as they were: the path from the entity, or what kept it away."""
    from dataclasses import asdict

    from arbo import Result, UsageError, console

    result = Result.load(run)
    unknown = [id_ for id_ in mention if id_ not in result.row_of]
    if unknown:
        raise UsageError(f"the run has no mention {', '.join(map(repr, unknown))}; see its mentions.parquet")
    links = [result.link_of(id_) for id_ in mention]
    if as_json:
        console.print_json({"explanations": [asdict(result.explain(at)) for at in links]})
    else:
        console.print_links(result, links)
