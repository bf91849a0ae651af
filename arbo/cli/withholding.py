"""The verb that makes data sets for NIL: nil-split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arbo.cli.inputs import read_documents, read_kb
from arbo.cli.options import (
    Format,
    Json,
    Kb,
    KbFormat,
    KbXrefs,
    KnowledgeBaseFormat,
    OnError,
    OnErrorOption,
    Types,
)
from arbo.cli.reporting import check_jsonl_output, name_systems


def nil_split(
    docs: Annotated[
        list[Path],
        typer.Argument(metavar="DOCS", help="The parts of a data set, files or folders; that for training first."),
    ],
    format_: Format,
    kb: Kb,
    kb_format: KbFormat,
    out: Annotated[Path, typer.Option("--out", help="JSON lines to write the smaller knowledge base to.")],
    types: Annotated[
        list[str] | None,
        typer.Option("--withhold-type", metavar="TYPE", help="Withhold entities of this type; may be repeated."),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--withhold-id", metavar="ID", help="Withhold the entity with this id; may be repeated."),
    ] = None,
    branches: Annotated[
        list[str] | None,
        typer.Option(
            "--withhold-branch",
            metavar="ID",
            help="Withhold the entity with this id and all below it by the is_a of an OBO file; may be repeated.",
        ),
    ] = None,
    kb_xrefs: KbXrefs = None,
    mention_types: Types = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Withhold entities from a knowledge base, so that mentions become NIL, and check what that makes of DOCS.

    `arbo nil-split train dev --format brat --kb UBERON.obo --kb-format obo --withhold-branch UBERON:0000062 --out
    smaller.jsonl`, then `arbo tune train --format brat --kb smaller.jsonl --kb-format jsonl --nil --out tuned.json`.

    The documents stay as they are: a gold id that the knowledge base lacks is NIL. The checks say whether NIL mentions
    differ from all others in anything else: the share of entities, mentions and names that training has seen, and
    the definitions of their entities.
    """
    import arbo
    from arbo import UsageError
    from arbo.cli import console
    from arbo.readers.obo import read_obo_parents

    parts = name_systems(docs, what="part")
    if branches and kb_format is not KnowledgeBaseFormat.obo:
        raise UsageError("--withhold-branch follows the is_a of an OBO file; of other formats name types or ids")
    check_jsonl_output(out, kb, *docs)
    split = arbo.nil_split(
        read_kb(kb, kb_format, kb_xrefs),
        {name: read_documents(path, format_, mention_types, on_error) for name, path in parts.items()},
        types=types or (),
        ids=ids or (),
        branches=branches or (),
        parents=read_obo_parents(kb) if branches else None,
    )
    split.kb.to_jsonl(out)
    if as_json:
        console.print_json({"kb": str(out), **split.as_dict()})
    else:
        console.out.print(console.plain(f"{split}\n\nwritten to {out}"))
