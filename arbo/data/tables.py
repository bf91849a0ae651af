"""Documents and their mentions as tables, which take a fifth of the memory of objects.

``mentions``: ``mention_id, document_id, spans`` (list of start and end in characters, from 0, the end excluded),
``text, type, domain, gold`` (ids as annotated; null without an annotation), ``found_score`` (score of a found mention,
else null), and ``cluster``, the gold cluster, if any mention has one. ``documents``: ``document_id, domain, text``. The
column ``metadata`` of both holds further columns or keys as a JSON object; it is missing if there are none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import numbers, starts, string_lists, strings
from arbo.data.documents import Document, Mention
from arbo.errors import DataError
from arbo.text.checks import Span

Ints = npt.NDArray[np.int64]

OPTIONAL = ("cluster", "metadata")
"""Columns that are missing if they have no value."""
_TOGETHER = 1 << 12
"""Number of documents that are read from tables at a time."""


class Tables(NamedTuple):
    """Documents and their mentions."""

    documents: pa.Table
    mentions: pa.Table
    """The mentions, in the order of the documents."""
    sizes: Ints
    """(documents,) the number of mentions of each."""

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Self:
        """Make the tables of documents."""
        sizes = np.array([len(document.mentions) for document in documents], np.int64)
        return cls(document_table(documents), mention_table(documents), sizes)

    @classmethod
    def joined(cls, parts: Iterable[Tables]) -> Self:
        """Join parts in order, without a copy: their columns have a chunk for each part."""
        documents, mentions, sizes = zip(*parts, strict=True)
        return cls(joined(documents), joined(mentions), np.concatenate(sizes))

    def of_mentions(self, chosen: pa.ChunkedArray) -> Self:
        """Return all documents with the chosen mentions alone; ``chosen`` is true, false or null for each mention."""
        home = np.repeat(np.arange(len(self.sizes)), self.sizes)
        sizes = np.bincount(home[pc.fill_null(chosen, False).to_numpy()], minlength=len(self.sizes))
        return type(self)(self.documents, without_empty(self.mentions.filter(chosen)), sizes)

    def with_ids(self, ids: Iterable[str]) -> Iterator[Document]:
        """Yield the documents with these ids, in their own order; unknown ids are left out."""
        is_wanted = pc.is_in(self.documents["document_id"], strings([*ids])).to_numpy()
        rows, first = np.flatnonzero(is_wanted), np.cumsum(self.sizes) - self.sizes
        for row, begin, size in zip(rows.tolist(), first[rows].tolist(), self.sizes[rows].tolist(), strict=True):
            yield from documents_in(self.documents.slice(row, 1), self.mentions.slice(begin, size).to_pylist())

    def between(self, begin: int, length: int, first: int | None = None) -> Self:
        """Return so many documents from a row on; ``first`` is the row of their first mention, if it is known."""
        sizes = self.sizes[begin : begin + length]
        mentions = self.mentions.slice(self.sizes[:begin].sum() if first is None else first, sizes.sum())
        return type(self)(self.documents.slice(begin, length), mentions, sizes)

    def parts(self) -> Iterator[Self]:
        """Yield some thousand documents at a time."""
        first = np.cumsum(self.sizes) - self.sizes
        yield from (self.between(begin, _TOGETHER, first[begin]) for begin in range(0, len(first), _TOGETHER))

    def each(self) -> Iterator[Document]:
        """Yield the documents; some thousand of them are objects at a time."""
        return chain.from_iterable(documents_in(part.documents, part.mentions.to_pylist()) for part in self.parts())


def mention_table(documents: Iterable[Document]) -> pa.Table:
    """Make the table of the mentions of documents, one row for each."""
    pairs = [(document, mention) for document in documents for mention in document.mentions]
    mentions = [mention for _, mention in pairs]
    clusters, scores = [m.cluster for m in mentions], [m.score for m in mentions]
    missing = np.array([score is None for score in scores], np.bool_)
    return pa.table(
        {
            "mention_id": strings([m.id for m in mentions]),
            "document_id": strings([m.document_id for m in mentions]),
            "spans": _spans([m.spans for m in mentions]),
            "text": strings([m.text for m in mentions]),
            "type": strings([m.type for m in mentions]),
            "domain": strings([document.domain for document, _ in pairs]),
            "gold": string_lists([m.gold for m in mentions]),
            "found_score": numbers(np.array(scores, np.float64), missing=missing),
            **({"cluster": strings(clusters)} if any(clusters) else {}),
            **_metadata(mentions),
        }
    )


def document_table(documents: Sequence[Document]) -> pa.Table:
    """Make the table of documents."""
    return pa.table(
        {
            "document_id": strings([document.id for document in documents]),
            "domain": strings([document.domain for document in documents]),
            "text": strings([document.text for document in documents], pa.large_string()),
            **_metadata(documents),
        }
    )


def with_names(mentions: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the table with the column ``expansion``: the names that are compared where they are not the text."""
    remaining = iter(names)
    pairs = (zip(part.to_pylist(), islice(remaining, len(part)), strict=True) for part in mentions["text"].chunks)
    parts = [strings([None if text == name else name for text, name in some]) for some in pairs]
    expansion = pa.chunked_array(parts, pa.string())
    return mentions.add_column(mentions.column_names.index("text") + 1, "expansion", expansion)


