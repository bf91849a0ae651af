"""The verbs on a knowledge base: stats, validate and add-names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli.inputs import read_documents, read_kb
from arbo.cli.options import Documents, Format, Json, KbFormat, KbXrefs, OnError, OnErrorOption, Types
from arbo.cli.reporting import check_jsonl_output

app = typer.Typer(
    help="Look into a knowledge base, or add the names that annotated documents use.", no_args_is_help=True
)

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
    from arbo.cli import console
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
    from arbo.cli import console
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


@app.command("add-names")
def add_names(
    kb: KnowledgeBaseFile,
    docs: Documents,
    kb_format: KbFormat,
    format_: Format,
    out: Annotated[Path, typer.Option("--out", help="JSON lines to write the knowledge base to.")],
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Call entities what annotated DOCS call them.

    `arbo kb add-names medic.txt train.txt --kb-format medic --format pubtator --out kb.jsonl`, then
    `arbo link test.txt --format pubtator --kb kb.jsonl --kb-format jsonl`.

    A name goes to the entity that it was annotated with most often, and is no alias of any other then. Never take the
    names from the documents that you evaluate on.
    """
    from arbo.cli import console

    check_jsonl_output(out, kb, docs)
    base = read_kb(kb, kb_format, kb_xrefs)
    named = base.with_names_of(read_documents(docs, format_, types, on_error))
    named.to_jsonl(out)
    before, after = set(zip(*base.names(), strict=True)), set(zip(*named.names(), strict=True))
    changes = {"added": len(after - before), "taken_away": len(before - after)}
    if as_json:
        console.print_json({"kb": str(out), **changes})
    else:
        said = f"{changes['added']:,} names added, {changes['taken_away']:,} taken away as another entity's"
        console.out.print(console.plain(f"{said}; written to {out}"))
