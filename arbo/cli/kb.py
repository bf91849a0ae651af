"""The verbs of `arbo kb`: stats, validate and add-names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli import console, options
from arbo.cli.inputs import read_documents, read_kb, tell_format
from arbo.cli.reporting import check_jsonl_output
from arbo.readers import read_knowledge_base

app = typer.Typer(help="Inspect a knowledge base, or add the names that annotated documents use.", no_args_is_help=True)

KnowledgeBaseFile = Annotated[Path, typer.Argument(metavar="KB", help="The knowledge base: a file or a folder.")]


@app.command()
def stats(
    kb: KnowledgeBaseFile,
    kb_format: options.KbFormat = None,
    kb_xrefs: options.KbXrefs = None,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=0, help="Number of ambiguous names to show.")
    ] = 5,
    as_json: options.Json = False,
) -> None:
    """Count entities, names, definitions, types and ids, and the names that several entities share."""
    base = read_kb(kb, kb_format, kb_xrefs)
    found = base.stats(examples=examples)
    if as_json:
        console.print_json(found.as_dict())
    else:
        console.print_stats(found)


@app.command()
def validate(
    kb: KnowledgeBaseFile,
    kb_format: options.KbFormat = None,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=0, help="Number of examples to show of each kind of problem.")
    ] = 3,
    as_json: options.Json = False,
) -> None:
    """List the problems of a knowledge base, and how to solve them.

    Errors lose data or make an entity unreachable: malformed entries, ids and names that nothing can match. With any
    error the exit code is 3. Warnings, such as names that several entities share, are for you to judge; with only
    warnings the exit code is 0.
    """
    base = read_knowledge_base(kb, kb_format, on_error="skip", told=tell_format(kb, "--kb-format"))
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


@app.command("add-names")
def add_names(
    kb: KnowledgeBaseFile,
    docs: options.Documents,
    out: Annotated[Path, typer.Option("--out", help="File to write the knowledge base to, as JSON lines.")],
    kb_format: options.KbFormat = None,
    format_: options.Format = None,
    kb_xrefs: options.KbXrefs = None,
    types: options.Types = None,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Add the names that annotated DOCS use for entities as aliases.

    `arbo kb add-names medic.txt train.txt --kb-format medic --format pubtator --out kb.jsonl`, then
    `arbo link test.txt --format pubtator --kb kb.jsonl --kb-format jsonl`.

    A name becomes an alias of the entity that it is annotated with most often, and of no other entity. Never take names
    from the documents that you evaluate on.
    """
    check_jsonl_output(out, kb, *docs)
    base = read_kb(kb, kb_format, kb_xrefs)
    named = base.with_names_of(read_documents(docs, format_, types, on_error))
    named.to_jsonl(out)
    before, after = set(zip(*base.names(), strict=True)), set(zip(*named.names(), strict=True))
    changes = {"added": len(after - before), "taken_away": len(before - after)}
    if as_json:
        console.print_json({"kb": str(out), **changes})
    else:
        said = f"{changes['added']:,} names added, {changes['taken_away']:,} removed as names of another entity"
        console.out.print(console.plain(f"{said}; written to {out}"))
