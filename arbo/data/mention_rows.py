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

from arbo.data.documents import Document, mention_ids
from arbo.data.fields import Convert, fields, number, offset_or_null, string, string_or_null, strings_or_null
from arbo.data.objects import to_mention
from arbo.data.records import Records
from arbo.errors import DataError
from arbo.text.checks import Span, check_spans

REQUIRED = ("document_id", "text", "start", "end")
MENTION_IDS = ("document_id", "mention_id", "entity", "cluster")

_IN_ANY_ROW: Mapping[str, Convert] = {
    "document_id": string,
    "text": string,
    "domain": string_or_null,
    "start": offset_or_null,
    "end": offset_or_null,
    "mention_id": string_or_null,
    "mention_text": string_or_null,
    "type": string_or_null,
    "entity": string_or_null,
    "entities": strings_or_null,
}
COLUMNS: Mapping[str, Convert] = {**_IN_ANY_ROW, "cluster": string_or_null, "score": number}

_OF_DOCUMENT = {"document_id", "text", "domain"}

Row = dict[str, Any]


class _Draft(NamedTuple):
    """A document whose mentions are still being collected, each with the place of its row."""

    place: str
    text: str
    domain: str | None
    metadata: Row
    mentions: list[tuple[str, Row]]


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
                drafts[document_id] = _Draft(place, text, values.get("domain"), {}, [])
            draft = drafts[document_id]
            for column, own in (("text", draft.text), ("domain", draft.domain)):
                if values.get(column) not in (None, own):
                    problem = f"the {column!r} differs from that in {draft.place} for the same document"
                    remedy = "; 'text' is the whole document, 'mention_text' the mention" if column == "text" else ""
                    raise DataError(problem + remedy, id=document_id)
            if "start" in values:
                draft.mentions.append((place, values))
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
        check_spans((_span(values),), of=of)
    return values


def _document(document_id: str, draft: _Draft, records: Records[Document]) -> Document:
    unnamed = [(_span(row),) for _, row in draft.mentions if "mention_id" not in row]
    made = iter(mention_ids(document_id, unnamed))
    places: dict[str | None, str] = {}
    mentions = []
    for place, row in draft.mentions:
        with records.record(place):
            name = row["mention_id"] if "mention_id" in row else next(made)
            gold = tuple(map(str.strip, row["entity"].split("|"))) if "entity" in row else row.get("entities")
            values = row | {"spans": (_span(row),), "text": row.get("mention_text"), "entities": gold}
            mentions.append(to_mention(name, document_id, draft.text, values))
            places[name] = place
    try:
        return Document(document_id, draft.text, tuple(mentions), draft.domain, draft.metadata)
    except DataError as error:
        raise error.at(places.get(error.id, draft.place)) from None


def _span(row: Row) -> Span:
    return row["start"], row["end"]