def _metadata(items: Sequence[Document | Mention]) -> dict[str, pa.Array]:
    stored = [json.dumps(item.metadata, ensure_ascii=False) if item.metadata else None for item in items]
    return {"metadata": strings(stored, pa.large_string())} if any(stored) else {}


def _spans(spans: Sequence[Sequence[Span]]) -> pa.Array:
    ends = np.array([*chain.from_iterable(spans)], np.int32).reshape(-1, 2)
    pairs = pa.StructArray.from_arrays([numbers(ends[:, 0]), numbers(ends[:, 1])], ["start", "end"])
    return pa.ListArray.from_arrays(starts(np.array([*map(len, spans)], np.int32)), pairs)


def documents_in(documents: pa.Table, mentions: list[dict[str, Any]]) -> Iterator[Document]:
    """Yield the documents in a table, with the mentions in rows of a table of mentions."""
    of = {name: tuple(own) for name, own in groupby(map(mention_in, mentions), attrgetter("document_id"))}
    for row in documents.to_pylist():
        yield Document(row["document_id"], row["text"], of.get(row["document_id"], ()), row["domain"], metadata_of(row))


def mention_in(row: Mapping[str, Any]) -> Mention:
    """Return the mention that a row of a table of mentions describes."""
    return Mention(
        row["mention_id"],
        row["document_id"],
        tuple((span["start"], span["end"]) for span in row["spans"]),
        row["text"],
        row["type"],
        None if row["gold"] is None else tuple(row["gold"]),
        row["found_score"],
        metadata_of(row),
        row.get("cluster"),  # missing if no mention has a gold cluster
    )


def metadata_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a mention or document of a run: columns or keys of the input that arbo does not know."""
    return object_in(row.get("metadata"))


def object_in(text: str | None) -> dict[str, Any]:
    """Return the JSON object in a cell of the column ``metadata``; raise DataError if there is none."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError("the metadata are not a JSON object; run the job again", file="the run")
    return value


def labels_in(mentions: pa.Table) -> list[list[str] | None]:
    """Return the `Mention.labels` of each row of a table of mentions."""
    gold = mentions["gold"].to_pylist()
    clusters = mentions["cluster"].to_pylist() if "cluster" in mentions.column_names else [None] * len(gold)
    return [ids if ids or name is None else [name] for ids, name in zip(gold, clusters, strict=True)]


def numbered(mentions: pa.Table) -> Ints:
    """Return the rows of the mentions by document id, spans and mention id, as `Corpus.order` does."""
    spans = mentions["spans"].combine_chunks()
    length, start = pc.list_value_length(spans).to_numpy(), spans.offsets.to_numpy()[:-1]
    flat = np.column_stack([spans.values.field(name).to_numpy() for name in ("start", "end")])
    home = mentions["document_id"].dictionary_encode().combine_chunks()
    rank = pc.rank(home.dictionary, tiebreaker="dense").to_numpy()  # few are distinct
    keys = [rank[home.indices.to_numpy()]]
    for place in range(length.max(initial=0)):
        there = flat[np.minimum(start + place, len(flat) - 1)]
        keys += list(np.where(place < length[:, None], there, -1).T)
    if len(first := _documents_in_order(keys)) == len(rank):
        by = np.argsort(keys[0][first])
        size = np.diff(first, append=len(keys[0]))[by]
        in_order: Ints = np.arange(len(keys[0])) + np.repeat(first[by] - np.cumsum(size) + size, size)
        return in_order
    order: Ints = np.lexsort(keys[::-1])
    if np.logical_and.reduce([key[order[1:]] == key[order[:-1]] for key in keys]).any():  # two in the same place
        keys.append(pc.rank(mentions["mention_id"], tiebreaker="dense").to_numpy())
        order = np.lexsort(keys[::-1])
    return order


def _documents_in_order(keys: Sequence[npt.NDArray[Any]]) -> Ints:
    """Return the first row of each stretch of one document; none if any stretch is not in the order of its spans."""
    same = keys[0][1:] == keys[0][:-1]
    follows, first = ~same, np.flatnonzero(np.append(True, ~same))
    for key in keys[1:]:
        follows |= same & (key[1:] > key[:-1])
        same &= key[1:] == key[:-1]
    return first if follows.all() else first[:0]


def without_empty(table: pa.Table) -> pa.Table:
    """Return a table without the columns in `OPTIONAL` that have no value."""
    empty = [name for name in OPTIONAL if name in table.column_names and table[name].null_count == len(table)]
    return table.drop_columns(empty)


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables with the columns of the last, and with those in `OPTIONAL` that one of them has."""
    last = parts[-1]
    types = {field.name: field.type for part in parts for field in part.schema}
    some = [name for name in OPTIONAL if name in types]
    names = [*(name for name in last.column_names if name not in OPTIONAL), *some]
    there = [[name for name in names if name in part.column_names] for part in parts]
    same = [
        part.select(own).cast(pa.schema([(name, types[name]) for name in own]))
        for part, own in zip(parts, there, strict=True)
    ]
    return pa.concat_tables(same, promote_options="default").select(names)
