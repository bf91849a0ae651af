"""Write a knowledge base to a file, in the format of its ending.

JSON lines hold everything, and Parquet all but further keys (`metadata`). TSV holds the id, the name, aliases without a
`|`, and the definition; its readers drop white space around a value.
"""

from itertools import chain
from os import fspath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from arbo.data import KnowledgeBase
from arbo.data.entity_table import CONTENT
from arbo.errors import DataError
from arbo.files import PathLike, write_whole
from arbo.formats.table import write_tsv

ENDINGS = (".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz", ".parquet")
_OF_TSV = ["id", "name", "aliases", "definition"]


def save(kb: KnowledgeBase, path: PathLike) -> dict[str, int]:
    """Write a knowledge base to a path with one of `ENDINGS`; return counts of the values that the format cannot hold.

    Raise UsageError if the file cannot be written, DataError for an id with white space around it in TSV.
    """
    name = fspath(path).lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        kb.to_jsonl(path)
        return {}
    table = pa.table(kb.taken(CONTENT, np.arange(len(kb))), CONTENT)
    lost = {"further keys": sum(len(metadata) for (metadata,) in kb.columns("metadata"))}
    if name.endswith(".parquet"):
        write_whole(path, lambda partial: pq.write_table(table, partial))
    else:
        columns: dict[str, list[Any]] = table.to_pydict()
        if blank := next((id_ for id_ in columns["id"] if id_ != id_.strip()), None):
            raise DataError("TSV cannot hold the white space around this id; write .jsonl", id=blank)
        every = columns["aliases"]
        aliases = [[alias for alias in some if "|" not in alias] for some in every]
        column = pa.array(aliases, table["aliases"].type)
        write_tsv(pa.table([table["id"], table["name"], column, table["definition"]], _OF_TSV), path)
        texts = chain(columns["name"], *aliases, table["definition"].drop_null().to_pylist())
        lost |= {key.replace("_", " "): sum(map(len, columns[key])) for key in ("types", "alternative_ids", "xrefs")}
        lost |= {
            "domains": sum(domain is not None for domain in columns["domain"]),
            "aliases with a bar": sum("|" in alias for alias in chain(*every)),
            "empty texts or blanks around a text": sum(not text or text != text.strip() for text in texts),
        }
    return {what: count for what, count in lost.items() if count}
