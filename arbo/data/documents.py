"""Documents, their mentions, and entities: immutable values that are checked on creation.

Offsets count Unicode code points, as `len` does, and the end is exclusive. The text is never normalised, so that
an offset means the same in the file, in memory and in every result.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from arbo.errors import DataError, counted
from arbo.text.checks import Span, check_metadata, check_name, check_spans, check_text, check_texts

_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Mention:
    """One or several spans of a document that together name one entity.

    `gold` is None if the mention is not annotated, `()` if it is annotated as NIL without an id, and otherwise all
    ids that are acceptable. Spans may touch, contain and overlap the spans of other mentions. `metadata` holds further
    keys or columns of the source, which affect neither results nor comparisons.
    """

    id: str
    document_id: str
    spans: tuple[Span, ...]
    text: str
    type: str | None = None
    gold: tuple[str, ...] | None = None
    score: float | None = field(default=None, compare=False)
    """The score of the finder that found the mention; None if no finder found it."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    cluster: str | None = field(default=None, repr=False)
    """The gold cluster, within a document or across documents; None if not annotated."""

    def __post_init__(self) -> None:
        check_name(self.id, "the mention id", of=self.document_id)
        check_name(self.document_id, "the document id", of=self.id)
        check_text(self.text, "the text of the mention", of=self.id)
        if self.type is not None:
            check_text(self.type, "the type of the mention", of=self.id)
        if self.gold is not None:
            check_texts(self.gold, "the gold ids", of=self.id, blank=False)
        if self.cluster is not None:
            check_name(self.cluster, "the gold cluster", of=self.id)
        check_spans(self.spans, of=self.id)
        check_metadata(self.metadata, of=self.id)

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The gold ids or, without any, the gold cluster; mentions with equal labels, if any, mean the same."""
        return (self.cluster,) if self.cluster is not None and not self.gold else self.gold

    @property
    def start(self) -> int:
        """Offset of the first code point of the mention."""
        return min([start for start, _ in self.spans])

    @property
    def end(self) -> int:
        """Offset after the last code point of the mention."""
        return max([end for _, end in self.spans])


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """A text and its mentions, in the given order.

    Mentions are compared only with entities and mentions of the same `domain` (see `arbo.retrieval.groups`); None
    counts as a domain too. For `metadata`, see `Mention`; its key `topic` divides documents for `Corpus.by_topic`, for
    scores by topic, and for training the cross-encoder of `arbo.train_edges`.
    """

    id: str
    text: str
    mentions: tuple[Mention, ...] = ()
    domain: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __repr__(self) -> str:
        domain = "" if self.domain is None else f", domain={self.domain!r}"
        size, mentions = counted(len(self.text), "characters"), counted(len(self.mentions), "mentions")
        return f"Document({self.id!r}, {size}, {mentions}{domain})"

    def __post_init__(self) -> None:
        check_name(self.id, "the document id")
        check_text(self.text, "the text of the document", of=self.id)
        if self.domain is not None:
            check_text(self.domain, "the domain of the document", of=self.id)
        check_metadata(self.metadata, of=self.id)
        seen: set[str] = set()
        for mention in self.mentions if isinstance(self.mentions, tuple) else (self.mentions,):
            if not isinstance(mention, Mention):
                wrong = f"mentions must be a tuple of Mention, not {type(mention).__name__}"
                raise DataError(f"{wrong}; arbo.Corpus.of makes documents of dicts", id=self.id)
            if mention.document_id != self.id:
                wrong = f"the mention has the document id {mention.document_id!r}, but is in document {self.id!r}"
                raise DataError(wrong, id=mention.id)
            if mention.end > len(self.text):
                wrong = f"a span ends at {mention.end}, but document {self.id!r} has {len(self.text)} characters"
                raise DataError(f"{wrong}; offsets count Unicode code points, not bytes", id=mention.id)
            if mention.text != text_of(mention.spans, self.text):
                wrong = f"the text of the mention differs from the text at its spans in document {self.id!r}"
                raise DataError(f"{wrong}; offsets count Unicode code points, and the end is exclusive", id=mention.id)
            if mention.id in seen:
                wrong = f"document {self.id!r} has two mentions with this id"
                raise DataError(f"{wrong}; change one, or leave the ids out and arbo will make them", id=mention.id)
            seen.add(mention.id)


@dataclass(frozen=True, slots=True)
class Entity:
    """An entry of a knowledge base.

    Gold annotations may use its id or one of its `alternative_ids`. `xrefs` are its ids in other knowledge bases, and
    `domain` is the domain of the mentions that can be linked to it. `metadata` holds further keys or columns of the
    source, which affect neither results nor comparisons.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    definition: str | None = None
    types: tuple[str, ...] = ()
    alternative_ids: tuple[str, ...] = ()
    xrefs: tuple[str, ...] = ()
    domain: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        check_name(self.id, "the entity id")
        check_name(self.name, "the entity's name", of=self.id)
        for what in ("aliases", "types", "xrefs", "alternative_ids"):
            check_texts(getattr(self, what), what, of=self.id, blank=what != "alternative_ids")
        for what in ("definition", "domain"):
            if getattr(self, what) is not None:
                check_text(getattr(self, what), what, of=self.id)
        check_metadata(self.metadata, of=self.id)


