"""The documents and mentions of a run as tables, from which the run is described."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import Corpus
from arbo.data.arrow import numbers, strings
from arbo.data.tables import Tables, with_names
from arbo.engine import Ids

_TEXT = pa.large_string()
_ESCAPED = r"[^ !#-\[\]-~]"
"""The characters that `json.dumps` escapes."""
_MAY_BE_ESCAPED = np.array([not (32 <= byte < 127) or chr(byte) in '"\\' for byte in range(256)])
"""(256,) whether a byte belongs to such a character."""
_TOGETHER = 1 << 12
"""Number of documents that are hashed at once, so that little of their JSON is in memory."""
_Parts: TypeAlias = list[pa.Array | str]
"""Strings that are joined row by row; one `str` is the same in all rows."""


class Content(NamedTuple):
    """The documents and mentions of a run, and what else its manifest says of them."""

    documents: pa.Table
    mentions: pa.Table
    """The table of `mention_table`, without the entities of the gold ids."""
    order: Ids
    """(mentions,) the rows of the mentions in the order in which they were searched."""
    sizes: Ids
    """(documents,) the number of mentions of each."""
    notes: Mapping[str, int]
    index_names: Mapping[str, str | None]

    @classmethod
    def of(cls, corpus: Corpus, names: Sequence[str], order: Ids) -> Self:
        """Return the content of documents, with the names of mentions that are compared."""
        documents, mentions, sizes = corpus.tables or Tables.of(corpus.documents)
        return cls(documents, with_names(mentions, names), order, sizes, corpus.notes, corpus.index_names)

    @property
    def fingerprint(self) -> str:
        """The `fingerprint` of the corpus."""
        digest, start = hashlib.sha256(), np.append(0, np.cumsum(self.sizes))
        for begin in range(0, len(self.sizes), _TOGETHER):
            end = min(begin + _TOGETHER, len(self.sizes))
            documents = self.documents.slice(begin, end - begin).combine_chunks()
            mentions = self.mentions.slice(start[begin], start[end] - start[begin]).combine_chunks()
            lists = _lists(_mentions_as_json(mentions), self.sizes[begin:end])
            id_, text = (_as_json(documents[name]) for name in ("document_id", "text"))
            lines = _joined("[", *id_, ", ", *text, ", ", lists, *_further(documents["domain"]), "]\n")
            digest.update(_bytes_of(lines).data)
        return digest.hexdigest()


def _mentions_as_json(table: pa.Table) -> pa.Array:
    """Return each mention as `Corpus.fingerprint` writes it."""
    spans, gold = (table[name].combine_chunks() for name in ("spans", "gold"))
    start, end = (spans.flatten().field(name).cast(_TEXT) for name in ("start", "end"))
    where = _lists(_joined("[", start, ", ", end, "]"), _lengths(spans))
    id_, document, text, type_ = (_as_json(table[name]) for name in ("mention_id", "document_id", "text", "type"))
    ids: _Parts = ["null"]
    if gold.null_count < len(gold):
        lists = _lists(_joined(*_as_json(gold.flatten())), _lengths(gold))
        ids = [pc.if_else(gold.is_null(), _constant("null"), lists)]
    cluster = _further(table["cluster"]) if "cluster" in table.column_names else []
    return _joined("[", *id_, ", ", *document, ", ", where, ", ", *text, ", ", *type_, ", ", *ids, *cluster, "]")


def _constant(text: str) -> pa.Scalar:
    """Return a string for functions of columns; `pyarrow.scalar` would import pandas."""
    return strings([text], _TEXT)[0]


def _lengths(lists: pa.ListArray) -> Ids:
    """Return the number of items of each list; 0 for null."""
    lengths = pc.coalesce(pc.list_value_length(lists), numbers(np.zeros(1, np.int32))[0])
    return np.from_dlpack(lengths).astype(np.int64)


def _lists(items: pa.Array, lengths: Ids) -> pa.Array:
    """Return the JSON arrays of items that follow each other, so many in each array."""
    start = np.append(0, np.cumsum(lengths, dtype=np.int64))
    return _joined("[", pc.binary_join(pa.LargeListArray.from_arrays(numbers(start), items), _constant(", ")), "]")


def _joined(*parts: pa.Array | str) -> pa.Array:
    """Return strings joined row by row; null if one is null."""
    return pc.binary_join_element_wise(*(_constant(part) if isinstance(part, str) else part for part in (*parts, "")))


def _as_json(column: pa.Array | pa.ChunkedArray) -> _Parts:
    """Return the parts of strings as JSON; null as ``null``."""
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if len(column) and column.null_count == len(column):
        return ["null"]
    column = column.cast(_TEXT)
    is_plain = not _MAY_BE_ESCAPED[_bytes_of(column)].any()
    if is_plain and not column.null_count:
        return ['"', column, '"']
    quoted = _joined('"', column, '"')
    if not is_plain:
        is_escaped = pc.match_substring_regex(column, _ESCAPED)  # null for null, which stays null
        escaped = strings([json.dumps(value) for value in column.filter(is_escaped).to_pylist()], _TEXT)
        quoted = pc.replace_with_mask(quoted, is_escaped, escaped)
    return [pc.fill_null(quoted, _constant("null"))]


def _further(column: pa.ChunkedArray) -> _Parts:
    """Return the parts of strings as a further item of a JSON array; null as nothing."""
    if column.null_count == len(column):
        return []
    return [pc.if_else(column.combine_chunks().is_null(), _constant(""), _joined(", ", *_as_json(column)))]


def _bytes_of(column: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of long strings, one after the other."""
    _, start, content = column.buffers()
    if not len(column) or content is None:
        return np.empty(0, np.uint8)
    start = np.frombuffer(start, np.int64)[column.offset :]
    return np.frombuffer(content, np.uint8)[start[0] : start[len(column)]]
