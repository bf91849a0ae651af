"""Write PubAnnotation (see `arbo.readers.pubannotation`): a JSON object for each document, one on each line.

A gold id is an attribute with the predicate `tao:has_database_id`; of a mention without a type it is the `obj`.
Metadata of mentions are attributes too, those of documents are further keys.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from arbo.data import Document, Mention
from arbo.files import PathLike, write_lines
from arbo.writers.lines import check_id

ID = re.compile(r"https?://\S+|[A-Za-z][\w.-]*:[\w./-]*[0-9][\w./-]*")
"""An `obj` that is an id."""
NAMES_ID = re.compile(r"(\A|[^a-z])(id|identifier)\Z", re.I)
"""Predicates of ids."""
NIL = "NIL"
_GOLD = re.compile(r"(?!NIL\Z).*", re.S)
_PREDICATE = "tao:has_database_id"


def write_pubannotation(documents: Iterable[Document], path: PathLike, _: Mapping[str, str]) -> Counter[str]:
    """Write JSON lines."""
    notes: Counter[str] = Counter()
    write_lines((json.dumps(_record(one, notes), ensure_ascii=False) for one in documents), path)
    return notes


def source_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the id that PubAnnotation gives to a document, from its database and its id there; None without them.

    >>> source_of({"sourcedb": "PMC", "sourceid": "12", "divid": 0})
    'PMC:12-0'
    """
    source, own, part = (metadata.get(key) for key in ("sourcedb", "sourceid", "divid"))
    return f"{source}:{own}" + ("" if part is None else f"-{part}") if source and own else None


def _record(document: Document, notes: Counter[str]) -> dict[str, Any]:
    denotations, attributes = [], []
    names = [mention.id.removeprefix(f"{document.id}:") for mention in document.mentions]
    if "" in names or len({*names}) < len(names):
        names = [f"T{number}" for number in range(1, len(names) + 1)]
    for name, mention in zip(names, document.mentions, strict=True):
        spans = [{"begin": start, "end": end} for start, end in mention.spans]
        notes["mentions whose pieces are sorted when they are read"] += [*mention.spans] != sorted(mention.spans)
        obj, facts = _facts(mention, notes)
        denotations.append({"id": name, "span": spans[0] if len(spans) == 1 else spans, "obj": obj})
        attributes += [{"subj": name, "pred": pred, "obj": value} for pred, value in facts]
    named = {} if source_of(document.metadata) == document.id else {"id": document.id}
    numbered = [{"id": f"A{number}", **one} for number, one in enumerate(attributes, 1)]
    # The denotations come first, so that the format is told from the beginning of a file.
    own = {**named, "denotations": denotations, "attributes": numbered, "text": document.text}
    return own | {key: value for key, value in document.metadata.items() if key not in {*own, "id", "tracks"}}


def _facts(mention: Mention, notes: Counter[str]) -> tuple[str, list[tuple[str, Any]]]:
    """Return the `obj` of a mention, and the predicates and objects of its attributes."""
    ids = [NIL] if mention.gold == () else [check_id(id_, _GOLD, of=mention.id) for id_ in mention.gold or ()]
    obj = mention.type or None
    if mention.type is None and len(ids) == 1 and (ids[0] == NIL or ID.fullmatch(ids[0])):
        obj, ids = ids[0], []
    elif not ids and ID.fullmatch(obj or ""):
        notes["types that are read as ids"] += 1
    notes["mentions without a type, written as `Mention`"] += obj is None
    further = {key: value for key, value in mention.metadata.items() if not NAMES_ID.search(key)}
    notes["further keys whose names end in `id` left out"] += len(mention.metadata) - len(further)
    facts = [(_PREDICATE, id_) for id_ in ids]
    for key, value in further.items():
        facts += [(key, one) for one in (value if isinstance(value, list) else [value])]
    return obj or "Mention", facts
