"""Documents and the mentions marked in them: frozen values that are valid from birth.

Offsets count Unicode code points (what `len` counts in Python), the end is exclusive, and the text is
never normalised, so that an offset means the same in the file, in memory and in every result.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Self, overload

from arbo.errors import DataError, UsageError
from arbo.text import check_name, check_text, check_texts

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mention:
    """One or several spans of a document that together name one entity.

    `gold` is None where nothing is annotated, `()` where the annotation says NIL without an id, and
    otherwise holds every acceptable id. Spans may touch, nest and overlap those of other mentions.
    """

    id: str
    document_id: str
    spans: tuple[Span, ...]
    text: str
    type: str | None = None
    gold: tuple[str, ...] | None = None

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
        """The first code point of all spans."""
        return min(start for start, _ in self.spans)

    @property
    def end(self) -> int:
        """The code point after the last of all spans."""
        return max(end for _, end in self.spans)


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its mentions, in the order in which they were given.

    `domain` names the world that the document and its mentions belong to: they are compared with the entities and
    mentions of the same domain alone (see `arbo.domains`). None is a domain like any other.
    """

    id: str
    text: str = field(repr=False)
    mentions: tuple[Mention, ...] = ()
    domain: str | None = None

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
                    f"document {self.id!r} has two mentions with this id; leave ids out to have them made",
                    id=mention.id,
                )
            seen.add(mention.id)

    def _check(self, mention: Mention) -> None:
        if mention.document_id != self.id:
            raise DataError(
                f"the mention says it is in {mention.document_id!r}, but stands in {self.id!r}", id=mention.id
            )
        if mention.end > len(self.text):
            raise DataError(
                f"a span ends at {mention.end}, but document {self.id!r} has {len(self.text)} characters; "
                "offsets count Unicode code points, not bytes",
                id=mention.id,
            )
        if mention.text != text_of(mention.spans, self.text):
            raise DataError(
                f"the text of the mention is not what its spans cover in document {self.id!r}; "
                "offsets count Unicode code points, the end is exclusive",
                id=mention.id,
            )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Corpus(Sequence[Document]):
    """Documents in order, with unique ids; `notes` counts the quirks met while reading them.

    >>> corpus = Corpus([Document("d", "a cat", (Mention("m", "d", ((2, 5),), "cat", "Animal"),))])
    >>> corpus
    Corpus(1 documents, 1 mentions)
    >>> corpus.of_types("Disease").mentions
    ()
    """

    documents: tuple[Document, ...]
    mentions: tuple[Mention, ...] = field(compare=False)
    notes: dict[str, int] = field(compare=False)

    def __init__(self, documents: Iterable[Document] = (), notes: Mapping[str, int] | None = None) -> None:
        documents = tuple(documents)
        _check_unique(documents)
        object.__setattr__(self, "documents", documents)
        object.__setattr__(self, "mentions", tuple(m for document in documents for m in document.mentions))
        object.__setattr__(self, "notes", dict(notes or {}))

    @classmethod
    def of(cls, documents: Iterable[Any]) -> Corpus:
        """Return documents, or rows of a frame or a `Dataset`, as a corpus; one that is a corpus stays itself.

        Rows are documents or mentions, see `arbo.readers.rows`.
        """
        if isinstance(documents, Corpus):
            return documents
        from arbo.readers.rows import documents_of, items_of

        items = items_of(documents)
        if items is None:
            raise UsageError(
                f"expected documents, not {type(documents).__name__}; put one document into a list, "
                "take one split of several, read files with arbo.read_documents(path, format)"
            )
        return documents_of(items) if items and isinstance(items[0], Mapping) else cls(items)

    def of_types(self, types: str | Iterable[str]) -> Corpus:
        """Return the same documents with the mentions of these types alone."""
        wanted = {types} if isinstance(types, str) else set(types)
        return Corpus(
            (replace(d, mentions=tuple(m for m in d.mentions if m.type in wanted)) for d in self.documents),
            self.notes,
        )

    def of_ids(self, ids: str | Iterable[str]) -> Corpus:
        """Return the documents with these ids alone, in the order of the corpus: a split that is given as a list.

        Raises:
            UsageError: an id that no document has.

        """
        wanted = {ids} if isinstance(ids, str) else set(ids)
        chosen = [document for document in self.documents if document.id in wanted]
        if len(chosen) < len(wanted):
            missing = sorted(wanted - {document.id for document in chosen})
            raise UsageError(
                f"{len(missing):,} of {len(wanted):,} ids are of no document here; the first is {missing[0]!r}"
            )
        return Corpus(chosen, self.notes)

    def unseen_in(self, train: Iterable[Document]) -> Corpus:
        """Return the same documents without the mentions that have a gold id in common with some of ``train``'s."""
        seen = {id_ for document in train for mention in document.mentions for id_ in mention.gold or ()}
        return Corpus(
            (
                replace(d, mentions=tuple(m for m in d.mentions if seen.isdisjoint(m.gold or ())))
                for d in self.documents
            ),
            self.notes,
        )

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of ids, texts, mentions and domains, in order."""
        digest = hashlib.sha256()
        for document in self.documents:
            content = astuple(document)
            # Without a domain it is what it was before there were domains: runs of that time still fit their documents.
            kept = content if document.domain is not None else content[:-1]
            digest.update(json.dumps(kept).encode("ascii") + b"\n")
        return digest.hexdigest()

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Document | Self:
        if isinstance(index, slice):
            return type(self)(self.documents[index], self.notes)
        return self.documents[index]

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        return f"Corpus({len(self.documents)} documents, {len(self.mentions)} mentions)"


def text_of(spans: Sequence[Span], text: str) -> str:
    """Return what `spans` cover in `text`; the pieces of a discontinuous mention are joined by a blank.

    >>> text_of(((0, 4), (15, 21)), "left and right kidney")
    'left kidney'
    """
    return " ".join(text[start:end] for start, end in spans)


def mention_ids(document_id: str, spans: Iterable[Sequence[Span]]) -> list[str]:
    """Name the mentions of a document that came without ids: by document and spans, numbered if equal.

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


def check_spans(spans: object, *, of: str | None = None) -> None:
    """Raise unless `spans` is a non-empty tuple of pairs `(start, end)` with `0 <= start < end`."""
    if not isinstance(spans, tuple) or not spans:
        raise DataError("a mention needs a tuple of one or more spans (start, end)", id=of)
    for span in spans:
        # `type`, not `isinstance`: True and False are ints to Python, and never offsets.
        if not isinstance(span, tuple) or len(span) != 2 or any(type(offset) is not int for offset in span):
            raise DataError(f"a span must be a pair of integers (start, end), not {span!r:.60}", id=of)
        start, end = span
        if start < 0:
            raise DataError(f"the span {start} to {end} begins before the document", id=of)
        if start >= end:
            raise DataError(f"the span {start} to {end} is empty; the end is exclusive", id=of)


def _check_unique(documents: tuple[Document, ...]) -> None:
    seen: set[str] = set()
    home: dict[str, str] = {}
    for document in documents:
        if not isinstance(document, Document):
            raise UsageError(f"expected documents, not {type(document).__name__}; rows are dicts, given to Corpus.of")
        if document.id in seen:
            raise DataError("two documents have this id; ids must be unique", id=document.id)
        seen.add(document.id)
        for mention in document.mentions:
            if home.setdefault(mention.id, document.id) != document.id:
                raise DataError(
                    f"documents {home[mention.id]!r} and {document.id!r} both have a mention with this id; "
                    "leave ids out to have them made",
                    id=mention.id,
                )
