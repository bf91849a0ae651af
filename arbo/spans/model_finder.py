"""Find mentions in unmarked documents by label attention: which entities a sentence mentions, and where."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase, Mention, MentionInput
from arbo.data.gold import Gold
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Bools, Floats, Ids, Weights, threshold_curve
from arbo.errors import UsageError
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import EncodedKb, nearest_within, with_entities
from arbo.spans.finding import Proposal, Spans
from arbo.spans.model import LabelAttention
from arbo.text.abbreviations import expander
from arbo.text.checks import Span
from arbo.text.words import APOSTROPHES, Offsets, content_words, fold, offsets_of, passages, unwrapped, windows, words

MOST_WORDS = 6  # maximum number of words of a run that is compared with names
_NEAREST = 8  # number of nearest entities of each run of words
_RUNS = 1 << 15  # number of runs to encode at once, which bounds the memory

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
    """Proposes the entities that a model finds in a sentence, among candidates near the words of the sentence."""

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
                for mention in without_repetition(sentence, spans):
                    moved = tuple((origin + begin, origin + end) for begin, end in mention)
                    row = int(entity[look.pairs[place]])
                    yield Proposal(int(pieces.document[look.text]), moved, row, float(look.score[place]))

    def tuned(self, documents: Iterable[Any], kb: KnowledgeBase, *, announce: Announce = quiet) -> ModelFinder:
        """Return the same finder, whose model has the best threshold on annotated documents.

        The best threshold has the highest F1 of pairs of a sentence and an entity that it mentions. Sentences without
        annotations count too, and an entity that is not a candidate counts as missed. The positions of mentions do not
        count. Raise UsageError if no document has a gold entity of the knowledge base.
        """
        pieces = Pieces.of(Corpus.of(documents))
        gold_text, gold_entity = pieces.entities(kb)
        if not len(gold_text):
            raise UsageError("no document has a gold entity of the knowledge base; check that the ids match")
        text, entity = self.candidates_of(pieces, kb, announce)
        score = self.model.score(pieces.texts, kb, text, entity, announce)
        right = np.isin(text * len(kb) + entity, gold_text * len(kb) + gold_entity)
        best = replace(threshold_curve(right, score), gold=len(gold_text)).best
        limits = (score.min(), score.max()) if len(score) else (self.model.threshold, self.model.threshold)
        return replace(self, model=self.model.with_threshold(float(np.clip(best.threshold, *limits))))

    def candidates_of(self, pieces: Pieces, kb: KnowledgeBase, announce: Announce = quiet) -> tuple[Ids, Ids]:
        """Return the candidates of sentences as pairs, (sentences, entities), ordered by sentence and dissimilarity.

        They are the entities nearest to the runs of one to six words of a sentence, by character n-grams. A run begins
        and ends with a content word; abbreviations that the document defines are replaced by their long forms. The
        search for the eight nearest entities of each run is exact, and covers the document's domain; it takes as long
        as linking all runs as mentions.
        """
        names = next((one for one in self._names if one.kb is kb), None) or EncodedKb(kb, NgramEncoder())
        self._names[:] = [names]  # for the next documents
        encoder, entities = names.fitted, names.by_group(None)
        runs = _runs(pieces, expand_abbreviations=self.abbreviations)
        pairs = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
        while some := list(islice(runs, _RUNS)):
            near = nearest_within(
                with_entities([run.document.domain for _, run in some], entities.rows),
                encoder.encode_mentions([run for _, run in some], announce),
                entities,
                min(_NEAREST, len(kb)),
                metric=encoder.metric,
                progress=announce("candidates"),
            )
            row, column = np.nonzero(near.ids >= 0)
            text = np.array([piece for piece, _ in some], np.int64)[row]
            pairs.append((text, near.ids[row, column].astype(np.int64), near.dissimilarity[row, column]))
        text, entity, dissimilarity = map(np.concatenate, zip(*pairs, strict=True))
        return _best(text, entity, dissimilarity, self.candidates)


def without_repetition(text: str, spans: Spans) -> tuple[Spans, ...]:
    """Join successive spans into one mention until a word is repeated, since few names have the same word twice.

    The model finds the separate words of a name ("swelling ... knee" in "pain and swelling in knee") each time the text
    names the entity.

    >>> text = "knee pain: swelling in knee"
    >>> without_repetition(text, ((0, 4), (11, 19), (23, 27)))
    (((0, 4), (11, 19)), ((23, 27),))
    """
    mentions: list[list[tuple[int, int]]] = []
    seen: set[str] = set()
    for span in sorted(spans):
        covered = text[slice(*span)]
        here = {fold(covered[begin:end]) for begin, end in words(covered)}
        if not mentions or here & seen:
            mentions.append([])
            seen = set()
        mentions[-1].append(span)
        seen |= here
    return tuple(map(tuple, mentions))


def _runs(pieces: Pieces, *, expand_abbreviations: bool) -> Iterator[tuple[int, MentionInput]]:
    """Yield the runs of words of each sentence as mentions, with the index of the sentence."""
    expander_of = lru_cache(1)(lambda row: expander(pieces.documents[row].text))
    for piece, (row, text) in enumerate(zip(pieces.document.tolist(), pieces.texts, strict=True)):
        document, expand = pieces.documents[row], expander_of(row) if expand_abbreviations else str
        for begin, end in windows(unwrapped(text), MOST_WORDS).tolist():
            run = text[begin:end]
            mention = Mention(f"{piece}:{begin}-{end}", document.id, ((begin, end),), run)
            yield piece, MentionInput(expand(run), mention, document)


def _best(text: Ids, entity: Ids, dissimilarity: Weights, n: int) -> tuple[Ids, Ids]:
    """Return the ``n`` nearest entities of each text, each once; ties go to the first rows."""
    order = np.lexsort((entity, dissimilarity, text))
    pairs = np.column_stack([text, entity])[order]
    first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    text, entity = pairs[first].T
    nearest = np.arange(len(text)) - np.searchsorted(text, text) < n
    return text[nearest], entity[nearest]


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
    tied = np.array([_TIE.fullmatch(text, last, first) is not None for last, first in gaps], np.bool_)
    return [_joined(words, tied, row) for row in word_weights(words, tokens, weight) >= threshold]


def word_weights(words: Offsets, tokens: Offsets, weight: Floats) -> Floats:
    """Return the sum of the weights of the tokens of each word; (entities, words).

    The weight of a token in several words is divided among them by numbers of characters. ``words`` has ascending
    offsets without overlap, (words, 2); characters outside of them are ignored. For the other arguments see `spans_of`.
    """
    common = np.minimum(tokens[:, 1:], words[:, 1]) - np.maximum(tokens[:, :1], words[:, 0])  # (tokens, words)
    common = np.maximum(common, 0)
    sums: Floats = weight @ (common / np.maximum(common.sum(axis=1, keepdims=True), 1))
    return sums


def _joined(words: Offsets, tied: Bools, is_chosen: Bools) -> tuple[Span, ...]:
    """Join the chosen words into spans; ``tied`` marks each word, except the last, that is joined with the next."""
    chosen = np.flatnonzero(is_chosen)
    if not len(chosen):
        return ()
    parted = (np.diff(chosen) > 1) | ~tied[chosen[:-1]]
    first, last = chosen[np.append(True, parted)], chosen[np.append(parted, True)]
    return tuple(zip(words[first, 0].tolist(), words[last, 1].tolist(), strict=True))
