"""Documents cut into pieces, and the split of a corpus by entities: the data of the OSLAT experiment.

Li et al. 2022, OSLAT: Open set label attention transformer for medical entity retrieval and span extraction,
section 5.1.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention, text_of
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import UsageError
from arbo.spans.overlaps import Spans
from arbo.text.checks import Span
from arbo.text.sentences import Splitter, lines
from clustering.arrays import Bools, Ids

_BINS = (0.2, 0.4, 0.4)
"""Shares of the unseen entities that are drawn from the third of the frequent, the middling and the rare ones."""


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """Pieces of documents as documents of their own, and where they come from."""

    corpus: Corpus
    document: Ids
    """(pieces,) the row of each piece's document."""
    begin: Ids
    """(pieces,) where it begins there."""


def pieces(documents: Corpus, split: Splitter = lines) -> Pieces:
    r"""Cut documents into pieces, at line ends or as another splitter says; mentions go with the text they are in.

    A piece has the id ``document/line`` with the line it begins on, counted from 1, and ``#2`` and so on for further
    pieces of that line. A mention that reaches into several pieces is one in each of them, with what of it is
    there, the first under its own id: its entity is named in each, though nowhere in full. The notes count those.

    >>> mention = Mention("m", "d", ((2, 6),), "b\n\nc", gold=("E",))
    >>> [(piece.id, piece.mentions) for piece in pieces(Corpus([Document("d", "a b\n\nc d", (mention,))])).corpus][1]
    ('d/3', (Mention(id='m@d/3', document_id='d/3', spans=((0, 1),), text='c', type=None, gold=('E',)),))
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
    """Return the mentions in each piece."""
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
            notes["mentions in several pieces: in each with what of them is there"] += 1
        if not parts:
            notes["mentions of white space left out"] += 1
        for number, (piece, own) in enumerate(parts.items()):
            name = mention.id if number == 0 else f"{mention.id}@{names[piece]}"
            covered = text_of(own, document.text[begins[piece] : ends[piece]])
            inside[piece].append(Mention(name, names[piece], tuple(own), covered, mention.type, mention.gold))
    return inside


@dataclass(frozen=True, eq=False, slots=True)
class Pairs:
    """Texts, each with an entity that it names: ``(corpus[text[i]], kb.entities[entity[i]])``; by text, then entity."""

    corpus: Corpus
    text: Ids
    entity: Ids
    mentions: tuple[tuple[Spans, ...], ...]
    """Of each pair: where the text names the entity, once or several times, each time in one span or several."""

    @classmethod
    def of(cls, corpus: Corpus, kb: KnowledgeBase) -> Pairs:
        """List the entities that each text is annotated with, those of its domain that the knowledge base holds.

        A mention of several gold ids is one of each.
        """
        found: dict[tuple[int, int], list[Spans]] = defaultdict(list)
        for row, document in enumerate(corpus):
            for mention in document.mentions:
                for entity in kb.rows_within(mention.gold or (), document.domain):
                    found[row, entity].append(mention.spans)
        keys = sorted(found)
        pairs = np.array(keys, np.int64).reshape(-1, 2)
        return cls(corpus, pairs[:, 0], pairs[:, 1], tuple(tuple(found[key]) for key in keys))

    @property
    def disjoint(self) -> Bools:
        """(pairs,) whether the text names the entity in several spans at once, at least one time."""
        return np.array([any(len(spans) > 1 for spans in mentions) for mentions in self.mentions], np.bool_)

    def taken(self, chosen: Bools) -> Pairs:
        """Return those of the pairs that are marked."""
        mentions = tuple(self.mentions[place] for place in np.flatnonzero(chosen))
        return Pairs(self.corpus, self.text[chosen], self.entity[chosen], mentions)

    def __len__(self) -> int:
        return len(self.text)


@dataclass(frozen=True, eq=False, slots=True)
class EntitySplit:
    """Pairs to train on and pairs to test on, of entities that training sees and of some that it does not."""

    train: Corpus
    """Texts with the mentions of pairs to train on alone, in the order given; what has none is left out."""
    test: Pairs
    test_seen: Bools
    """(pairs of test,) whether training has the entity, in other texts."""
    seen: Ids
    """Rows of the entities whose pairs are not all held out, ascending."""
    unseen: Ids
    """Rows of the others, ascending."""


def entity_split(
    corpus: Corpus, kb: KnowledgeBase, *, unseen: float = 0.1, test: float = 0.1, least: int = 5, seed: int = 0
) -> EntitySplit:
    """Split the pairs of text and entity of a corpus: by entity, then by text.

    A tenth of the entities is unseen, all of their pairs are for test. They are drawn from the entities sorted by how
    many texts they are in (the first in the knowledge base before others of equally many) and cut into thirds of equal
    numbers: 20 % from the third of the most frequent, 40 % from each of the others. Of each other entity a tenth of its
    pairs, rounded down, is for test, but never so many that fewer than five are left for training.

    What the paper leaves open is read so: it is the pair that is held out, not the text, which may be trained on with
    its other entities ("from the perspective of the entity"). Training does not know that the entity is there too.

    Args:
        corpus: pieces of documents, see `pieces`; entities are those that `Pairs.of` finds.
        kb: the entities.
        unseen: share of the entities, rounded.
        test: share of the pairs of each seen entity, rounded down.
        least: pairs that each seen entity keeps for training, or all that it has.
        seed: of the drawing.

    Raises:
        UsageError: shares outside 0 .. 1, or no text with an entity of the knowledge base.

    """
    for name, share in (("unseen", unseen), ("test", test)):
        if not 0 <= share <= 1:
            raise UsageError(f"{name} is a share from 0 to 1, not {share}")
    pairs = Pairs.of(corpus, kb)
    if not len(pairs):
        raise UsageError("no text is annotated with an entity of the knowledge base: do the ids match?")
    random = np.random.default_rng(seed)
    entities, count = np.unique(pairs.entity, return_counts=True)
    held = _drawn(entities, count, round(unseen * len(entities)), random)
    is_seen = ~np.isin(pairs.entity, held)
    is_test = ~is_seen
    for entity in np.setdiff1d(entities, held).tolist():
        own = np.flatnonzero(pairs.entity == entity)
        n_test = max(0, min(int(test * len(own)), len(own) - least))
        is_test[random.choice(own, n_test, replace=False)] = True
    chosen = pairs.taken(is_test)
    return EntitySplit(
        train=_trained(pairs.taken(~is_test), kb),
        test=chosen,
        test_seen=is_seen[is_test],
        seen=np.setdiff1d(entities, held),
        unseen=held,
    )


def _drawn(entities: Ids, count: Ids, n: int, random: np.random.Generator) -> Ids:
    """Draw the unseen entities, ascending."""
    thirds = np.array_split(entities[np.argsort(-count, kind="stable")], len(_BINS))
    wanted = np.diff(np.round(np.cumsum([0, *_BINS]) * n)).astype(np.int64)
    drawn = [
        random.choice(third, min(n_of, len(third)), replace=False) for third, n_of in zip(thirds, wanted, strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def _trained(pairs: Pairs, kb: KnowledgeBase) -> Corpus:
    """Return the texts of pairs with the mentions of these pairs alone."""
    entities: dict[int, set[int]] = defaultdict(set)
    for text, entity in zip(pairs.text.tolist(), pairs.entity.tolist(), strict=True):
        entities[text].add(entity)
    return Corpus(
        (_only(pairs.corpus[text], own, kb) for text, own in entities.items()),
        pairs.corpus.notes,
    )


def _only(document: Document, entities: set[int], kb: KnowledgeBase) -> Document:
    """Return a document with the mentions of some entities alone, and with no other gold ids."""

    def kept() -> Iterator[Mention]:
        for mention in document.mentions:
            rows = kb.rows_within(mention.gold or (), document.domain)
            if own := tuple(kb.entities[row].id for row in rows if row in entities):
                yield replace(mention, gold=own)

    return replace(document, mentions=tuple(kept()))
