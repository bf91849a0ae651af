"""Documents and their mentions as tables, of which objects are made when somebody holds one.

The columns are those of `MentionRow` and `DocumentRow` in `arbo.results.schema`, but for ``gold_entities``, which only
runs have, and ``expansion``, which `with_expansions` adds. Those in `OPTIONAL` are missing if they have no value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from operator import itemgetter
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import json_strings, numbers, parsed, rows_among, starts, strings, views
from arbo.data.documents import Document, Mention
from arbo.engine import Bools, Ids, ranges
from arbo.errors import DataError, UsageError
from arbo.text.abbreviations import expander

PLACEHOLDERS = pa.array(["-", "--", "?", "n/a", "na", "nan", "nil", "none", "null", "tbd", "unknown"])
"""What stands for no name in a list, and for no id."""
_SPANS = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))
_OF_DOCUMENTS = {
    "document_id": ("id", pa.string()),
    "domain": ("domain", pa.string()),
    "text": ("text", pa.large_string()),
    "metadata": ("metadata", pa.large_string()),
}
_OF_MENTIONS = {
    "mention_id": ("id", pa.string()),
    "document_id": ("document_id", pa.string()),
    "spans": ("spans", _SPANS),
    "text": ("text", pa.string()),
    "type": ("type", pa.string()),
    "domain": ("", pa.string()),
    "gold": ("gold", pa.list_(pa.string())),
    "found_score": ("score", pa.float64()),
    "cluster": ("cluster", pa.string()),
    "metadata": ("metadata", pa.large_string()),
}
"""The columns, with their fields and types; the domain of a mention is that of its document."""
OPTIONAL = ("cluster", "metadata")  # columns that are missing if they have no value


# Without slots: cached properties keep their values in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class Tables:
    """Documents and their mentions."""

    documents: pa.Table
    mentions: pa.Table  # the mentions, in the order of the documents
    sizes: Ids  # (documents,) the number of mentions of each

    @classmethod
    def of(cls, documents: Sequence[Document]) -> Self:
        """Make the tables of documents; raise UsageError for anything else."""
        for other in (one for one in documents if not isinstance(one, Document)):
            raise UsageError(f"expected documents, not {type(other).__name__}; make them from dicts with Corpus.of")
        mentions = [mention for document in documents for mention in document.mentions]
        domains = [document.domain for document in documents for _ in document.mentions]
        sizes = np.array([len(document.mentions) for document in documents], np.int64)
        return cls(_table(documents, _OF_DOCUMENTS), _table(mentions, _OF_MENTIONS, domains), sizes)

    @classmethod
    def of_names(cls, labels: Sequence[str], names: Sequence[str], metadata: Sequence[str | None]) -> Self:
        """Make a document of each name, with a mention of the same id, and the metadata of mentions as JSON."""
        ids, text, n = strings(labels), strings(names), len(names)
        spans = pa.StructArray.from_arrays([numbers(np.zeros(n, np.int32)), pc.utf8_length(text)], ["start", "end"])
        rows = {name: pa.nulls(n, kind) for name, (_, kind) in _OF_MENTIONS.items() if name not in OPTIONAL}
        rows |= {"mention_id": ids, "document_id": ids, "text": text}
        rows["spans"] = pa.ListArray.from_arrays(starts(np.ones(n, np.int64)), spans)
        rows |= {"metadata": pa.array(metadata, pa.large_string())} if any(metadata) else {}
        texts = {"document_id": ids, "domain": pa.nulls(n, pa.string()), "text": text.cast(pa.large_string())}
        return cls(pa.table(texts), pa.table(rows), np.ones(n, np.int64))

    @classmethod
    def joined(cls, parts: Sequence["Tables"]) -> Self:
        """Join parts in order, without a copy: their columns have a chunk for each part."""
        documents, mentions = joined([part.documents for part in parts]), joined([part.mentions for part in parts])
        return cls(documents, mentions, np.concatenate([part.sizes for part in parts]))

    @cached_property
    def is_blank(self) -> Bools:
        """(mentions,) whether a name is white space or, in a list of names, stands for none."""
        names = self.mentions["text"]
        stands_for_none = np.asarray(pc.is_in(pc.utf8_lower(pc.utf8_trim_whitespace(names)), PLACEHOLDERS))
        counts = stands_for_none.any() and is_list_of_names(self)
        return np.asarray(pc.utf8_is_space(names)) | (counts & stands_for_none)

    @cached_property
    def first(self) -> Ids:
        """(documents,) the row of the first mention of each."""
        return np.asarray(np.cumsum(self.sizes) - self.sizes)

    @cached_property
    def home(self) -> Ids:
        """(mentions,) the row of the document of each."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def taken(self, rows: Ids) -> Self:
        """Return the documents in these rows, with their mentions."""
        mentions = ranges(self.first[rows], self.sizes[rows])
        return type(self)(_taken(self.documents, rows), _taken(self.mentions, mentions), self.sizes[rows])

    def of_mentions(self, chosen: Bools) -> Self:
        """Return all documents with the chosen mentions alone; ``chosen`` is of shape (mentions,)."""
        sizes = np.bincount(self.home[chosen], minlength=len(self.sizes))
        return type(self)(self.documents, _taken(self.mentions, np.flatnonzero(chosen)), sizes)

    def between(self, begin: int, length: int) -> Self:
        """Return so many documents from a row on."""
        sizes = self.sizes[begin : begin + length]
        mentions = self.mentions.slice(self.first[begin] if len(sizes) else 0, sizes.sum())
        return type(self)(self.documents.slice(begin, length), mentions, sizes)


