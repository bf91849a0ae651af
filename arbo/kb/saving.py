"""Write a knowledge base to a file, in the format of its ending.

JSON lines hold everything, and Parquet all but further keys (`metadata`). TSV holds the id, the name, aliases without a
`|`, and the definition; its readers drop white space around a value.
"""

from dataclasses import fields
from itertools import chain
from os import fspath

import pyarrow as pa
import pyarrow.parquet as pq

from arbo.data import Entity, KnowledgeBase
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, write_whole
from arbo.formats.table import write_tsv

ENDINGS = (".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz", ".parquet")
_TYPES = {"tuple[str, ...]": pa.list_(pa.string())}
_SCHEMA = pa.schema(
    [(field.name, _TYPES.get(str(field.type), pa.string())) for field in fields(Entity) if field.compare]
)
_OF_TSV = pa.schema([_SCHEMA.field(name) for name in ("id", "name", "aliases", "definition")])


def save(kb: KnowledgeBase, path: PathLike) -> dict[str, int]:
    """Write a knowledge base; return counts of the values that the format cannot hold.

    Raises:
        UsageError: the ending is not one of `ENDINGS`, or the file cannot be written.
        DataError: TSV cannot hold an id.
    """
    name = fspath(path).lower()
    if not name.endswith(ENDINGS):
        raise UsageError(f"{fspath(path)}: the file's ending must be one of {', '.join(ENDINGS)}")
    if name.endswith((".jsonl", ".jsonl.gz")):
        kb.to_jsonl(path)
        return {}
    columns = {key: [getattr(entity, key) for entity in kb] for key in _SCHEMA.names}
    lost = {"further keys": sum(len(entity.metadata) for entity in kb)}
    if name.endswith(".parquet"):
        table = pa.table(columns, _SCHEMA)
        write_whole(path, lambda partial: pq.write_table(table, partial))
    else:
        if blank := next((id_ for id_ in columns["id"] if id_ != id_.strip()), None):
            raise DataError("TSV cannot hold the white space around this id; write .jsonl", id=blank)
        every = columns["aliases"]
        columns["aliases"] = [[alias for alias in aliases if "|" not in alias] for aliases in every]
        write_tsv(pa.table({key: columns[key] for key in _OF_TSV.names}, _OF_TSV), path)
        definitions = (text for text in columns["definition"] if text is not None)
        texts = chain(columns["name"], *columns["aliases"], definitions)
        lost |= {
            "types": sum(map(len, columns["types"])),
            "alternative ids": sum(map(len, columns["alternative_ids"])),
            "xrefs": sum(map(len, columns["xrefs"])),
            "domains": sum(domain is not None for domain in columns["domain"]),
            "aliases with a bar": sum("|" in alias for alias in chain(*every)),
            "empty texts or blanks around a text": sum(not text or text != text.strip() for text in texts),
        }
    return {what: count for what, count in lost.items() if count}
