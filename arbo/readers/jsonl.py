r"""Arbo's own format: JSON lines, one object a line, for documents and for entities.

A document (`id` and `text` are required):

    {"id": "d1", "text": "Left and right kidney.", "mentions": [
        {"id": "m1", "spans": [[0, 4], [15, 21]], "type": "Organ", "entities": ["UBERON:0004538"]}], "domain": null}

`spans` (required) holds pairs of start and end, counted in Unicode code points, the end exclusive; several
pairs make a discontinuous mention. `entities` lists every acceptable gold id, is `[]` where the annotation
says NIL, and is null or absent where nothing is annotated. `type` and `domain` may be null or absent. A mention
without an `id` is named by document and spans (see `mention_ids`).

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

from arbo.documents import Corpus, Document, Mention, check_spans, mention_ids, text_of
from arbo.errors import DataError
from arbo.knowledge_base import Entity, KnowledgeBase
from arbo.readers.fields import Convert, any_list, fields, spans, string, string_or_null, strings, strings_or_null
from arbo.readers.files import PathLike, data_files, read_lines, write_lines
from arbo.readers.records import Item, OnError, Records

SUFFIXES = (".jsonl",)


def read_jsonl(path: PathLike, *, on_error: OnError = "fail") -> Corpus:
    """Read documents from a file, or from all `.jsonl` files of a folder."""
    records: Records[Document] = Records("documents", on_error)
    _read(path, to_document, records)
    return Corpus(records, records.notes)


def read_entities(path: PathLike, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Read entities from a file, or from all `.jsonl` files of a folder."""
    records: Records[Entity] = Records("entities", on_error)
    _read(path, to_entity, records)
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
                records.add(build(parse(line)), file, number)


def parse(line: str) -> object:
    """Return what a line of JSON holds; anything else, or a key that one object has twice, is a DataError."""
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


def to_document(record: object) -> Document:
    """Return the document that a JSON object describes."""
    values = fields(record, "a document", _DOCUMENT, required=("id", "text"))
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
    return Document(document_id, text, tuple(mentions), values.get("domain"))


def _draft(record: object, document_id: str) -> dict[str, Any]:
    """Return the fields of a mention with sound spans, which its id and its text are made of."""
    values = fields(record, "a mention", _MENTION, required=("spans",), of=document_id)
    check_spans(values["spans"], of=values.get("id") or document_id)
    return values


def to_entity(record: object) -> Entity:
    """Return the entity that a JSON object describes."""
    return Entity(**fields(record, "an entity", _ENTITY, required=("id", "name")))


_DOCUMENT: Mapping[str, Convert] = {
    "id": string,
    "text": string,
    "mentions": any_list,
    "domain": string_or_null,
}

_MENTION: Mapping[str, Convert] = {
    "id": string_or_null,
    "spans": spans,
    "type": string_or_null,
    "entities": strings_or_null,
}

_ENTITY: Mapping[str, Convert] = {
    "id": string,
    "name": string,
    "aliases": strings,
    "definition": string_or_null,
    "types": strings,
    "alternative_ids": strings,
    "xrefs": strings,
    "domain": string_or_null,
}


def _document_object(document: Document) -> dict[str, object]:
    mentions = [{"id": m.id, "spans": m.spans, "type": m.type, "entities": m.gold} for m in document.mentions]
    domain = {} if document.domain is None else {"domain": document.domain}
    return {"id": document.id, "text": document.text, "mentions": mentions, **domain}


def _line(record: object) -> str:
    return json.dumps(record, ensure_ascii=False)
