"""Documents and entities as JSON objects, in arbo's JSON lines and in rows of data frames.

The keys are described in `arbo.formats.jsonl`.
"""

import json
from collections import Counter
from collections.abc import Mapping
from sys import intern
from typing import Any

from arbo.data.documents import Document, Mention, compare, mention_ids, text_of
from arbo.data.entities import Entity
from arbo.data.fields import Convert, any_list, fields, number, spans, string, string_or_null, strings, strings_or_null
from arbo.errors import DataError
from arbo.text.checks import check_spans


def parse(line: str) -> object:
    """Parse a line of JSON, or a whole file; raise DataError for invalid JSON and repeated keys."""
    try:
        return json.loads(line, object_pairs_hook=_object)
    except DataError:
        raise
    except json.JSONDecodeError as error:
        problem = f"{error.msg.removesuffix(' at')} at character {error.colno}; write each object on one line"
        raise DataError(f"not JSON: {problem}", line=error.lineno if error.lineno > 1 else None) from None
    except (RecursionError, ValueError):
        raise DataError("the JSON is nested too deeply, or has a number with thousands of digits") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record = dict(pairs)
    if len(record) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise DataError(f"the key {key!r:.60} occurs twice in one object")
    return record


def to_document(record: object) -> Document:
    """Return the document that a JSON object describes."""
    values = fields(record, "a document", DOCUMENT_KEYS, required=("id", "text"))
    document_id, text = values["id"], values["text"]
    drafts = [_draft(mention, document_id) for mention in values.get("mentions", ())]
    made = iter(mention_ids(document_id, (draft["spans"] for draft in drafts if draft.get("id") is None)))
    mentions = []
    for draft in drafts:
        mention_id = next(made) if draft.get("id") is None else draft["id"]
        mentions.append(to_mention(mention_id, document_id, text, draft))
    return Document(document_id, text, tuple(mentions), values.get("domain"), values["metadata"])


def to_mention(mention_id: str, document_id: str, text: str, draft: Mapping[str, Any]) -> Mention:
    """Return the mention that ``draft`` describes; compare its text, if given, with the text at its spans."""
    spans = draft["spans"]
    if draft.get("text") is not None and max(end for _, end in spans) <= len(text):
        compare(draft["text"], spans, text, Counter(), of=mention_id)
    gold, score, metadata, cluster = (draft.get(key) for key in ("entities", "score", "metadata", "cluster"))
    type_ = None if draft.get("type") is None else intern(draft["type"])  # equal strings are one in memory
    own = intern(text_of(spans, text))
    return Mention(mention_id, document_id, spans, own, type_, gold, score, metadata or {}, cluster)


def _draft(record: object, document_id: str) -> dict[str, Any]:
    """Return the checked fields of a mention, whose id and text may still be missing."""
    values = fields(record, "a mention", _MENTION, required=("spans",), of=document_id)
    check_spans(values["spans"], of=values.get("id") or document_id)
    return values


def to_entity(record: object) -> Entity:
    """Return the entity that a JSON object describes."""
    return Entity(**fields(record, "an entity", ENTITY_KEYS, required=("id", "name")))


DOCUMENT_KEYS: Mapping[str, Convert] = {"id": string, "text": string, "mentions": any_list, "domain": string_or_null}

_MENTION: Mapping[str, Convert] = {
    "id": string_or_null,
    "spans": spans,
    "text": string_or_null,
    "type": string_or_null,
    "entities": strings_or_null,
    "cluster": string_or_null,
    "score": number,
}

ENTITY_KEYS: Mapping[str, Convert] = {
    "id": string,
    "name": string,
    "aliases": strings,
    "definition": string_or_null,
    "types": strings,
    "alternative_ids": strings,
    "xrefs": strings,
    "domain": string_or_null,
}


def document_line(document: Document) -> str:
    """Return a document as a line of JSON, which `to_document` reads."""
    mentions = [
        _record(
            {"id": m.id, "spans": m.spans, "type": m.type, "entities": m.gold}
            | {key: value for key, value in (("cluster", m.cluster), ("score", m.score)) if value is not None},
            m.metadata,
            _MENTION,
        )
        for m in document.mentions
    ]
    domain = {} if document.domain is None else {"domain": document.domain}
    own = {"id": document.id, "text": document.text, "mentions": mentions, **domain}
    return _line(_record(own, document.metadata, DOCUMENT_KEYS))


def entity_line(entity: Entity) -> str:
    """Return an entity as a line of JSON, which `to_entity` reads."""
    return _line(_record({key: getattr(entity, key) for key in ENTITY_KEYS}, entity.metadata, ENTITY_KEYS))


def _record(
    own: Mapping[str, object], metadata: Mapping[str, Any], known: Mapping[str, Convert]
) -> Mapping[str, object]:
    """Add metadata to an object; a key that the reader takes for something else gets a `_`."""
    record = {**own}
    for key, value in metadata.items():
        while key in known or key in record:
            key += "_"
        record[key] = value
    return record


def _line(record: object) -> str:
    return json.dumps(record, ensure_ascii=False)
