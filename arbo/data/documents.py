"""Documents and their mentions: frozen values, checked when they are made.

Offsets count Unicode code points, as `len` does, and the end is exclusive. The text is never normalised, so that
an offset means the same in the file, in memory and in every result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arbo.errors import DataError
from arbo.text.checks import Span, check_name, check_spans, check_text, check_texts


@dataclass(frozen=True, slots=True)
class Mention:
    """One or several spans of a document that together name one entity.

    `gold` is None if the mention is not annotated, `()` if it is annotated as NIL without an id, and
    otherwise holds every acceptable id. Spans may touch, nest and overlap the spans of other mentions.
    """

    id: str
    document_id: str
    spans: tuple[Span, ...]
    text: str
    type: str | None = None
    gold: tuple[str, ...] | None = None
    score: float | None = None
    """The confidence of the finder that found the mention; None if it was marked otherwise."""

    def __post_init__(self) -> None:
        check_name(self.id, "the mention id", of=self.document_id)
        check_name(self.document_id, "the document id", of=self.id)
        check_text(self.text, "the text of the mention", of=self.id)
        if self.type is not None:
            check_text(self.type, "the type of the mention", of=self.id)
        if self.gold is not None:
            check_texts(self.gold, "the gold ids", of=self.id, blank=False)
        check_spans(self.spans, of=self.id)

    @property
    def start(self) -> int:
        """Offset of the first code point of all spans."""
        return min(start for start, _ in self.spans)

    @property
    def end(self) -> int:
        """Offset after the last code point of all spans."""
        return max(end for _, end in self.spans)


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """A text and its mentions, in the given order.

    Mentions are compared only with entities and mentions of the same `domain` (see `arbo.retrieval.domains`). None is
    a domain like any other.
    """

    id: str
    text: str
    mentions: tuple[Mention, ...] = ()
    domain: str | None = None

    def __repr__(self) -> str:
        domain = "" if self.domain is None else f", domain={self.domain!r}"
        return f"Document({self.id!r}, {len(self.text)} characters, {len(self.mentions)} mentions{domain})"

    def __post_init__(self) -> None:
        check_name(self.id, "the document id")
        check_text(self.text, "the text of the document", of=self.id)
        if self.domain is not None:
            check_text(self.domain, "the domain of the document", of=self.id)
        if not isinstance(self.mentions, tuple):
            raise DataError(f"mentions must be a tuple of Mention, not {type(self.mentions).__name__}", id=self.id)
        seen: set[str] = set()
        for mention in self.mentions:
            self._check(mention)
            if mention.id in seen:
                raise DataError(
                    f"document {self.id!r} has two mentions with this id; leave the ids out, and arbo will make them",
                    id=mention.id,
                )
            seen.add(mention.id)

    def _check(self, mention: Mention) -> None:
        if mention.document_id != self.id:
            raise DataError(
                f"the mention has the document id {mention.document_id!r}, but is in document {self.id!r}",
                id=mention.id,
            )
        if mention.end > len(self.text):
            raise DataError(
                f"a span ends at {mention.end}, but document {self.id!r} has {len(self.text)} characters; "
                "offsets count Unicode code points, not bytes",
                id=mention.id,
            )
        if mention.text != text_of(mention.spans, self.text):
            raise DataError(
                f"the text of the mention differs from the text at its spans in document {self.id!r}; "
                "offsets count Unicode code points, the end is exclusive",
                id=mention.id,
            )


def text_of(spans: Sequence[Span], text: str) -> str:
    """Return the text that `spans` cover; a blank joins the pieces of a discontinuous mention.

    >>> text_of(((0, 4), (15, 21)), "left and right kidney")
    'left kidney'
    """
    return " ".join(text[start:end] for start, end in spans)


def mention_ids(document_id: str, spans: Iterable[Sequence[Span]]) -> list[str]:
    """Make ids for the mentions of a document from its id and their spans; equal ones are numbered.

    >>> mention_ids("d", [((0, 4),), ((0, 4),), ((0, 4), (15, 21))])
    ['d:0-4', 'd:0-4#2', 'd:0-4,15-21']
    """
    uses: Counter[str] = Counter()
    ids = []
    for pieces in spans:
        name = f"{document_id}:" + ",".join(f"{start}-{end}" for start, end in pieces)
        uses[name] += 1
        ids.append(name if uses[name] == 1 else f"{name}#{uses[name]}")
    return ids
