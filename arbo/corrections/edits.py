"""Obey the corrections of spans: mentions that are dropped, added, resized or split.

A correction names a mention by its document and its spans: those with which the mention came or, if no mention came
with these, those that another correction gave it, since people see it there. A resized mention, and the first part of
one that is split, keeps its id, so that other corrections of it still hold; to change a split, split the whole again.
Added mentions, and further parts, get an id of document and spans, as everywhere (`mention_ids`).

A run that grows obeys all its corrections again. So it keeps the mentions of edited documents as they came.
"""

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from arbo.corrections.agreement import settled
from arbo.corrections.lines import Correction
from arbo.data import Arrays, Corpus, Document, Mention, grouped, text_of
from arbo.data.documents import mention_ids
from arbo.data.tables import rows_with
from arbo.text.checks import Span

_AS_CAME = "given"


def uncorrected(documents: Corpus, arrays: Arrays) -> Corpus:
    """Return the documents of a run with the mentions that they had before corrections."""
    if _AS_CAME not in arrays:
        return documents
    mentions = json.loads(arrays[_AS_CAME].tobytes())
    edited = documents.with_ids(mentions).items()
    return documents.replaced({id_: replace(one, mentions=tuple(map(_mention, mentions[id_]))) for id_, one in edited})


def _mention(row: dict[str, Any]) -> Mention:
    gold = None if row["gold"] is None else tuple(row["gold"])
    return Mention(**{**row, "spans": tuple(map(tuple, row["spans"])), "gold": gold})


def edit_spans(documents: Corpus, corrections: Sequence[Correction]) -> tuple[Corpus, Sequence[Correction], Arrays]:
    """Return the documents with the mentions that the corrections of spans say, and what became of all corrections.

    The array is that from which `uncorrected` restores the edited documents, if there are any.
    """
    ids = dict.fromkeys(line.document for line in corrections if line.document is not None)
    if not ids:
        return documents, corrections, {}
    known = documents.with_ids(ids)
    lines = _by_first_spans(known.values(), corrections)
    claims = (((line.document, line.spans), (line.kind, line.value, line.record.get("type"))) for line in lines)
    lines = settled(lines, [None if claim[0][0] is None else claim for claim in claims])
    used = {*rows_with((id_ for line in lines for id_ in _new_ids(line)), documents.tables.mentions["mention_id"])}
    about: defaultdict[str, list[int]] = defaultdict(list)
    for place, line in enumerate(lines):
        if line.document is not None and line.status == "obeyed":
            if line.document in known:
                about[line.document].append(place)
            else:
                reason = f"no document has the id {line.document!r}; check it, or leave the line for later"
                lines[place] = line.but("waiting", reason)
    edited = {name: _edited(known[name], lines, places, used) for name, places in about.items()}
    came = {name: [asdict(mention) for mention in known[name].mentions] for name in about}
    arrays = {_AS_CAME: np.frombuffer(json.dumps(came).encode("utf-8"), np.uint8)} if came else {}
    return documents.replaced(edited), lines, arrays


def _parts(line: Correction) -> Sequence[tuple[Span, ...]]:
    """Return the spans of the mentions that a correction puts in the place of its own."""
    parts: Sequence[tuple[Span, ...]] = line.value if line.kind == "split" else ()
    return {"add": (line.spans,), "resize": (line.value,)}.get(line.kind, parts)


def _new_ids(line: Correction) -> list[str]:
    """Return the ids of the mentions that a correction may add."""
    added = _parts(line)[line.kind == "split" :] if line.kind in ("add", "split") else ()
    return [] if line.document is None else mention_ids(line.document, added)


def _by_first_spans(documents: Iterable[Document], lines: Sequence[Correction]) -> list[Correction]:
    """Return the lines with the spans with which their mentions came, if only one line resized these to the spans."""
    came: set[Hashable] = {(one.id, mention.spans) for one in documents for mention in one.mentions}
    came |= {(line.document, line.spans) for line in lines if line.kind == "add"}
    first: defaultdict[Hashable, set[tuple[Span, ...]]] = defaultdict(set)
    for line in lines:
        if line.kind == "resize" and (line.document, line.spans) in came and (line.document, line.value) not in came:
            first[line.document, line.value].add(line.spans)
    return [
        replace(line, spans=next(iter(spans)))
        if line.kind in ("drop", "resize", "split") and len(spans := first[line.document, line.spans]) == 1
        else line
        for line in lines
    ]


def _edited(document: Document, lines: list[Correction], places: list[int], used: set[str]) -> Document:
    """Return a document with the mentions that these lines say; a line that does not fit waits."""
    by_spans = grouped((mention.spans, mention) for mention in document.mentions)
    text, end = document.text, len(document.text)
    edited, added = dict[str, Mention | None](), dict[str, Mention]()
    for place in sorted(places, key=lambda place: (lines[place].spans, place)):
        line, is_new = lines[place], lines[place].kind == "add"
        parts, there = _parts(line), by_spans.get(line.spans, [])
        further = [part for part in (parts if is_new else parts[1:]) if part not in by_spans]
        new = dict(zip(mention_ids(document.id, further), further, strict=True))
        if max((stop for part in parts for _, stop in part), default=0) > end:
            lines[place] = line.but("waiting", f"its document has {end:,} characters; correct the offsets")
        elif not (there or is_new):
            lines[place] = line.but("waiting", "its document has no mention at these spans; check them")
        elif again := [name for name in new if name in used and name not in added]:
            lines[place] = line.but("conflict", f"another mention has the id {again[0]!r}; give that one another id")
        else:
            for one in () if is_new else there:
                edited[one.id] = replace(one, spans=parts[0], text=text_of(parts[0], text)) if parts else None
            type_ = line.record.get("type") if is_new else there[0].type
            added |= {name: Mention(name, document.id, part, text_of(part, text), type_) for name, part in new.items()}
    used |= added.keys()
    mentions = (edited.get(mention.id, mention) for mention in document.mentions)
    return replace(document, mentions=(*(mention for mention in mentions if mention is not None), *added.values()))
