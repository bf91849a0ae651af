"""Read and write BioC, as JSON or XML: collections of documents, whose passages have text, offset and annotations.

    {"documents": [{"id": "1", "infons": {}, "passages": [
        {"offset": 0, "infons": {"type": "title"}, "text": "Wilson disease.", "annotations": [
            {"id": "T1", "infons": {"type": "Disease", "identifier": "MESH:D006527"}, "text": "Wilson disease",
             "locations": [{"offset": 0, "length": 14}]}]}]}]}

A file of JSON has a collection, a document, a list of these, or one on each line; `{"PubTator3": [...]}` works too.

- Passages are joined at their offsets, which count Unicode code points; line ends fill the gaps, and blanks those
  between sentences. Several locations make a discontinuous mention.
- The gold ids are the first infon of `ID_INFONS` that is there, in upper or lower case, or else the first like
  `Gene identifier` or `NCBI Homologene`: a list (in XML, a repeated key), or ids joined by `|`, `,`, `;` or `+`,
  see `arbo.data.gold_ids`. `-1` means annotated as NIL. The infon `type` is the type.
- Other infons of annotations and documents are metadata. So are `passages` (offset, length and infons), unless one
  passage without infons has the whole text, and `relations` of a document; those of passages are left out and counted.
- Annotations without a location are left out and counted, and so are the infons of a collection.

The writer makes one collection of JSON, with a document on each line. Documents from BioC keep their passages; others
have one. A mention outside all passages, or in several, is an annotation of the document. Metadata are infons.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from arbo.data import Document, Marked, Mention, Records, compare, ids_in, marked_document, text_of
from arbo.data.documents import span_inside
from arbo.data.objects import any_list, anything, fields, mapping, string
from arbo.errors import DataError
from arbo.files import PathLike, json_text, write_lines
from arbo.formats.files import JSON, Piece, check_id, json_pieces, read_head, xml_elements
from arbo.text.checks import Span

SUFFIXES = (*JSON, ".xml")
ID_INFONS = ("identifiers", "identifier", "mesh", "omim", "umls", "cui", "concept id", "conceptid", "ncbi gene", "gene")
"""Infons that hold the ids of an annotation; the first that is there counts, with `_` or `-` for blanks too."""

_WIDEST_GAP = 10_000
_SEPARATORS = "|,;+"
_NAMES_IDS = re.compile(
    r"ncbi .*|(gene|protein|taxonomy|species|disease|chemical|cell ?line|mesh|omim|umls|chebi|uniprot|snomed|hpo?|go|"
    r"concept|entity|ontology|database|db|normali[sz]ed) ?(id|identifier)s?"
)
_LISTS = ("passages", "sentences", "annotations", "relations", "locations", "nodes")
_NIL = "-1"
_PART = {"id": anything, "infons": mapping, "offset": anything, "text": string, **dict.fromkeys(_LISTS, any_list)}
_GOLD = re.compile(rf"(?!({_NIL}|-)\Z)\S(.*\S)?", re.S)


def pieces(file: Path, records: Records[Document]) -> Iterator[Piece]:
    """Yield the documents of a file."""
    if read_head(file).lstrip().startswith("<"):
        try:
            for n, element in enumerate(xml_elements(file, "document"), start=1):
                yield Piece(_record(element), f"{file}, document {n}")
        except RecursionError:
            raise DataError("the XML is nested too deeply", file=str(file)) from None
        return
    for piece in json_pieces(file, records):
        whole = piece.content if isinstance(piece.content, dict) else {}
        if isinstance(inner := whole.get("documents", whole.get("PubTator3")), list):
            yield from (Piece(one, f"{piece.file}, document {n}", piece.line) for n, one in enumerate(inner, 1))
        else:
            yield piece


def document(piece: Piece, records: Records[Document]) -> Document:
    """Make a document of an object of JSON."""
    values = fields(piece.content, "a BioC document", {**_PART, "id": string}, required=("id", "passages"))
    document_id, notes = values["id"], records.notes

    def parts(given: list[object], what: str) -> list[dict[str, Any]]:
        return [fields(one, what, _PART, required=("offset",), of=document_id) for one in given]

    passages = parts(values["passages"], "a passage")
    for passage in passages:
        passage["sentences"] = parts(passage.get("sentences", []), "a sentence")
    text, places = _text(passages, document_id)
    metadata = dict(values.get("infons") or {})
    if len(places) > 1 or any(place["infons"] or place["offset"] for place in places):
        metadata["passages"] = places
    if values.get("relations"):
        metadata["relations"] = values["relations"]
    inner = [part for passage in passages for part in (passage, *passage["sentences"])]
    notes["relations of passages left out"] += sum(len(one.get("relations", ())) for one in inner)
    given = (one for part in (values, *inner) for one in part.get("annotations", ()))
    marked = [mention for one in given if (mention := _marked(one, document_id, text, notes)) is not None]
    ids = {mention.id for mention in marked}
    if not all(ids) or len(ids) < len(marked):
        marked = [mention._replace(id=None) for mention in marked]
    return marked_document(document_id, text, marked, None, metadata)


def _text(passages: list[dict[str, Any]], document_id: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a document, and offset, length and infons of each passage."""
    pieces, places, length = [], [], 0
    for passage in passages:
        parts = [passage] if passage.get("text") or not passage["sentences"] else passage["sentences"]
        for number, part in enumerate(parts):
            offset, piece = part["offset"], part.get("text") or ""
            if type(offset) is not int or not length <= offset <= length + _WIDEST_GAP:
                problem = f"a passage or sentence has the offset {offset!r:.30} after a text that ends at {length}"
                rule = f"offsets must ascend, count Unicode code points, and leave gaps of at most {_WIDEST_GAP:,}"
                raise DataError(f"{problem}; {rule}", id=document_id)
            pieces += [" " * (offset - length) if number else "\n" * (offset - length), piece]
            length = offset + len(piece)
        begin = parts[0]["offset"]
        places.append({"offset": begin, "length": length - begin, "infons": passage.get("infons") or {}})
    return "".join(pieces), places


