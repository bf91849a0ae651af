"""Rows of mentions, as in a data frame.

    document_id   text                     start   end   mention_id   type    entity
    d1            Left and right kidney.       9    21   m2           Organ   UBERON:0002113

A mention needs the first four columns. `entity` holds the gold id, or several separated by `|`; `entities` holds a list
of gold ids, and an empty list means NIL. A mention without either is not annotated. `cluster` holds the gold cluster,
`score` the score of the finder that found the mention. `mention_text` is compared with the text at the offsets.
`domain` is the domain of the document.
The rows of a document need not be adjacent, and only the first row needs its text and domain. A row without start and
end stands for the document itself, for example a document without mentions. Further columns become the metadata of the
mention or, in a row without start and end, of the document; so do `cluster` and `score` in such a row.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from arbo.data.documents import Document, Marked, marked_mention, named
from arbo.data.objects import Convert, a_kind, fields, number, or_null, string, string_or_null, strings_or_null
from arbo.data.records import Records
from arbo.errors import DataError
from arbo.text.checks import check_spans

REQUIRED = ("document_id", "text", "start", "end")
MENTION_IDS = ("document_id", "mention_id", "entity", "cluster")

# 3.0 is a whole number too, since pandas makes floats of a column with an empty cell.
_OFFSET = or_null(a_kind("a whole number", lambda v: type(v) is int or (isinstance(v, float) and v.is_integer()), int))
_OF_DOCUMENT: Mapping[str, Convert] = {"document_id": string, "text": string, "domain": string_or_null}
_IN_ANY_ROW = {
    **_OF_DOCUMENT,
    "start": _OFFSET,
    "end": _OFFSET,
    **dict.fromkeys(("mention_id", "mention_text", "type", "entity"), string_or_null),
    "entities": strings_or_null,
}
COLUMNS: Mapping[str, Convert] = {**_IN_ANY_ROW, "cluster": string_or_null, "score": number}

Row = dict[str, Any]


class _Draft(NamedTuple):
    """A document whose mentions are still being collected, each with the place of its row."""

    place: str
    text: str
    domain: str | None
    metadata: Row
    mentions: list[Marked]
    places: list[str]


def from_mentions(rows: Iterable[tuple[str, Row]], records: Records[Document]) -> None:
    """Group rows, each with its place, by document; add the documents to `records` in order of their first rows."""
    drafts: dict[str, _Draft] = {}
    for place, row in rows:
        with records.record(place, kind="rows"):
            values = _checked(row)
            document_id, text = values["document_id"], values.get("text")
            if document_id not in drafts:
                if text is None:
                    raise DataError("the first row of a document needs its 'text'", id=document_id)
                drafts[document_id] = _Draft(place, text, values.get("domain"), {}, [], [])
            draft = drafts[document_id]
            for column, own in (("text", draft.text), ("domain", draft.domain)):
                if values.get(column) not in (None, own):
                    problem = f"the {column!r} differs from that in {draft.place} for the same document"
                    remedy = "; 'text' is the whole document, 'mention_text' the mention" if column == "text" else ""
                    raise DataError(problem + remedy, id=document_id)
            if "start" in values:
                draft.mentions.append(_marked(values))
                draft.places.append(place)
            else:
                draft.metadata.update(values["metadata"])
    for document_id, draft in drafts.items():
        with records.record(draft.place):
            records.add(_document(document_id, draft, records), draft.place)


def _checked(row: Row) -> Row:
    name = row.get("mention_id", row.get("document_id"))
    of = name if isinstance(name, str) else None
    columns = COLUMNS if row.keys() & {"start", "end"} else _IN_ANY_ROW
    values = fields(row, "a row of mentions", columns, required=("document_id",), of=of)
    if len(row.keys() & {"start", "end"}) < 2 and row.keys() & columns.keys() - _OF_DOCUMENT:
        raise DataError(f"a mention needs 'start' and 'end'; required columns: {', '.join(REQUIRED)}", id=of)
    if "entity" in values and "entities" in values:
        raise DataError("gold ids are in both 'entity' and 'entities'; leave one of them out", id=of)
    if "start" in values:
        check_spans(((values["start"], values["end"]),), of=of)
    return values


def _marked(row: Row) -> Marked:
    gold = tuple(map(str.strip, row["entity"].split("|"))) if "entity" in row else row.get("entities")
    kind, score, cluster, id_, text = map(row.get, ("type", "score", "cluster", "mention_id", "mention_text"))
    return Marked(((row["start"], row["end"]),), kind, gold, score, row["metadata"], cluster, id_, text)


def _document(document_id: str, draft: _Draft, records: Records[Document]) -> Document:
    places: dict[str | None, str] = {}
    mentions = []
    for (one, id_), place in zip(named(document_id, draft.mentions), draft.places, strict=True):
        with records.record(place):
            mentions.append(marked_mention(one, id_, document_id, draft.text))
            places[id_] = place
    try:
        return Document(document_id, draft.text, tuple(mentions), draft.domain, draft.metadata)
    except DataError as error:
        raise error.at(places.get(error.id, draft.place)) from None
