"""Read and write PubAnnotation: a JSON object with a text and its denotations, a list of these, or one on each line.

    {"sourcedb": "PubMed", "sourceid": "123", "text": "Left and right kidney.",
     "denotations": [{"id": "T1", "span": [{"begin": 0, "end": 4}, {"begin": 15, "end": 21}], "obj": "Organ"}],
     "attributes": [{"id": "A1", "subj": "T1", "pred": "tao:has_database_id", "obj": "UBERON:0004538"}]}

- Spans count Unicode code points, and the end is exclusive; a list of spans makes a discontinuous mention.
- The id of a document is its `id` or, without one, `sourcedb:sourceid` and perhaps `-divid`.
- Gold ids are the `obj` of attributes whose `pred` ends in `id`, such as `mondo_id`. Without one, an `obj` of a
  denotation with a colon and a digit, such as `HP:0001250`, or an address, is its gold id, and any other is its type.
  Addresses of OBO become short ids; `NIL` means annotated as NIL.
- Other attributes are metadata of the mention, other keys (such as `tracks`, of several projects) of the document.

The writer makes an attribute with the predicate `tao:has_database_id` of a gold id, or the `obj` of a mention without a
type. Metadata of mentions are attributes too, those of documents are further keys.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from arbo.data import Document, Marked, Mention, Records
from arbo.data.documents import marked_document, span_inside
from arbo.data.objects import any_list, anything, fields, string
from arbo.errors import DataError
from arbo.files import json_text
from arbo.formats.files import JSON, Piece, check_id, json_pieces, with_ids
from arbo.formats.ontologies import short_id
from arbo.text.checks import Span

SUFFIXES, pieces = JSON, json_pieces

_DENOTATION = {"id": string, "span": anything, "obj": string}
_ATTRIBUTE = {"subj": string, "pred": string, "obj": anything}
_DOCUMENT = {"text": string, "id": string, "denotations": any_list, "attributes": any_list}
_ID = re.compile(r"https?://\S+|[A-Za-z][\w.-]*:[\w./-]*[0-9][\w./-]*")
"""An `obj` that is an id."""
_NAMES_ID = re.compile(r"(\A|[^a-z])(id|identifier)\Z", re.I)
"""Predicates of ids."""
_NIL = "NIL"
_GOLD = re.compile(r"(?!NIL\Z).*", re.S)
_PREDICATE = "tao:has_database_id"


def spans_of(denotation: object, text: str, *, of: str | None = None) -> tuple[tuple[Span, ...], str | None, Any]:
    """Return the spans, the `obj` and the id of a denotation; raise DataError, which does not quote the text."""
    values = fields(denotation, "a denotation", _DENOTATION, required=("span",), of=of)
    pieces = values["span"]
    ends = [one if isinstance(one, dict) else {} for one in (pieces if isinstance(pieces, list) else [pieces])]
    what, of = "the span {begin, end} of a denotation", values.get("id") or of
    spans = [span_inside(one.get("begin"), one.get("end"), text, what, of=of) for one in ends or [{}]]
    return tuple(sorted(spans)), values.get("obj"), values.get("id")


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of an object of JSON."""
    values = fields(piece.content, "a PubAnnotation document", _DOCUMENT, required=("text",))
    document_id = values.get("id") or source_of(values["metadata"]) or piece.name
    marked = with_ids(document_id, [*_marked(values, document_id, records.notes)])
    return marked_document(document_id, values["text"], marked, None, values["metadata"])


def _marked(values: dict[str, Any], document_id: str, notes: Counter[str]) -> Iterator[Marked]:
    """Yield the mentions of a document."""
    denotations = [spans_of(one, values["text"], of=document_id) for one in values.get("denotations", ())]
    facts: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)
    for one in values.get("attributes", ()):
        fact = fields(one, "an attribute", _ATTRIBUTE, required=tuple(_ATTRIBUTE), of=document_id)
        facts[fact["subj"]].append((fact["pred"], fact["obj"]))
    if twice := [name for name, times in Counter(name for *_, name in denotations if name).items() if times > 1]:
        raise DataError("two denotations have this id; change one", id=twice[0])
    notes["attributes of other objects than denotations left out"] += len(facts.keys() - {n for *_, n in denotations})
    for spans, obj, name in denotations:
        metadata: dict[str, Any] = {}
        ids: list[str] = []
        for pred, value in facts.get(name, ()) if name else ():
            if _NAMES_ID.search(pred) and isinstance(value, str):
                ids.append(short_id(value))
            else:
                metadata[pred] = [*_listed(metadata[pred]), value] if pred in metadata else value
        if not ids and obj and (obj == _NIL or _ID.fullmatch(obj)):
            ids, obj = [short_id(obj)], None
        gold = tuple(id_ for id_ in ids if id_ != _NIL) if ids else None
        yield Marked(spans, obj or None, gold, metadata=metadata, id=name)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def source_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the id that PubAnnotation gives to a document, from its database and its id there; None without them.

    >>> source_of({"sourcedb": "PMC", "sourceid": "12", "divid": 0})
    'PMC:12-0'
    """
    source, id_, part = (metadata.get(key) for key in ("sourcedb", "sourceid", "divid"))
    return f"{source}:{id_}" + ("" if part is None else f"-{part}") if source and id_ else None


def document_lines(document: Document, notes: Counter[str]) -> Iterator[str]:
    """Yield the line of JSON of a document."""
    denotations, attributes = [], []
    names = [mention.id.removeprefix(f"{document.id}:") for mention in document.mentions]
    if "" in names or len({*names}) < len(names):
        names = [f"T{number}" for number in range(1, len(names) + 1)]
    for name, mention in zip(names, document.mentions, strict=True):
        spans = [{"begin": start, "end": end} for start, end in mention.spans]
        notes["mentions whose pieces are sorted when they are read"] += [*mention.spans] != sorted(mention.spans)
        obj, facts = _obj_and_facts(mention, notes)
        denotations.append({"id": name, "span": spans[0] if len(spans) == 1 else spans, "obj": obj})
        attributes += [{"subj": name, "pred": pred, "obj": value} for pred, value in facts]
    named = {} if source_of(document.metadata) == document.id else {"id": document.id}
    numbered = [{"id": f"A{number}", **one} for number, one in enumerate(attributes, 1)]
    # The denotations come first, so that the format is guessed from the beginning of a file.
    record = {**named, "denotations": denotations, "attributes": numbered, "text": document.text}
    further = {key: value for key, value in document.metadata.items() if key not in {*record, "id"}}
    yield json_text(record | further)


def _obj_and_facts(mention: Mention, notes: Counter[str]) -> tuple[str, list[tuple[str, Any]]]:
    """Return the `obj` of a mention, and the predicates and objects of its attributes."""
    ids = [_NIL] if mention.gold == () else [check_id(id_, _GOLD, of=mention.id) for id_ in mention.gold or ()]
    obj = mention.type or None
    if mention.type is None and len(ids) == 1 and (ids[0] == _NIL or _ID.fullmatch(ids[0])):
        obj, ids = ids[0], []
    elif not ids and _ID.fullmatch(obj or ""):
        notes["types that are read as ids"] += 1
    notes["mentions without a type, written as `Mention`"] += obj is None
    further = {key: value for key, value in mention.metadata.items() if not _NAMES_ID.search(key)}
    notes["further keys whose names end in `id` left out"] += len(mention.metadata) - len(further)
    facts = [(_PREDICATE, id_) for id_ in ids]
    facts += [(key, one) for key, value in further.items() for one in _listed(value)]
    return obj or "Mention", facts
