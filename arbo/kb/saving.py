"""Write a knowledge base to a file, in the format of its ending.

JSON lines and Parquet hold all fields. TSV holds the id, the name, aliases without a `|`, and the definition.
"""

from __future__ import annotations

from dataclasses import fields
from os import fspath

import pyarrow as pa
import pyarrow.parquet as pq

from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, write_lines, write_whole

ENDINGS = (".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz", ".parquet")
_TYPES = {"tuple[str, ...]": pa.list_(pa.string())}
_SCHEMA = pa.schema(
    [(field.name, _TYPES.get(str(field.type), pa.string())) for field in fields(Entity) if field.compare]
)


def save(kb: KnowledgeBase, path: PathLike) -> dict[str, int]:
    """Write a knowledge base; return counts of the values that the format cannot hold.

    Raises:
        UsageError: the ending is not one of `ENDINGS`, or the file cannot be written.
        DataError: TSV cannot hold an id.
    """
    name = fspath(path).lower()
    if not name.endswith(ENDINGS):
        raise UsageError(f"{fspath(path)}: the file's ending must be one of {', '.join(ENDINGS)}")
    if name.endswith(".parquet"):
        table = pa.table({key: [getattr(entity, key) for entity in kb] for key in _SCHEMA.names}, _SCHEMA)
        write_whole(path, lambda partial: pq.write_table(table, partial))
    elif ".jsonl" in name:
        kb.to_jsonl(path)
    else:
        write_lines(("id\tname\taliases\tdefinition", *map(_row, kb)), path)
        lost = {
            "types": sum(len(entity.types) for entity in kb),
            "alternative ids": sum(len(entity.alternative_ids) for entity in kb),
            "xrefs": sum(len(entity.xrefs) for entity in kb),
            "domains": sum(entity.domain is not None for entity in kb),
            "aliases with a bar": sum("|" in alias for entity in kb for alias in entity.aliases),
        }
        return {what: count for what, count in lost.items() if count}
    return {}


def _row(entity: Entity) -> str:
    aliases = "|".join(alias for alias in entity.aliases if "|" not in alias)
    cells = [" ".join(cell.split()) for cell in (entity.id, entity.name, aliases, entity.definition or "")]
    if cells[0] != entity.id:
        raise DataError("TSV cannot hold the white space in this id; write .jsonl", id=entity.id)
    return "\t".join(cells)