def text_of(spans: Sequence[Span], text: str) -> str:
    """Return the text that `spans` cover; spaces join the pieces of a discontinuous mention.

    >>> text_of(((0, 4), (15, 21)), "left and right kidney")
    'left kidney'
    """
    return " ".join([text[start:end] for start, end in spans])


class Marked(NamedTuple):
    """A mention as a source gives it; its id and text may be missing."""

    spans: tuple[Span, ...]
    type: str | None = None
    gold: tuple[str, ...] | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = {}
    cluster: str | None = None
    id: str | None = None
    text: str | None = None  # it is compared with the text at the spans


def marked_document(
    document_id: str, text: str, marked: Iterable[Marked], domain: str | None = None, metadata: Mapping[str, Any] = {}
) -> Document:
    """Return a document with these mentions; `mention_id` makes the ids of those without one."""
    uses: Counter[str] = Counter()  # `Counter[str]()` takes three times as long
    mentions = tuple([marked_mention(one, document_id, text, uses) for one in marked])
    return Document(document_id, text, mentions, domain, metadata)


def marked_mention(marked: Marked, document_id: str, text: str, uses: Counter[str]) -> Mention:
    """Return a mention in a text, with its own id or one that `mention_id` makes."""
    spans, kind, gold, score, metadata, cluster, own, surface = marked
    id_ = mention_id(document_id, spans, uses) if own is None else own
    if surface is not None and max(end for _, end in spans) <= len(text):
        compare(surface, spans, text, Counter(), of=id_)
    return Mention(id_, document_id, spans, text_of(spans, text), kind, gold, score, metadata, cluster)


def span_between(start: str, end: str, text: str, *, of: str) -> Span:
    """Return the span between two offsets, given as strings; raise DataError if they are not offsets of the text."""
    first, last = (int(one) if _INTEGER.fullmatch(one) else None for one in (start, end))
    return span_inside(first, last, text, f"the span {start:.30} to {end:.30}", of=of)


def span_inside(start: object, end: object, text: str, what: str, *, of: str | None = None) -> Span:
    """Return the span between two integers; raise DataError, which does not quote the text, if it is not inside it."""
    if type(start) is int and type(end) is int and 0 <= start < end <= len(text):
        return start, end
    rule = f"integers with 0 <= start < end <= {len(text)}, its number of Unicode code points"
    raise DataError(f"{what} must lie inside the text: {rule}", id=of)


def compare(surface: str, spans: Sequence[Span], text: str, notes: Counter[str], *, of: str) -> None:
    """Compare the text that the source gives for a mention with the text at its spans.

    A difference only in white space is counted in ``notes``, and the offsets hold; any other raises a DataError, which
    says where the text was found, or what the offsets count, such as bytes or UTF-16 units.
    """
    if (covered := text_of(spans, text)) == surface:
        return
    if covered.split() != surface.split():
        where = ", ".join(f"{start} to {end}" for start, end in spans)
        wrong = f"the text of the mention is {surface!r:.60}, but the text at {where} is {covered!r:.60}"
        raise DataError(f"{wrong}; {_diagnosis(surface, spans, text)}", id=of)
    notes["mention texts differing from the document in white space"] += 1


def _diagnosis(surface: str, spans: Sequence[Span], text: str) -> str:
    for unit, encoding, width in (("UTF-8 bytes", "utf-8", 1), ("UTF-16 units", "utf-16-le", 2)):
        raw = text.encode(encoding, "surrogatepass")
        if " ".join(raw[start * width : end * width].decode(encoding, "replace") for start, end in spans) == surface:
            return f"the offsets seem to count {unit}, but must count Unicode code points"
    if text_of(spans, text.replace("\r\n", "\n")) == surface:
        return "the offsets seem to count each line end as one character; save the text with line feeds only"
    first = min(start for start, _ in spans)
    before, after = text.rfind(surface, 0, first + len(surface)), text.find(surface, first)
    found = [place for place in (before, after) if place >= 0]
    if surface and found:
        nearest = min(found, key=lambda place: abs(place - first))
        return f"the mention's text was found at {nearest} to {nearest + len(surface)}; correct the offsets"
    return "offsets count Unicode code points, the end is exclusive; --set on_error=skip leaves the document out"


def mention_ids(document_id: str, spans: Iterable[Sequence[Span]]) -> list[str]:
    """Make ids for the mentions of a document from its id and their spans; repeated ids get a number.

    >>> mention_ids("d", [((0, 4),), ((0, 4),), ((0, 4), (15, 21))])
    ['d:0-4', 'd:0-4#2', 'd:0-4,15-21']
    """
    uses = Counter[str]()
    return [mention_id(document_id, pieces, uses) for pieces in spans]


def mention_id(document_id: str, spans: Sequence[Span], uses: Counter[str]) -> str:
    """Make the id of a mention, see `mention_ids`, and count the uses of its document and spans."""
    name = f"{document_id}:" + ",".join(f"{start}-{end}" for start, end in spans)
    uses[name] += 1
    return name if uses[name] == 1 else f"{name}#{uses[name]}"
