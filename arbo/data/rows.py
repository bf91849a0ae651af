"""Rows in memory: dicts, a pandas or polars frame, an Arrow table, a Hugging Face `Dataset`, or names alone.

A row is a document or an entity with the keys of arbo's JSON lines (see `arbo.formats.jsonl`), or a mention. An empty
cell (None, NaN) counts as a missing key, and an array as a list. Further columns are kept as metadata. So is the index
of a pandas frame, under the names that `frame.reset_index()` gives it; a default index is kept only if the rows are
mentions or names. Errors count rows from 0, as `frame.iloc` and `dataset[...]` do; errors in rows of files name the
file and the line or row. A name alone, without a text, becomes a document whose only mention is the whole name.

A mention needs the columns in `REQUIRED`. `entity` holds the gold id, or several separated by `|`; `entities` holds a
list of gold ids, and an empty list means NIL. A mention without either is not annotated. `cluster` holds the gold
cluster, `score` the score of the finder that found the mention. `mention_text` is compared with the text at the
offsets. `domain` is the domain of the document.
The rows of a document need not be adjacent, and only the first row needs its text and domain. A row without start and
end stands for the document itself, for example a document without mentions. Further columns become the metadata of the
mention or, in a row without start and end, of the document; so do `cluster` and `score` in such a row.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import tee
from math import isnan
from typing import Any

from arbo.data import objects
from arbo.data.arrow import parsed
from arbo.data.documents import Document, Entity, Marked, Mention, marked_mention
from arbo.data.gold_ids import ids_in
from arbo.data.records import Item, OnError, Records
from arbo.data.spacy_docs import docs_in, document_of_doc, is_doc
from arbo.data.tables import Tables, blank_notes
from arbo.errors import DataError, UsageError, listed
from arbo.text.checks import check_spans, check_text

Placed = tuple[str, Any]  # the place of a row, for errors, and the row, or a DataError if the row could not be read
Row = dict[str, Any]

REQUIRED = ("document_id", "text", "start", "end")

# 3.0 is a whole number too, since pandas makes floats of a column with an empty cell.
_OFFSET = objects.a_kind("a whole number", lambda v: type(v) is int or (isinstance(v, float) and v.is_integer()), int)
_OF_DOCUMENT: Mapping[str, objects.Convert] = dict.fromkeys(("document_id", "text", "domain"), objects.string)
_IN_ANY_ROW: dict[str, objects.Convert] = {**_OF_DOCUMENT, **dict.fromkeys(("start", "end"), _OFFSET)}
_IN_ANY_ROW |= dict.fromkeys(("mention_id", "mention_text", "type", "entity"), objects.string)
_IN_ANY_ROW["entities"] = objects.strings
COLUMNS: Mapping[str, objects.Convert] = {**_IN_ANY_ROW, "cluster": objects.string, "score": objects.number}

BLANK = " "  # the text of a missing name; blank names are never compared, so that each is a cluster of its own
_OF_DOCUMENTS = {"mentions", "document_id", "text"}
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def documents_in(table: Any, name: str | None) -> tuple[Any, dict[str, int] | None, dict[str, str | None]]:
    """Return the documents or tables of what `Corpus.of` takes, notes on names, and the `index_of` the frame."""
    items = items_of(table, "documents", "read_documents")
    columns = {*items[0]} if items and isinstance(items[0], Mapping) else None
    first = next((item for item in items if _plain(item) is not None), "" if items else None)
    if isinstance(first, str) or (hasattr(table, "iloc") and not hasattr(table, "columns")):  # names, or a Series
        tables, index = tables_of_names(table, items), index_of(table)
    elif columns is None:
        return [document_of_doc(str(row), item) if is_doc(item) else item for row, item in enumerate(items)], None, {}
    elif name is None or ((name == "text" or name not in columns) and _OF_DOCUMENTS & columns - {name}):
        return documents_of(placed(items)), None, index_of(table)
    else:
        table = table.reset_index() if hasattr(table, "iloc") and name not in table.columns else table
        tables, index = tables_of_column(table, items, name), index_of(table[name]) if hasattr(table, "iloc") else {}
    return tables, blank_notes(tables), index


def entities_in(table: Any) -> Iterable[Entity]:
    """Return the entities of what `KnowledgeBase.of` takes."""
    items = items_of(table, "entities", "read_knowledge_base")
    return entities_of(placed(items)) if items and isinstance(items[0], Mapping) else items


def items_of(table: Any, what: str, reader: str) -> list[Any]:
    """Return the rows of a frame, the `Doc`s of a `DocBin`, or the items of another iterable.

    Raise UsageError for anything else, such as a path, or a mapping or a `Doc` of spaCy, which are one item. Raise
    DataError if a pandas frame has two columns of the same name.
    """
    for method in ("to_pylist", "to_dicts"):  # of Arrow, and of polars
        if hasattr(table, method):
            return list(getattr(table, method)())
    if hasattr(table, "to_dict") and hasattr(table, "columns"):  # pandas, which iterates over its columns
        if len(again := table.columns[table.columns.duplicated()]):
            raise DataError(f"the frame has several columns named {again[0]!r:.60}; rename or drop all but one")
        return list((table.reset_index() if index_of(table) else table).to_dict("records"))
    if hasattr(table, "get_docs"):  # a DocBin of spaCy
        return docs_in(table)
    if isinstance(table, Iterable) and not is_doc(table) and not isinstance(table, (str, bytes, Mapping)):
        return list(table)
    remedy = f"read files with arbo.{reader}, put a single item into a list, or choose one split of a DatasetDict"
    raise UsageError(f"expected {what}, not {type(table).__name__}; {remedy}")


def index_of(table: Any) -> dict[str, str | None]:
    """Map the metadata keys that hold the index of a pandas frame or Series to the names of its levels."""
    if not hasattr(table, "iloc"):
        return {}
    frame = table if hasattr(table, "columns") else table.to_frame("")
    says_more = {"document_id", ""} & set(frame.columns) or type(frame.index).__name__ != "RangeIndex"
    if not says_more or set(frame.index.names) & set(frame.columns):
        return {}
    return dict(zip(map(str, frame.iloc[:0].reset_index().columns), frame.index.names, strict=False))


def placed(items: Iterable[Any]) -> list[Placed]:
    """Return items in memory with their places."""
    return [(f"row {number}", item) for number, item in enumerate(items)]


def tables_of_column(table: Any, rows: Sequence[Any], name: str) -> Tables:
    """Make documents from the names in a column, see `tables_of_names`, with ids in a column ``id``.

    Further columns become metadata of mentions; ``rows`` are those of the table. Raise UsageError without the column.
    """
    if not any(isinstance(row, Mapping) and name in row for row in rows):
        known = listed((str(key) for row in rows[:1] if isinstance(row, Mapping) for key in row), 20)
        raise UsageError(f"there is no column {name!r}; the columns are: {known or 'none'}")
    plain = [_plain(row) for row in rows]
    own = {"id", name, *index_of(table)}
    further = [{str(key): cell for key, cell in row.items() if key not in own} for row in plain]
    series = table[name] if hasattr(table, "iloc") else None
    return tables_of_names(series, [row.get(name) for row in plain], [row.get("id") for row in plain], further)


def tables_of_names(table: Any, names: Sequence[Any], ids: Sequence[Any] = (), further: Sequence[Row] = ()) -> Tables:
    """Make a document from each name, with one mention of the same id; a missing name becomes a blank one.

    The ids are ``ids`` if all are there and distinct, or else the labels of a Series if they are unique, or else the
    rows. Raise DataError for a name that is no string, or not storable.
    """
    labels, metadata = _labels(table, len(names))
    names = [name or BLANK if isinstance(name, str) else BLANK if _plain(name) is None else name for name in names]
    for row in () if are_storable(names) and are_storable(labels) else range(len(names)):
        if type(names[row]) in (int, float):
            raise DataError(f"row {row}: {_number_as_id('name')}", id=labels[row])
        check_text(names[row], f"the name in row {row}", of=labels[row])
        check_text(labels[row], f"the id of row {row}")
    own = [*map(str, ids)]
    if {*map(type, ids)} <= {str, int} and len({*own}) == len(names) and all(map(str.strip, own)) and are_storable(own):
        labels = own
    if further:
        kept = parsed(metadata) if any(metadata) else [{}] * len(names)
        encode = json.JSONEncoder(default=objects.written).encode
        metadata = [encode({**row, **more}) if row or more else None for row, more in zip(kept, further, strict=True)]
    return Tables.of_names(labels, names, metadata)


def are_storable(texts: Sequence[Any]) -> bool:
    """Return whether all are strings that can be stored."""
    if not {*map(type, texts)} <= {str}:
        return False
    text = "".join(texts)
    return "\0" not in text and (text.isascii() or not _SURROGATE.search(text))


def _labels(table: Any, n: int) -> tuple[list[str], list[str | None]]:
    """Return an id for each row of a Series or a list, and the metadata that keep the labels of a Series."""
    if not (keys := index_of(table)):
        return list(map(str, range(n))), [None] * n
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    values, cells = list[list[Any]](), list[list[str]]()
    for place, key in enumerate(keys):
        level, head = table.index.get_level_values(place).tolist(), f"{encode(key)}: "
        written = [*map(repr if {*map(type, level)} == {int} else encode, level)]
        values.append(level if {*map(type, level)} <= {int, str} else [*map(json.loads, written)])
        cells.append(["" if cell in ("null", "NaN", "Infinity", "-Infinity") else head + cell for cell in written])
    labels = ["/".join(map(str, row)) for row in zip(*values, strict=True)]
    if not all(map(str.strip, labels)) or len(set(labels)) < n:
        labels = list(map(str, range(n)))
    rows = [", ".join(filter(None, row)) for row in zip(*cells, strict=True)]
    return labels, [f"{{{row}}}" if row else None for row in rows]


def documents_of(rows: Iterable[Placed], on_error: OnError = "fail") -> Records[Document]:
    """Make documents from rows; if the first row has a `document_id`, each row is a mention."""
    records: Records[Document] = Records("documents", on_error)
    rows, ahead = tee(rows)
    place, columns = next(((at, row) for at, row in ahead if isinstance(row, Mapping)), ("", {"id": 0, "text": 0}))
    del ahead  # or all rows would stay
    if "document_id" in columns:
        _from_mentions(rows, records)
        return records
    if not {"id", "text"} <= columns.keys():
        known = ", ".join(map(str, columns)) or "rows without columns"
        wrong = f"expected rows of documents (id, text, mentions) or of mentions ({', '.join(REQUIRED)}), not {known}"
        advice = 'if the rows are names, pass their column alone, such as frame["name"], or give --text-column'
        raise DataError(f"{wrong}; {advice}").at(place)
    return _read(rows, objects.to_document, records)


def entities_of(rows: Iterable[Placed], on_error: OnError = "fail") -> Records[Entity]:
    """Make entities from rows."""
    return _read(rows, objects.to_entity, Records("entities", on_error))


def _read(rows: Iterable[Placed], build: Callable[[object], Item], records: Records[Item]) -> Records[Item]:
    for place, row in rows:
        with records.record(place):
            records.add(build(_checked(row, ("id",))), place)
    return records


def _checked(row: object, ids: tuple[str, ...]) -> Row:
    """Return a row of JSON values; columns of ``ids`` must hold no numbers, and the first of them no empty cells."""
    if isinstance(row, DataError):
        raise row
    if not isinstance(row, Mapping):
        raise DataError(f"expected a dict, like the first row, not {type(row).__name__}")
    record: Row = _plain(row)
    if ids[0] in row and ids[0] not in record:
        raise DataError(f"the cell {ids[0]!r} is empty; fill it, or drop the row")
    for column in ids:
        if type(record.get(column)) in (int, float):
            name = record[ids[0]]
            raise DataError(_number_as_id(column), id=name if isinstance(name, str) else None)
    return record


def _number_as_id(column: str) -> str:
    # pandas makes floats of a column with an empty cell, and `str` would make "7.0" of 7.
    remedy = f'write it in quotes, or convert the column: frame["{column}"].astype("Int64").astype("string")'
    return f"{column!r} must be a string, not a number; {remedy}"


def _plain(value: Any) -> Any:
    """Convert a cell to a JSON value: arrays to lists, numpy's numbers to Python's, missing values to None."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Mapping):
        plain = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in plain.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value)):
        return None
    return value