def documents_of_rows(tables: Tables, begin: int, length: int) -> list[Document]:
    """Make at most so many documents from a row on."""
    part = tables.between(begin, length)
    columns = {field: cells_in(part.documents, name) for name, (field, _) in _OF_DOCUMENTS.items()}
    mentions, ends = mentions_in(part.mentions), zip(part.first.tolist(), part.sizes.tolist(), strict=True)
    columns["mentions"] = [tuple(mentions[first : first + size]) for first, size in ends]
    return views(Document, columns | {"metadata": parsed(columns["metadata"])})


def check_ids(tables: Tables) -> None:
    """Raise DataError if two documents, or two mentions, have the same id."""
    if (id_ := _repeated(tables.documents["document_id"])) is not None:
        raise DataError("two documents have this id; change one", id=id_)
    if (id_ := _repeated(tables.mentions["mention_id"])) is not None:
        raise DataError("two mentions have this id; change one, or leave the ids out and arbo will make them", id=id_)


def _repeated(ids: pa.ChunkedArray) -> str | None:
    n_distinct = pc.count_distinct(ids).as_py()
    pa.default_memory_pool().release_unused()  # as large as all ids
    if n_distinct == len(ids):
        return None
    counts = ids.value_counts()
    return str(counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True).as_py()])


def rows_with(ids: Iterable[str], column: pa.ChunkedArray) -> dict[str, int]:
    """Return the rows of the ids that a column has, in the order of the column."""
    some = [id_ for id_ in dict.fromkeys(ids) if isinstance(id_, str) and id_.encode("utf-8", "ignore").decode() == id_]
    rows = rows_among(pa.chunked_array([strings(some)]), column).tolist()
    return dict(sorted(((id_, row) for id_, row in zip(some, rows, strict=True) if row >= 0), key=itemgetter(1)))


def _taken(table: pa.Table, rows: Ids) -> pa.Table:
    """Return these rows of a table, without optional columns that have no value."""
    if not np.array_equal(rows, np.arange(len(table))):
        table = table.take(numbers(rows))
    empty = [name for name in OPTIONAL if name in table.column_names and table[name].null_count == len(table)]
    return table.drop_columns(empty)


def with_expansions(tables: Tables, *, expand: bool, kb: Any = None) -> Tables:
    """Return the tables with the column ``expansion``: the names that are compared where they are not the text.

    With ``expand``, abbreviations that a document defines are replaced by their long forms, but not in a text with a
    bracket that is a name of the knowledge base, such as "D-alanine (Ala)". An expansion that is there already stays.
    """
    mentions, expansions, bracketed = tables.mentions, dict[int, str](), dict[int, str]()
    if expand and len(mentions):
        is_open = pc.match_substring_regex(tables.documents["text"], r"[(\[]").to_numpy()  # others define nothing
        documents = np.flatnonzero(is_open & (tables.sizes > 0))
        if "row" in mentions.column_names:  # rows of a run are expanded
            is_new = np.bincount(tables.home[mentions["row"].is_null().to_numpy()], minlength=len(tables.sizes)) > 0
            documents = documents[is_new[documents]]
        for document in documents.tolist():
            write_out = expander(tables.documents["text"][document].as_py())
            begin, size = int(tables.first[document]), int(tables.sizes[document])
            for row, text in enumerate(mentions["text"].slice(begin, size).to_pylist(), begin):
                if (name := write_out(text)) != text:
                    expansions[row] = name
                    if "(" in text or "[" in text:
                        bracketed[row] = text
    if bracketed and kb:
        names = kb.names().names.array
        for row in compress(bracketed, pc.is_in(pa.array([*bracketed.values()], names.type), names).to_pylist()):
            del expansions[row]
    at = np.full(len(mentions), -1)
    at[[*expansions]] = np.arange(len(expansions))
    made = strings([*expansions.values()]).take(numbers(at, missing=at < 0))
    if "expansion" in mentions.column_names:
        made = pc.coalesce(made, mentions["expansion"])
        mentions = mentions.drop_columns(["expansion"])
    return replace(tables, mentions=mentions.add_column(4, "expansion", made))


