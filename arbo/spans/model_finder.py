"""Find mentions in unmarked documents by label attention: which entities a sentence mentions, and where."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
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
        offsets = [passages(document.text) for document in documents]
        home = np.repeat(np.arange(len(offsets)), [len(some) for some in offsets])
        spans = zip(documents, offsets, strict=True)
        texts = tuple(document.text[begin:end] for document, places in spans for begin, end in places.tolist())
        return cls(documents, texts, home, np.concatenate([offsets_of(()), *offsets])[:, 0])

    def entities(self, kb: KnowledgeBase) -> tuple[Ids, Ids]:
        """Return the pairs of a piece and an entity that is annotated in it, as (pieces, entities), ordered by both.

        A mention belongs to each piece with which it shares a character, and counts for each of its gold ids that is in
        the knowledge base and in the domain of the document.
        """
        start = np.cumsum([0, *(len(document.text) for document in self.documents)]).tolist()
        begins = (np.array(start)[self.document] + self.begin).tolist()
        ends = [begin + len(text) for begin, text in zip(begins, self.texts, strict=True)]
        home = [at for at, document in zip(start, self.documents, strict=False) for _ in document.mentions]
        pairs: set[tuple[int, int]] = set()
        for at, mention, entities in zip(home, self.documents.mentions, Gold.of(self.documents, kb).lists, strict=True):
            for begin, end in mention.spans:
                touched = range(bisect_right(ends, at + begin), bisect_left(begins, at + end))
                pairs.update((piece, entity) for piece in touched for entity in entities)
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
    _names: list[EncodedKb] = field(default_factory=list, init=False, repr=False, compare=False)

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions of the entities whose score is at least the threshold of the model."""
        pieces = Pieces.of(documents)
        text, entity = self.candidates_of(pieces, kb, announce)
        limit = self.model.config.attention_threshold
        for look in self.model.looks(pieces.texts, kb, text, entity, announce):
            likely = np.flatnonzero(look.score >= self.model.threshold)
            sentence, origin = pieces.texts[look.text], int(pieces.begin[look.text])
            rows = spans_of(sentence, look.tokens, look.weights[likely], limit)
            for place, spans in zip(likely.tolist(), rows, strict=True):
                if moved := tuple((origin + begin, origin + end) for begin, end in spans):
                    row = int(entity[look.pairs[place]])
                    yield Proposal(int(pieces.document[look.text]), moved, row, float(look.score[place]))

    def candidates_of(self, pieces: Pieces, kb: KnowledgeBase, announce: Announce = quiet) -> tuple[Ids, Ids]:
        """Return the candidates of sentences as pairs, (sentences, entities), ordered by sentence and dissimilarity.

        They are the entities in the document's domain with the names nearest to the sentence, by character n-grams;
        abbreviations that the document defines are replaced by their long forms.
        """
        names = next((one for one in self._names if one.kb is kb), None) or EncodedKb(kb, NgramEncoder())
        self._names[:] = [names]  # for the next documents
        begins = zip(pieces.document.tolist(), pieces.begin.tolist(), pieces.texts, strict=True)
        places = [(row, begin, begin + len(text)) for row, begin, text in begins]
        how: Any = {"abbreviations": self.abbreviations, "announce": announce}
        near = nearest_entities(pieces.documents, places, names, min(self.candidates, len(kb)), **how).ids
        text, column = np.nonzero(near >= 0)
        return text, near[text, column].astype(np.int64)


def spans_of(text: str, tokens: Offsets, weight: Floats, threshold: float = 0.05) -> list[tuple[Span, ...]]:
    """Find the spans of entities in a text: the words to which each entity attends, without stop words.

    The weight of a word is the sum over its tokens; words at or above the threshold are kept. Adjacent kept words are
    joined into one span if only white space, hyphens or an apostrophe (perhaps with an s) separate them. A stop word
    between two words separates their spans. ``tokens`` has the offsets of the tokens, (tokens, 2), and ``weight`` the
    attention of the entities, (entities, tokens).

    >>> tokens = np.array([[0, 4], [5, 8], [9, 13], [13, 17], [18, 20], [21, 25]])
    >>> weight = np.array([[0.3, 0.1, 0.01, 0.02, 0.2, 0.37], [0.0, 0.0, 0.4, 0.2, 0.2, 0.2]])
    >>> spans_of("pain and swelling in knee", tokens, weight)
    [((0, 4), (21, 25)), ((9, 17), (21, 25))]
    """
    words = offsets_of(content_words(text))
    gaps = zip(words[:-1, 1].tolist(), words[1:, 0].tolist(), strict=True)
    is_parted = np.array([_TIE.fullmatch(text, last, first) is None for last, first in gaps], np.bool_)
    rows = []
    for is_kept in word_weights(words, tokens, weight) >= threshold:
        kept = np.flatnonzero(is_kept)
        ends = np.flatnonzero((np.diff(kept) > 1) | is_parted[kept[:-1]]) + 1
        runs = [run for run in np.split(kept, ends) if len(run)]
        rows.append(tuple((int(words[run[0], 0]), int(words[run[-1], 1])) for run in runs))
    return rows


def word_weights(words: Offsets, tokens: Offsets, weight: Floats) -> Floats:
    """Return the sum of the weights of the tokens of each word; (entities, words).

    The weight of a token in several words is divided among them by numbers of characters. ``words`` has ascending
    offsets without overlap, (words, 2); characters outside of them are ignored. For the other arguments see `spans_of`.
    """
    common = np.minimum(tokens[:, 1:], words[:, 1]) - np.maximum(tokens[:, :1], words[:, 0])  # (tokens, words)
    common = np.maximum(common, 0)
    sums: Floats = weight @ (common / np.maximum(common.sum(axis=1, keepdims=True), 1))
    return sums
