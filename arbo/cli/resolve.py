"""The verb `resolve`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from arbo.cli import console

_TABLE = "A CSV, TSV or Parquet file of entities, or the folder of GraphRAG or LightRAG."


def resolve(
    table: Annotated[Path, Argument(metavar="TABLE", help=_TABLE)],
    out: Annotated[Path, Option(help="New folder for merges.csv and, of a folder, the merged graph.")],
    name: Annotated[str, Option(metavar="COLUMN", help="The column of names, in a file.")] = "title",
    type_: Annotated[
        str | None,
        Option("--type", metavar="COLUMN", help="The column of types; rows of different types are never merged."),
    ] = None,
    context: Annotated[str | None, Option(metavar="COLUMN", help="The column of descriptions or other texts.")] = None,
    threshold: Annotated[float, Option(help="Smallest average probability with which rows are merged.")] = 0.6,
) -> None:
    """Find the rows of a table, or the entities of a knowledge graph, that are one entity, and merge them.

    `arbo resolve ragtest/output --out merged` merges the entities of GraphRAG, and redirects their relationships.
    """
    from arbo.resolving.folders import resolve_graph

    found = resolve_graph(table, out, name, type_, context, threshold=threshold)
    records = [{**merge._asdict(), "canonical_name": found.names[merge.canonical]} for merge in found.merges]
    value = {"out": str(out), "rows": len(found.names), "entities": len(set(found.canonical)), "merges": records}
    shown = [f"{merge['canonical_name']}: {', '.join(merge['names'])}" for merge in records[:20]]
    console.answer(value, "\n".join([*shown, f"{found}; written to {out}"]))
