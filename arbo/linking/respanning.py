"""Obey the corrections of spans: mentions that are dropped, added, or resized.

A mention is known by its document and its spans: those with which it came or, if no mention came with these, those that
another line gave it, since people see it there. A resized mention keeps its id, so that what is known about it holds.
Added mentions get an id of document and spans, as everywhere (`mention_ids`).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from arbo.data import Corpus, Document, Mention
from arbo.data.documents import mention_ids, text_of
from arbo.linking.agreement import Claim, settled
from arbo.linking.altered import Altered
from arbo.linking.corrections import Correction
from arbo.text.checks import Span

Given: TypeAlias = Corpus | Altered


def respanned(corpus: Given, corrections: Sequence[Correction]) -> tuple[Given, list[Correction], dict[str, Document]]:
    """Return the documents with corrected mentions, all corrections, and the corrected documents as they were.

    Corrections of spans say what became of them.
    """
    documents = corpus.found(dict.fromkeys(line.document for line in corrections if line.document is not None))

    def claims(line: Correction) -> Iterator[tuple[Hashable, Claim]]:
        if line.document is not None:
            yield (line.document, line.spans), (line.kind, line.value, line.record.get("type"))

    lines = settled(_as_came(documents.values(), corrections), claims)
    new = ((line.document, line.spans) for line in lines if line.kind == "add" and line.document is not None)
    used = {*corpus.homes(name for home, spans in new for name in mention_ids(home, [spans]))}
    about: defaultdict[str, list[int]] = defaultdict(list)
    for place, line in enumerate(lines):
        if line.document is not None and line.status == "obeyed":
            if line.document in documents:
                about[line.document].append(place)
            else:
                told = f"no document has the id {line.document!r}; check it, or leave the line for later"
                lines[place] = line.but("waiting", told)
    changed = {name: _changed(documents[name], lines, places, used) for name, places in about.items()}
    return corpus.replaced(changed), lines, {name: documents[name] for name in about}


def _as_came(documents: Iterable[Document], lines: Sequence[Correction]) -> list[Correction]:
    """Return the lines with the spans with which their mentions came, if only one line resized these to the spans."""
    came: set[Hashable] = {(one.id, own.spans) for one in documents for own in one.mentions}
    came |= {(line.document, line.spans) for line in lines if line.kind == "add"}
    source: defaultdict[Hashable, set[tuple[Span, ...]]] = defaultdict(set)
    for line in lines:
        if line.kind == "resize" and (line.document, line.spans) in came and (line.document, line.value) not in came:
            source[line.document, line.value].add(line.spans)
    found = list(lines)
    for place, line in enumerate(lines):
        if line.kind in ("drop", "resize") and len(spans := source[line.document, line.spans]) == 1:
            found[place] = replace(line, spans=next(iter(spans)))
    return found


def _changed(document: Document, lines: list[Correction], places: list[int], used: set[str]) -> Document:
    """Return a document with the mentions that these lines say; a line that does not fit waits."""
    by_spans: defaultdict[tuple[tuple[int, int], ...], list[Mention]] = defaultdict(list)
    for mention in document.mentions:
        by_spans[mention.spans].append(mention)
    end = len(document.text)
    other: dict[str, Mention | None] = {}
    added: dict[str, Mention] = {}
    for place in sorted(places, key=lambda place: (lines[place].spans, place)):
        line = lines[place]
        spans = line.value if line.kind == "resize" else line.spans
        there = by_spans.get(line.spans, [])
        if line.kind != "drop" and max(stop for _, stop in spans) > end:
            lines[place] = line.but("waiting", f"its document has {end:,} characters; correct the offsets")
        elif line.kind == "add":
            [name] = mention_ids(document.id, [spans])
            if not there and name in used and name not in added:
                lines[place] = line.but("conflict", f"another mention has the id {name!r}; give that one another id")
            elif not there:
                text = text_of(spans, document.text)
                added[name] = Mention(name, document.id, spans, text, line.record.get("type"))
        elif not there:
            lines[place] = line.but("waiting", "its document has no mention at these spans; check them")
        else:
            for one in there:
                text = text_of(spans, document.text) if line.kind == "resize" else ""
                other[one.id] = replace(one, spans=spans, text=text) if text else None
    used |= added.keys()
    kept = (other.get(mention.id, mention) for mention in document.mentions)
    return replace(document, mentions=(*(mention for mention in kept if mention is not None), *added.values()))
