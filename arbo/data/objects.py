"""Documents and entities as JSON objects, in arbo's JSON lines and in rows of data frames.

The keys are described in `arbo.formats.jsonl`. A converter returns a valid JSON value; for any other value, it raises a
TypeError that names the expected type.
"""

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from arbo.data.documents import Document, Entity, Marked, marked_document
from arbo.errors import DataError
from arbo.files import json_text
from arbo.text.checks import check_spans

Convert = Callable[[Any], Any]


def parse(line: str) -> object:
    """Parse a line of JSON, or a whole file; raise DataError for invalid JSON and repeated keys."""
    try:
        return _DECODER.decode(line)
    except DataError:
        raise
    except json.JSONDecodeError as error:
        problem = f"{error.msg.removesuffix(' at')} at character {error.colno}; write each object on one line"
        raise DataError(f"not JSON: {problem}", line=error.lineno if error.lineno > 1 else None) from None
    except (RecursionError, ValueError):
        raise DataError("the JSON is nested too deeply, or has a number with thousands of digits") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(record := dict(pairs)) < len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise DataError(f"the key {key!r:.60} occurs twice in one object")
    return record


def fields(
    record: object, what: str, known: Mapping[str, Convert], *, required: tuple[str, ...], of: str | None = None
) -> dict[str, Any]:
    """Check a JSON object and convert its values; raise DataError with its id, or with `of` if it has no id.

    Keys that are not in `known` become `metadata`, where values that JSON cannot hold become strings. Null counts as a
    missing key if its converter refuses it.
    """
    if not isinstance(record, dict):
        raise DataError(f"{what} must be a JSON object, not {_kind(record)}", id=of)
    of = id_ if isinstance(id_ := record.get("id"), str) else of
    for key in required:
        if key not in record:
            raise DataError(f"{what} needs the key {key!r}", id=of)
    extra: dict[str, Any] = {}
    values: dict[str, Any] = {"metadata": extra}
    for key, value in record.items():
        if key not in known:
            extra[str(key)] = value
            continue
        try:
            values[key] = known[key](value)
        except TypeError as error:
            if value is None and key not in required:
                continue
            raise DataError(f"{key!r} of {what} must be {error}, not {_kind(value)}", id=of) from None
    if extra:
        values["metadata"] = json.loads(json.dumps(extra, default=written))
    return values


def written(value: object) -> str:
    """Return a value that JSON does not have as a string; a time at midnight is a date, as a table has it."""
    return str(value).removesuffix(" 00:00:00")


def _kind(value: object) -> str:
    if isinstance(value, (bool, float)) or value is None:
        return json.dumps(value)
    names = {str: "a string", int: "a number", list: "this list", dict: "an object"}
    return names.get(type(value), f"{type(value).__name__!r}")


def a_kind(what: str, fits: Callable[[Any], bool], convert: Convert = lambda value: value) -> Convert:
    """Return a converter of the values that fit; ``what`` names them in errors."""

    def converted(value: object) -> Any:
        if not fits(value):
            raise TypeError(what)
        return convert(value)

    return converted


_DECODER = json.JSONDecoder(object_pairs_hook=_object)  # `json.loads` would make one for each line
string = a_kind("a string (in quotes)", lambda value: isinstance(value, str))
strings = a_kind(
    "a list of strings", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value), tuple
)
anything = a_kind("", lambda _: True)
any_list = a_kind("a list", lambda value: isinstance(value, list))
number = a_kind("a finite number", lambda value: type(value) in (int, float) and abs(value) < 1e300, float)
spans = a_kind(
    "a list of pairs [start, end]",
    lambda value: isinstance(value, list) and all(isinstance(span, list) for span in value),
    lambda value: tuple(map(tuple, value)),
)
"""The pairs become tuples; `check_spans` checks that they are offsets."""
mapping = a_kind("an object", lambda value: isinstance(value, dict))

DOCUMENT_KEYS: Mapping[str, Convert] = {"id": string, "text": string, "mentions": any_list, "domain": string}
_MENTION: dict[str, Convert] = dict.fromkeys(("id", "text", "type", "cluster"), string)
_MENTION |= {"spans": spans, "entities": strings, "score": number}
ENTITY_KEYS: Mapping[str, Convert] = {
    field.name: strings if str(field.type) == "tuple[str, ...]" else string
    for field in dataclasses.fields(Entity)
    if field.name != "metadata"
}


def to_document(record: object) -> Document:
    """Return the document that a JSON object describes."""
    values = fields(record, "a document", DOCUMENT_KEYS, required=("id", "text"))
    marked = [_marked(one, values["id"]) for one in values.get("mentions", ())]
    return marked_document(values["id"], values["text"], marked, values.get("domain"), values["metadata"])


def _marked(record: object, document_id: str) -> Marked:
    values = fields(record, "a mention", _MENTION, required=("spans",), of=document_id)
    check_spans(values["spans"], of=values.get("id") or document_id)
    values["gold"] = values.pop("entities", None)
    return Marked(**values)


def to_entity(record: object) -> Entity:
    """Return the entity that a JSON object describes."""
    return Entity(**fields(record, "an entity", ENTITY_KEYS, required=("id", "name")))


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
    fields = {"id": document.id, "text": document.text, "mentions": mentions, **domain}
    return json_text(_record(fields, document.metadata, DOCUMENT_KEYS))


def entity_line(entity: Entity) -> str:
    """Return an entity as a line of JSON, which `to_entity` reads."""
    return json_text(_record({key: getattr(entity, key) for key in ENTITY_KEYS}, entity.metadata, ENTITY_KEYS))


def _record(fields: Mapping[str, Any], metadata: Mapping[str, Any], known: Mapping[str, Convert]) -> dict[str, Any]:
    """Add metadata to an object; a key that the reader takes for something else gets a `_`."""
    record = {**fields}
    for key, value in metadata.items():
        while key in known or key in record:
            key += "_"
        record[key] = value
    return record
