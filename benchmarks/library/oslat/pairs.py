"""Cut documents and their mentions into pieces, and list the entities of each piece."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from arbo.data import Corpus, Document, KnowledgeBase, Mention
from arbo.data.documents import text_of
from arbo.data.gold import Gold
from arbo.spans.finding import Spans
from arbo.text.checks import Span
from arbo.text.words import Offsets, offsets_of
from clustering.arrays import Bools, Ids


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """Pieces of documents as separate documents, and their places in the original ones."""

    corpus: Corpus
    document: Ids  # (pieces,) the index of the original document
    begin: Ids  # (pieces,) start of the piece in the original document


def lines(text: str) -> Offsets:
    """Return the offsets of the lines of a text, without blank ones and blanks around them."""
    return offsets_of(match.span() for match in re.finditer(r"\S(?:.*\S)?", text))


def pieces(documents: Corpus, split: Callable[[str], Offsets] = lines) -> Pieces:
    r"""Cut documents and their mentions into pieces, at line ends or with another splitter.

    The id of a piece is ``document/line``, with the line on which it begins, counted from 1; further pieces of the same
    line add ``#2`` and so on. A mention in several pieces becomes one mention in each of them, cut to the piece; the
    first one keeps the id. The notes count such mentions.

    >>> mention = Mention("m", "d", ((2, 6),), "b\n\nc", gold=("E",))
    >>> [(piece.id, piece.mentions) for piece in pieces(Corpus([Document("d", "a b\n\nc d", (mention,))])).corpus][1]
    ('d/3', (Mention(id='m@d/3', document_id='d/3', spans=((0, 1),), text='c', type=None, gold=('E',), score=None),))
    """
    made: list[Document] = []
    home: list[int] = []
    begins: list[int] = []
    notes = Counter(documents.notes)
    for row, document in enumerate(documents):
        spans: list[Span] = [(begin, end) for begin, end in split(document.text).tolist()]
        names = _names(document, spans)
        inside = _mentions(document, spans, names, notes)
        for name, (begin, end), mentions in zip(names, spans, inside, strict=True):
            made.append(Document(name, document.text[begin:end], tuple(mentions), document.domain))
            home.append(row)
            begins.append(begin)
    return Pieces(Corpus(made, notes), np.array(home, np.int64), np.array(begins, np.int64))


def _names(document: Document, spans: list[Span]) -> list[str]:
    line, place = 1, 0
    on_line: Counter[int] = Counter()
    names = []
    for begin, _ in spans:
        line += document.text.count("\n", place, begin)
        place = begin
        on_line[line] += 1
        names.append(f"{document.id}/{line}" + (f"#{on_line[line]}" if on_line[line] > 1 else ""))
    return names


def _mentions(document: Document, spans: list[Span], names: list[str], notes: Counter[str]) -> list[list[Mention]]:
    begins, ends = [begin for begin, _ in spans], [end for _, end in spans]
    inside: list[list[Mention]] = [[] for _ in spans]
    for mention in document.mentions:
        parts: dict[int, list[Span]] = {}
        for begin, end in mention.spans:
            for piece in range(bisect_right(ends, begin), bisect_left(begins, end)):
                origin = begins[piece]
                part = max(begin, origin) - origin, min(end, ends[piece]) - origin
                parts.setdefault(piece, []).append(part)
        if len(parts) > 1:
            notes["mentions in several pieces: cut at the ends of the pieces"] += 1
        if not parts:
            notes["mentions of white space left out"] += 1
        for number, (piece, own) in enumerate(parts.items()):
            name = mention.id if number == 0 else f"{mention.id}@{names[piece]}"
            covered = text_of(own, document.text[begins[piece] : ends[piece]])
            inside[piece].append(Mention(name, names[piece], tuple(own), covered, mention.type, mention.gold))
    return inside


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Pairs of a text and an entity that it names, ``(corpus[text[i]], kb.entities[entity[i]])``, ordered by both."""

    corpus: Corpus
    text: Ids
    entity: Ids
    mentions: tuple[tuple[Spans, ...], ...]  # (pairs,) the entity's mentions in the text, as spans

    @classmethod
    def of(cls, corpus: Corpus, kb: KnowledgeBase) -> Pairs:
        """Pair each text with its gold entities that are in the knowledge base and in the domain of the text.

        A mention with several gold ids counts for each of them.
        """
        mentions: dict[tuple[int, int], list[Spans]] = defaultdict(list)
        right = iter(Gold.of(corpus, kb).lists)
        for row, document in enumerate(corpus):
            for mention in document.mentions:
                for entity in next(right):
                    mentions[row, entity].append(mention.spans)
        keys = sorted(mentions)
        pairs = np.array(keys, np.int64).reshape(-1, 2)
        return cls(corpus, pairs[:, 0], pairs[:, 1], tuple(tuple(mentions[key]) for key in keys))

    def __len__(self) -> int:
        return len(self.text)

    @property
    def is_disjoint(self) -> Bools:
        """(pairs,) whether a mention of the entity in the text has several spans."""
        return np.array([any(len(spans) > 1 for spans in mentions) for mentions in self.mentions], np.bool_)