def _marked(record: object, document_id: str, text: str, notes: Counter[str]) -> Marked | None:
    """Return the mention of an annotation; None without a location."""
    values = fields(record, "an annotation", _PART, required=(), of=document_id)
    name = None if values.get("id") is None else str(values["id"])
    infons = dict(values.get("infons") or {})
    spans = []
    for one in values.get("locations", ()):
        start, size = (one.get(key) if isinstance(one, dict) else None for key in ("offset", "length"))
        end = start + size if type(start) is int and type(size) is int else None
        spans.append(span_inside(start, end, text, "a location of an annotation", of=name or document_id))
    if not spans:
        notes["annotations without a location left out"] += 1
        return None
    if values.get("text") and (len(spans) == 1 or not _same_letters(values["text"], spans, text)):
        compare(values["text"], spans, text, notes, of=name or document_id)
    kind = infons.pop("type", None)
    kind = kind[0] if isinstance(kind, list) and kind else kind
    id_ = name and f"{document_id}:{name}"
    return Marked(tuple(spans), None if kind is None else str(kind), _gold(infons), metadata=infons, id=id_)


def _same_letters(surface: str, spans: list[Span], text: str) -> bool:
    """Return whether the letters and digits are those at the spans, in their order or the text's, or all between."""
    whole = text[min(spans)[0] : max(end for _, end in spans)]
    ways = (surface, text_of(spans, text), text_of(sorted(spans), text), whole)
    letters = ("".join(filter(str.isalnum, one)) for one in ways)
    return next(letters) in letters


