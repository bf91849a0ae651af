"""Write BioC as JSON (see `arbo.readers.bioc`): one collection, with each document on a line.

Documents that come from BioC keep their passages; others have one. A mention outside all passages, or in several, is an
annotation of the document. Metadata become infons.
"""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from arbo.data import Document, Mention
from arbo.files import PathLike, write_lines
from arbo.writers.lines import check_id

_NIL = "-1"
_GOLD = re.compile(rf"(?!({_NIL}|-)\Z)\S(.*\S)?", re.S)
_SEPARATORS = frozenset("|,;+")


def write_bioc(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write a collection."""
    write_lines(_lines(documents), path)
    return Counter()


def _lines(documents: Iterable[Document]) -> Iterator[str]:
    yield '{"source": "arbo", "date": "", "key": "", "infons": {}, "documents": ['
    comma = ""
    for document in documents:
        yield comma + json.dumps(_document(document), ensure_ascii=False)
        comma = ","
    yield "]}"


def _document(document: Document) -> dict[str, Any]:
    passages = _passages(document)
    whole: list[dict[str, Any]] = []
    begins = [passage["offset"] for passage in passages]
    own = [mention.id.removeprefix(f"{document.id}:") for mention in document.mentions]
    for name, mention in zip(own, document.mentions, strict=True):
        passage = passages[max(0, bisect_right(begins, mention.start) - 1)]
        is_inside = passage["offset"] <= mention.start and mention.end <= passage["offset"] + len(passage["text"])
        (passage["annotations"] if is_inside else whole).append(_annotation(name, mention))
    lists = {"passages", "relations"}  # of BioC; other metadata of these names are infons
    infons = {key: value for key, value in document.metadata.items() if not (key in lists and isinstance(value, list))}
    relations = [] if "relations" in infons else document.metadata.get("relations", [])
    return {"id": document.id, "infons": infons, "passages": passages, "annotations": whole, "relations": relations}


def _passages(document: Document) -> list[dict[str, Any]]:
    """Return the passages of a document from BioC, if its text still has them, or else one passage."""
    text, found = document.text, []
    try:
        for one in document.metadata.get("passages", ()):
            end = one["offset"] + one["length"]
            found.append({"offset": one["offset"], "infons": {**one["infons"]}, "text": text[one["offset"] : end]})
    except (KeyError, TypeError):
        found = []
    end = 0
    for one in found:
        if not end <= one["offset"] or text[end : one["offset"]].strip("\n"):
            break
        end = one["offset"] + len(one["text"])
    else:
        if found and end == len(text):
            return [{**one, "annotations": []} for one in found]
    return [{"offset": 0, "infons": {}, "text": text, "annotations": []}]


def _annotation(name: str, mention: Mention) -> dict[str, Any]:
    infons = dict(mention.metadata)
    if mention.type is not None:
        infons["type"] = mention.type
    if mention.gold is not None:
        ids = [check_id(id_, _GOLD, of=mention.id) for id_ in mention.gold]
        infons["identifier"] = "|".join(ids) or _NIL
        if any(_SEPARATORS & {*id_} for id_ in ids):
            infons["identifiers"] = ids
    locations = [{"offset": start, "length": end - start} for start, end in mention.spans]
    return {"id": name, "infons": infons, "text": mention.text, "locations": locations}