def _from_mentions(rows: Iterable[Placed], records: Records[Document]) -> None:
    """Group rows, each with its place, by document; add the documents to `records` in order of their first rows."""
    first: dict[str, Placed] = {}
    uses, metadata = defaultdict[str, Counter[str]](Counter), defaultdict[str, Row](dict)
    mentions = defaultdict[str, list[tuple[str, Mention]]](list)
    for place, row in rows:
        with records.record(place, kind="rows"):
            values = _checked_mention(_checked(row, ("document_id", "mention_id", "entity", "cluster")))
            document_id = values["document_id"]
            if document_id not in first and "text" not in values:
                raise DataError("the first row of a document needs its 'text'", id=document_id)
            begin, known = first.setdefault(document_id, (place, values))
            for column in ("text", "domain"):
                if values.get(column) not in (None, known.get(column)):
                    problem = f"the {column!r} differs from that in {begin} for the same document"
                    remedy = "; 'text' is the whole document, 'mention_text' the mention" if column == "text" else ""
                    raise DataError(problem + remedy, id=document_id)
            if "start" in values:
                mention = marked_mention(_marked(values), document_id, known["text"], uses[document_id])
                mentions[document_id].append((place, mention))
            else:
                more, before = values["metadata"], metadata[document_id]
                replaced = sum(before.get(key, value) != value for key, value in more.items())
                records.notes["values of a document's metadata replaced by a later row"] += replaced
                before.update(more)
    for id_, (begin, row) in first.items():
        own = mentions[id_]
        with records.record(begin):
            try:
                made = Document(id_, row["text"], tuple([one for _, one in own]), row.get("domain"), metadata[id_])
            except DataError as error:
                raise error.at(next((place for place, one in own[::-1] if one.id == error.id), begin)) from None
            records.add(made, begin)


def _checked_mention(row: Row) -> Row:
    name = row.get("mention_id", row.get("document_id"))
    of = name if isinstance(name, str) else None
    columns = COLUMNS if row.keys() & {"start", "end"} else _IN_ANY_ROW
    values = objects.fields(row, "a row of mentions", columns, required=("document_id",), of=of)
    if len(row.keys() & {"start", "end"}) < 2 and row.keys() & columns.keys() - _OF_DOCUMENT:
        raise DataError(f"a mention needs 'start' and 'end'; required columns: {', '.join(REQUIRED)}", id=of)
    if "entity" in values and "entities" in values:
        raise DataError("gold ids are in both 'entity' and 'entities'; leave one of them out", id=of)
    if "start" in values:
        check_spans(((values["start"], values["end"]),), of=of)
    return values


def _marked(row: Row) -> Marked:
    gold = (ids_in(row["entity"], "|") or ("",)) if "entity" in row else row.get("entities")
    kind, score, cluster, id_, text = map(row.get, ("type", "score", "cluster", "mention_id", "mention_text"))
    return Marked(((row["start"], row["end"]),), kind, gold, score, row["metadata"], cluster, id_, text)
