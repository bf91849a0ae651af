"""Find mentions in unmarked documents by label attention: which entities a sentence mentions, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, product
from typing import Any, Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.gold import Gold
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Floats, Ids
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import EncodedKb
from arbo.spans.finding import Proposal, nearest_entities
from arbo.spans.model import LabelAttention
from arbo.text.checks import Span
from arbo.text.words import APOSTROPHES, Offsets, content_words, offsets_of, passages

_TIE = re.compile(rf"(?:[{APOSTROPHES}]s?)?[\s\u00ad\u2010\u2011-]*")


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """The sentences of documents (see `passages`), and their places."""

    documents: Corpus
    texts: tuple[str, ...]
    document: Ids  # (pieces,) the index of the document, ascending
    begin: Ids  # (pieces,) start of the piece in the document

    @classmethod
    def of(cls, documents: Corpus) -> Self:
        """Cut documents into sentences."""
        places = [(row, *ends) for row, document in enumerate(documents) for ends in passages(document.text).tolist()]
        texts = tuple(documents[row].text[begin:end] for row, begin, end in places)
        home, begins, _ = np.array(places, np.int64).reshape(-1, 3).T
        return cls(documents, texts, home, begins)

    def entities(self, kb: KnowledgeBase) -> tuple[Ids, Ids]:
        """Return the pairs of a piece and an entity that is annotated in it, as (pieces, entities), ordered by both.

        A mention belongs to each piece with which it shares a character, and counts for each of its gold ids that is in
        the knowledge base and in the domain of the document.
        """
        ends, gold = self.begin + np.array([*map(len, self.texts)], np.int64), iter(Gold.of(self.documents, kb).lists)
        pairs: set[tuple[int, int]] = set()
        for row, document in enumerate(self.documents):
            here = np.arange(*np.searchsorted(self.document, (row, row + 1)))
            for mention in document.mentions:
                entities = next(gold)
                for begin, end in mention.spans:
                    touched = here[(self.begin[here] < end) & (begin < ends[here])]
                    pairs.update(product(touched.tolist(), entities))
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]


@dataclass(frozen=True, slots=True)
class ModelFinder:
    """Proposes the entities that a model finds in a sentence, among candidates near it; one mention of each."""

    model: LabelAttention
    candidates: int = 32
    """Number of candidate entities for each sentence."""
    abbreviations: bool = True
    """Whether candidates are looked for by the long forms of abbreviations that a document defines."""

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions of the entities whose score is at least the threshold of the model."""
        pieces = Pieces.of(documents)
        text, entity = self.candidates_of(pieces, kb, announce)
        for look in self.model.looks(pieces.texts, kb, text, entity, announce):
            likely = np.flatnonzero(look.score >= self.model.threshold)
            rows = spans_of(pieces.texts[look.text], look.tokens, look.weights[likely])
            document, origin = int(pieces.document[look.text]), int(pieces.begin[look.text])
            for place, spans in zip(likely.tolist(), rows, strict=True):
                if moved := tuple((origin + begin, origin + end) for begin, end in spans):
                    yield Proposal(document, moved, int(entity[look.pairs[place]]), float(look.score[place]))

    def candidates_of(self, pieces: Pieces, kb: KnowledgeBase, announce: Announce = quiet) -> tuple[Ids, Ids]:
        """Return the candidates of sentences as pairs, (sentences, entities), ordered by sentence and dissimilarity.

        They are the entities in the document's domain with the names nearest to the sentence, by character n-grams.
        """
        begins = zip(pieces.document.tolist(), pieces.begin.tolist(), pieces.texts, strict=True)
        places = [(row, begin, begin + len(text)) for row, begin, text in begins]
        names, k = EncodedKb(kb, NgramEncoder()), min(self.candidates, len(kb))
        how: Any = {"abbreviations": self.abbreviations, "announce": announce}
        near = nearest_entities(pieces.documents, places, names, k, **how).ids
        text, column = np.nonzero(near >= 0)
        return text, near[text, column].astype(np.int64)


def spans_of(text: str, tokens: Offsets, weight: Floats, threshold: float = 0.05) -> list[tuple[Span, ...]]:
    """Find the spans of entities in a text: the words to which each entity attends, without stop words.

    The weight of a word is the sum over the tokens that it touches; words at or above the threshold are kept (section
    6.1 compares it with each token). Adjacent kept words are joined into one span if only white space, hyphens or an
    apostrophe (perhaps with an s) separate them. ``tokens`` has the offsets of the tokens, (tokens, 2), and ``weight``
    the attention of the entities, (entities, tokens).

    >>> tokens = np.array([[0, 4], [5, 8], [9, 13], [13, 17], [18, 20], [21, 25]])
    >>> weight = np.array([[0.3, 0.1, 0.01, 0.02, 0.2, 0.37], [0.0, 0.0, 0.4, 0.2, 0.2, 0.2]])
    >>> spans_of("pain and swelling in knee", tokens, weight)
    [((0, 4), (21, 25)), ((9, 17), (21, 25))]
    """
    words = content_words(text)
    begins, ends = offsets_of(words).T
    touched = (tokens[:, :1] < ends) & (begins < tokens[:, 1:])
    rows = []
    for is_kept in weight @ touched >= threshold:
        spans: list[Span] = []
        for begin, end in compress(words, is_kept):
            is_tied = spans and _TIE.fullmatch(text, spans[-1][1], begin)
            spans.append((spans.pop()[0] if is_tied else begin, end))
        rows.append(tuple(spans))
    return rows
