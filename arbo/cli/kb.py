"""The verbs on a knowledge base alone: stats and validate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli.options import Json, KbFormat, KbXrefs

app = typer.Typer(help="Look into a knowledge base: figures, and what is wrong with it.", no_args_is_help=True)

KnowledgeBaseFile = Annotated[Path, typer.Argument(metavar="KB", help="The knowledge base: a file or a folder.")]


@app.command()
def stats(
    kb: KnowledgeBaseFile,
    kb_format: KbFormat,
    kb_xrefs: KbXrefs = None,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Ambiguous names to show.")] = 5,
    as_json: Json = False,
) -> None:
    """Count entities, names, definitions, types and ids, and the names that several entities share."""
    from arbo import console
    from arbo.readers import read_knowledge_base

    base = read_knowledge_base(kb, kb_format.value)
    if kb_xrefs:
        base = base.through_xrefs(*kb_xrefs)
    found = base.stats(examples=examples)
    if as_json:
        console.print_json(found.as_dict())
    else:
        console.print_stats(found)


@app.command()
def validate(
    kb: KnowledgeBaseFile,
    kb_format: KbFormat,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Examples of each kind of problem.")] = 3,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a knowledge base, and how to mend it.

    Errors lose data or leave an entity out of reach: malformed entries, ids and names that nothing can match. With
    any of them the exit code is 3. Warnings, such as names that several entities share, are for you to judge; with
    warnings alone it is 0.
    """
    from arbo import console
    from arbo.readers import read_knowledge_base

    base = read_knowledge_base(kb, kb_format.value, on_error="skip")
    found = base.problems(examples=examples)
    errors = sum(problem.severity == "error" for problem in found)
    if as_json:
        console.print_json(
            {
                "entities": len(base),
                "errors": errors,
                "warnings": len(found) - errors,
                "problems": [problem.as_dict() for problem in found],
            }
        )
    else:
        console.print_problems(found)
    if errors:
        raise typer.Exit(3)
