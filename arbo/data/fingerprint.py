"""The fingerprint of documents: a hash of ids, texts, mentions (without scores and metadata) and domains, in order."""

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import numbers
from arbo.data.tables import Tables

_OF_DOCUMENTS = "document_id", "domain", "text"
_OF_MENTIONS = "mention_id", "spans", "text", "type", "gold", "cluster"


def fingerprint_of(tables: Tables) -> str:
    """Return the SHA-256 of the columns of documents and mentions, some thousand documents at a time.

    It depends on values alone: not on chunks, nor on whether a column without a value is null or missing.
    """
    digest = hashlib.sha256()
    for part in tables.parts():
        digest.update(part.sizes.astype(np.int64).data)
        for table, names in ((part.documents, _OF_DOCUMENTS), (part.mentions, _OF_MENTIONS)):
            for name in names:
                if name in table.column_names and table[name].null_count < len(table):
                    digest.update(name.encode("ascii"))
                    _update(digest, table[name].combine_chunks())
    return digest.hexdigest()


def _update(digest: Any, column: pa.Array) -> None:
    """Hash the lengths of lists and strings, -1 for null, and what they consist of."""
    if pa.types.is_struct(column.type):
        for place in range(column.type.num_fields):
            _update(digest, column.field(place))
    elif pa.types.is_list(column.type):
        digest.update(_lengths(pc.list_value_length(column)))
        _update(digest, column.flatten())
    elif pa.types.is_integer(column.type):
        digest.update(np.from_dlpack(column).astype(np.int64).data)
    else:
        digest.update(_lengths(pc.binary_length(column)))
        strings = column.drop_null().cast(pa.large_string())
        _, offsets, content = strings.buffers()
        if len(strings) and content is not None:
            start = np.frombuffer(offsets, np.int64)[strings.offset :]
            digest.update(memoryview(content)[start[0] : start[len(strings)]])


def _lengths(lengths: pa.Array) -> Any:
    return np.from_dlpack(pc.coalesce(lengths.cast(pa.int64()), numbers(np.full(1, -1, np.int64))[0])).data