def names_in(mentions: pa.Table) -> pa.ChunkedArray:
    """Return the name of each mention of a table that is compared."""
    return pc.coalesce(mentions["expansion"], mentions["text"])


def blank_notes(tables: Tables) -> dict[str, int]:
    """Return a note with the number of blank mentions; {} without any."""
    n = int(tables.is_blank.sum())
    return {"blank names, compared with nothing": n} if n else {}


def is_list_of_names(tables: Tables) -> bool:
    """Return whether there are documents, and each is a name without a context, as far as their texts are known."""
    names = tables.mentions["text"]
    texts = tables.documents["text"] if "text" in tables.documents.column_names else names
    return bool((tables.sizes == 1).all()) and bool(pc.all(pc.equal(texts, names)).as_py())


def _table(objects: Sequence[Any], columns: Mapping[str, tuple[str, pa.DataType]], domains: Any = ()) -> pa.Table:
    """Make the table of documents, or of mentions, whose ``domains`` are given."""
    made = {}
    for name, (field, kind) in columns.items():
        values = [getattr(one, field) for one in objects] if field else domains
        if name not in OPTIONAL or any(values):
            made[name] = json_strings(values) if name == "metadata" else pa.array(values, kind)
    return pa.table(made)


def mentions_in(table: pa.Table) -> list[Mention]:
    """Return the mentions of a table, of a corpus or a run."""
    columns = {field: cells_in(table, name) for name, (field, _) in _OF_MENTIONS.items() if field}
    columns["spans"] = [tuple((one["start"], one["end"]) for one in spans) for spans in columns["spans"]]
    columns["gold"] = [None if ids is None else tuple(ids) for ids in columns["gold"]]
    return views(Mention, {**columns, "metadata": parsed(columns["metadata"])})


def metadata_in(table: pa.Table) -> list[dict[str, Any]]:
    """Return the metadata of documents or mentions: columns or keys of the input that arbo does not know."""
    return parsed(cells_in(table, "metadata"))


def cells_in(table: pa.Table, name: str) -> list[Any]:
    """Return the values of a column; missing ones if the table does not have it."""
    return table[name].to_pylist() if name in table.column_names else [None] * len(table)


def labels_in(mentions: pa.Table) -> list[list[str] | None]:
    """Return the `Mention.labels` of each row of a table of mentions."""
    both = zip(mentions["gold"].to_pylist(), cells_in(mentions, "cluster"), strict=True)
    return [ids if ids or name is None else [name] for ids, name in both]


def numbered(mentions: pa.Table) -> Ids:
    """Return the rows of the mentions by document id, spans and mention id, as `Corpus.order` does."""
    home = mentions["document_id"].dictionary_encode().combine_chunks()
    if len(home.dictionary) == len(home):  # as of names alone
        return np.asarray(pc.array_sort_indices(home.dictionary), np.int64)
    spans = mentions["spans"].combine_chunks()
    length, start = pc.list_value_length(spans).to_numpy(), spans.offsets.to_numpy()[:-1]
    begin, end = (spans.values.field(name).to_numpy() for name in ("start", "end"))
    order = np.asarray(pc.sort_indices(mentions["mention_id"]), np.int64)
    for place in reversed(range(length.max(initial=0))):  # a mention may have thousands of spans, but few have two
        has_it = length[order] > place
        at = start[order[has_it]] + place
        order = np.concatenate([order[~has_it], order[has_it][np.lexsort((end[at], begin[at]))]])
    rank = pc.rank(home.dictionary, tiebreaker="dense").to_numpy()  # few are distinct
    return order[np.argsort(rank[home.indices.to_numpy()][order], kind="stable")]


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables with all their columns, in the order of the widest, with those in `OPTIONAL` last."""
    widest = max(parts, key=lambda part: part.num_columns)
    types = {field.name: field.type for part in (widest, *parts) for field in part.schema}
    names = sorted(types, key=lambda name: (name in OPTIONAL, OPTIONAL.index(name) if name in OPTIONAL else 0))
    same = [part.cast(pa.schema([(name, types[name]) for name in part.column_names])) for part in parts]
    return pa.concat_tables(same, promote_options="default").select(names)
