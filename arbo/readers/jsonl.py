r"""Arbo's own format: JSON lines, one object a line, for documents and for entities.

A document (`id` and `text` are required):

    {"id": "d1", "text": "Left and right kidney.", "mentions": [
        {"id": "m1", "spans": [[0, 4], [15, 21]], "type": "Organ", "entities": ["UBERON:0004538"]}]}

`spans` (required) holds pairs of start and end, counted in Unicode code points, the end exclusive; several
pairs make a discontinuous mention. `entities` lists every acceptable gold id, is `[]` where the annotation
says NIL, and is null or absent where nothing is annotated. `type` may be null or absent. A mention without
an `id` is named by document and spans (see `mention_ids`).

An entity (`id` and `name` are required):

    {"id": "D010190", "name": "Pancreatic Neoplasms", "aliases": ["Cancer of Pancreas"], "definition": null,
     "types": ["Disease"], "alternative_ids": ["MESH:D010190"], "xrefs": ["DOID:1793"], "domain": null}

In the file each object is on one line; blank lines are ignored. An unknown or repeated key is an error.
Strings are kept exactly as they are written, line ends (`\r\n` too) included. A duplicate id with equal
content is dropped and counted; with different content it is an error. Files ending in `.gz` are gzipped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from arbo.documents import Corpus, Document, Mention, Span, check_spans, mention_ids, text_of
from arbo.errors import DataError
from arbo.knowledge_base import Entity, KnowledgeBase
from arbo.readers.files import PathLike, data_files, read_lines, write_lines
from arbo.readers.records import Item, OnError, Records

SUFFIXES = (".jsonl",)

Convert = Callable[[object], Any]


def read_jsonl(path: PathLike, *, on_error: OnError = "fail") -> Corpus:
    """Read documents from a file, or from all `.jsonl` files of a folder."""
    records: Records[Document] = Records("documents", on_error)
    _read(path, _document, records)
    return Corpus(records, records.notes)


def read_entities(path: PathLike, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Read entities from a file, or from all `.jsonl` files of a folder."""
    records: Records[Entity] = Records("entities", on_error)
    _read(path, _entity, records)
    return KnowledgeBase(records, records.notes)


def write_jsonl(documents: Iterable[Document], path: PathLike) -> None:
    """Write documents; `read_jsonl` reads equal ones back."""
    write_lines((_line(_document_object(document)) for document in documents), path)


def write_entities(entities: Iterable[Entity], path: PathLike) -> None:
    """Write entities; `read_entities` reads equal ones back."""
    write_lines((_line({key: getattr(entity, key) for key in _ENTITY}) for entity in entities), path)


def _read(path: PathLike, build: Callable[[object], Item], records: Records[Item]) -> None:
    for file in data_files(path, SUFFIXES):
        for number, line in read_lines(file):
            if not line.strip():
                continue
            with records.record(file, number):
                records.add(build(_parse(line)), file, number)


def _parse(line: str) -> object:
    try:
        return json.loads(line, object_pairs_hook=_object)
    except DataError:
        raise
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at character {error.colno}; each line is one complete object"
        raise DataError(f"not JSON: {problem}") from None
    except (RecursionError, ValueError):
        raise DataError("not a record: nested too deeply, or a number of thousands of digits") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise DataError(f"the key {key!r:.60} occurs twice in one object")
    return record


def _document(record: object) -> Document:
    values = _fields(record, "a document", _DOCUMENT, required=("id", "text"))
    document_id, text = values["id"], values["text"]
    drafts = [_draft(mention, document_id) for mention in values.get("mentions", ())]
    made = iter(mention_ids(document_id, (draft["spans"] for draft in drafts if draft.get("id") is None)))
    mentions = []
    for draft in drafts:
        mention_id = next(made) if draft.get("id") is None else draft["id"]
        surface = text_of(draft["spans"], text)
        mentions.append(
            Mention(mention_id, document_id, draft["spans"], surface, draft.get("type"), draft.get("entities"))
        )
    return Document(document_id, text, tuple(mentions))


def _draft(record: object, document_id: str) -> dict[str, Any]:
    """Return the fields of a mention with sound spans, which its id and its text are made of."""
    values = _fields(record, "a mention", _MENTION, required=("spans",), of=document_id)
    check_spans(values["spans"], of=values.get("id") or document_id)
    return values


def _entity(record: object) -> Entity:
    return Entity(**_fields(record, "an entity", _ENTITY, required=("id", "name")))


def _fields(
    record: object,
    what: str,
    known: Mapping[str, Convert],
    *,
    required: tuple[str, ...],
    of: str | None = None,
) -> dict[str, Any]:
    """Check the keys of a JSON object and convert its values; `of` is the id to name where it has none."""
    if not isinstance(record, dict):
        raise DataError(f"{what} must be a JSON object, not {_kind(record)}", id=of)
    own = record.get("id")
    of = own if isinstance(own, str) else of
    for key in record:
        if key not in known:
            raise DataError(f"unknown key {key!r:.60} in {what}; known: {', '.join(known)}", id=of)
    for key in required:
        if key not in record:
            raise DataError(f"{what} needs the key {key!r}", id=of)
    values = {}
    for key, value in record.items():
        try:
            values[key] = known[key](value)
        except TypeError as error:
            raise DataError(f"{key!r} of {what} must be {error}, not {_kind(value)}", id=of) from None
    return values


def _kind(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    names = {str: "a string", int: "a number", float: "a number", list: "this list", dict: "an object"}
    return names[type(value)]


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string (in quotes)")
    return value


def _string_or_null(value: object) -> str | None:
    return None if value is None else _string(value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("a list")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("a list of strings")
    return tuple(value)


def _strings_or_null(value: object) -> tuple[str, ...] | None:
    return None if value is None else _strings(value)


def _spans(value: object) -> tuple[Span, ...]:
    if not isinstance(value, list) or not all(isinstance(span, list) for span in value):
        raise TypeError("a list of pairs [start, end]")
    return tuple(tuple(span) for span in value)


_DOCUMENT: Mapping[str, Convert] = {"id": _string, "text": _string, "mentions": _list}

_MENTION: Mapping[str, Convert] = {
    "id": _string_or_null,
    "spans": _spans,
    "type": _string_or_null,
    "entities": _strings_or_null,
}

_ENTITY: Mapping[str, Convert] = {
    "id": _string,
    "name": _string,
    "aliases": _strings,
    "definition": _string_or_null,
    "types": _strings,
    "alternative_ids": _strings,
    "xrefs": _strings,
    "domain": _string_or_null,
}


def _document_object(document: Document) -> dict[str, object]:
    mentions = [{"id": m.id, "spans": m.spans, "type": m.type, "entities": m.gold} for m in document.mentions]
    return {"id": document.id, "text": document.text, "mentions": mentions}


def _line(record: object) -> str:
    return json.dumps(record, ensure_ascii=False)