def _gold(infons: dict[str, Any]) -> tuple[str, ...] | None:
    """Take the ids out of the infons of an annotation."""
    filled = {re.sub("[_-]", " ", key.lower()): key for key, one in infons.items() if one not in (None, "", "-", [])}
    name = next((name for name in (*ID_INFONS, *filter(_NAMES_IDS.fullmatch, filled)) if name in filled), None)
    if name is None:
        return None
    value = infons.pop(filled[name])
    ids = map(str, value) if isinstance(value, list) else ids_in(str(value), _SEPARATORS)
    return tuple(id_ for id_ in ids if id_ and id_ != _NIL)


def _record(element: Element) -> dict[str, Any]:
    record: dict[str, Any] = {name: _number(name, value) for name, value in element.attrib.items()}
    for child in element:
        name, inner = child.tag, "".join(child.itertext())
        if name == "infon":
            infons, key = record.setdefault("infons", {}), child.get("key", "")
            before = infons.get(key, [])
            infons[key] = [*(before if isinstance(before, list) else [before]), inner] if key in infons else inner
        elif f"{name}s" in _LISTS:
            record.setdefault(f"{name}s", []).append(_record(child))
        else:
            record[name] = _number(name, inner)
    if element.tag in ("document", "annotation"):
        record.setdefault("passages" if element.tag == "document" else "locations", [])
    return record


def _number(name: str, value: str) -> str | int:
    return int(value) if name in ("offset", "length") and re.fullmatch(r"\s*[0-9]{1,18}\s*", value) else value


def write_bioc(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write a collection."""
    begin = '{"source": "arbo", "date": "", "key": "", "infons": {}, "documents": ['
    lines = ("," * bool(n) + json_text(_json_document(one)) for n, one in enumerate(documents))
    write_lines(chain([begin], lines, ["]}"]), path)
    return Counter()


def _json_document(document: Document) -> dict[str, Any]:
    passages = _passages(document)
    whole: list[dict[str, Any]] = []
    begins = [passage["offset"] for passage in passages]
    for mention in document.mentions:
        passage = passages[max(0, bisect_right(begins, mention.start) - 1)]
        is_inside = passage["offset"] <= mention.start and mention.end <= passage["offset"] + len(passage["text"])
        (passage["annotations"] if is_inside else whole).append(_annotation(mention))
    lists = {"passages", "relations"}  # of BioC; other metadata of these names are infons
    infons = {key: value for key, value in document.metadata.items() if not (key in lists and isinstance(value, list))}
    relations = [] if "relations" in infons else document.metadata.get("relations", [])
    return {"id": document.id, "infons": infons, "passages": passages, "annotations": whole, "relations": relations}


def _passages(document: Document) -> list[dict[str, Any]]:
    """Return the passages of a document from BioC, if its text still has them, or else one passage."""
    text, passages, end = document.text, [], 0
    try:
        for place in document.metadata.get("passages", ()):
            begin = place["offset"]
            if begin < end or text[end:begin].strip("\n"):
                raise ValueError("the text was changed")
            end = begin + len(piece := text[begin : begin + place["length"]])
            passages.append({"offset": begin, "infons": {**place["infons"]}, "text": piece, "annotations": []})
    except (KeyError, TypeError, ValueError):
        passages = []
    return passages if passages and end == len(text) else [{"offset": 0, "infons": {}, "text": text, "annotations": []}]


def _annotation(mention: Mention) -> dict[str, Any]:
    infons = dict(mention.metadata)
    if mention.type is not None:
        infons["type"] = mention.type
    if mention.gold is not None:
        ids = [check_id(id_, _GOLD, of=mention.id) for id_ in mention.gold]
        infons["identifier"] = "|".join(ids) or _NIL
        if ids and ids_in(infons["identifier"], _SEPARATORS) != (*ids,):
            infons["identifiers"] = ids
    locations = [{"offset": start, "length": end - start} for start, end in mention.spans]
    name = mention.id.removeprefix(f"{mention.document_id}:")
    return {"id": name, "infons": infons, "text": mention.text, "locations": locations}
