"""Find mentions in unmarked documents, by a dictionary or by a model that scores pairs of text and entity.

A `Finder` proposes spans, each with an entity; `find_mentions` keeps the best of overlapping proposals.
`DictionaryFinder` needs no weights. `PairFinder` makes a finder of any `Reader`: it scores the entities that are near
the words of a text, see `arbo.spans.preselection`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from arbo.data import Corpus, Document, KnowledgeBase, Mention
from arbo.data.documents import mention_ids, text_of
from arbo.encoders.encoder import Encoder
from arbo.encoders.index import word_index
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Floats, Ids, threshold_curve
from arbo.errors import UsageError
from arbo.progress import Announce, quiet
from arbo.spans.dictionary import Dictionary, Match
from arbo.spans.overlaps import Spans, without_overlaps
from arbo.spans.pieces import Pairs
from arbo.spans.preselection import EncodedNames, Preselection, encoded_names, preselect
from arbo.text.abbreviations import Definition, add_other_number, definitions, singular_form
from arbo.text.names import normalize_name
from arbo.text.sentences import Splitter, passages
from arbo.text.words import content_words, fold, words

LEFT_OUT = "mentions of the documents replaced by found ones"
"""The key under which the notes of `Found.corpus` count the existing mentions that were replaced."""


class Proposal(NamedTuple):
    """A span that may be a mention of an entity."""

    document: int
    """The index of its document."""
    spans: Spans
    entity: int
    """The row of its entity."""
    score: float
    """Higher means more likely. Of overlapping proposals, the one with the highest score is kept."""


class Finder(Protocol):
    """Proposes mentions of the entities of a knowledge base, which may overlap."""

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterable[Proposal]:
        """Propose mentions in the texts of documents, ordered by document; existing mentions are ignored."""


class Scorer(Protocol):
    """Scores pairs of a text and an entity."""

    def score(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score each pair of ``texts[text[i]]`` and the entity in row ``entity[i]``; higher means more likely."""


class Reader(Scorer, Protocol):
    """Scores pairs of a text and an entity, and finds the words that name the entity."""

    def spans(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> list[Spans]:
        """Return the spans that name the entity, for each pair, assuming that the text names it."""


@dataclass(frozen=True, slots=True)
class Found:
    """Documents with the found mentions, and the entity of each."""

    corpus: Corpus
    """Documents with the found mentions, which have no gold ids, and a type if their entity has exactly one."""
    proposals: tuple[Proposal, ...]
    """The proposal of each mention, in the order of ``corpus.mentions``."""


def find(finder: Finder, documents: Iterable[Any], kb: KnowledgeBase, *, announce: Announce = quiet) -> Found:
    """Find mentions of the entities of a knowledge base in documents; existing mentions are ignored.

    Of overlapping proposals, the one with the highest score is kept; of equal scores, the longest proposal; of equally
    long ones, the first in the text. If several entities have the same spans and score, the first one in the knowledge
    base is kept. Proposals of entities whose domain differs from the document's are left out.
    """
    corpus = Corpus.of(documents)
    proposed: list[list[Proposal]] = [[] for _ in corpus]
    for proposal in finder.propose(corpus, kb, announce):
        if kb.entities[proposal.entity].domain == corpus[proposal.document].domain:
            proposed[proposal.document].append(proposal)
    kept = [best_of(own) for own in proposed]
    marked = (_marked(document, own, kb) for document, own in zip(corpus, kept, strict=True))
    notes = {**corpus.notes, LEFT_OUT: len(corpus.mentions)} if corpus.mentions else corpus.notes
    return Found(Corpus(marked, notes, corpus.index_names), tuple(proposal for own in kept for proposal in own))


def find_mentions(finder: Finder, documents: Iterable[Any], kb: KnowledgeBase, *, announce: Announce = quiet) -> Corpus:
    """Return the documents with the mentions that a finder finds in place of their own, for `Linker.link`; see `find`.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> found = find_mentions(DictionaryFinder(), documents, kb)
    >>> [mention.text for mention in found[1].mentions]
    ['ribbon kelp', 'Harrow Cove', 'brown blade disease', 'BBD', 'comb kelp', 'BBD']
    """
    return find(finder, documents, kb, announce=announce).corpus


def best_of(proposals: list[Proposal]) -> list[Proposal]:
    """Return the best of overlapping proposals, ordered by spans; see `find`."""
    proposals = sorted(proposals, key=lambda proposal: proposal.entity)
    places = without_overlaps([proposal.spans for proposal in proposals], [proposal.score for proposal in proposals])
    return sorted((proposals[place] for place in places), key=lambda proposal: proposal.spans)


def _marked(document: Document, proposals: Sequence[Proposal], kb: KnowledgeBase) -> Document:
    names = mention_ids(document.id, [of.spans for of in proposals])
    mentions = (
        Mention(name, document.id, of.spans, text_of(of.spans, document.text), _type(kb, of.entity), None, of.score)
        for name, of in zip(names, proposals, strict=True)
    )
    return replace(document, mentions=tuple(mentions))


def _type(kb: KnowledgeBase, entity: int) -> str | None:
    types = kb.entities[entity].types
    return types[0] if len(types) == 1 else None


T = TypeVar("T")


class _Kept(Generic[T]):
    """Keeps an object that was made for the last knowledge base."""

    def __init__(self) -> None:
        self._last: tuple[KnowledgeBase, T] | None = None

    def __call__(self, kb: KnowledgeBase, make: Callable[[], T]) -> T:
        if self._last is None or self._last[0] is not kb:
            self._last = kb, make()
        return self._last[1]


# By dictionary ----------------------------------------------------------------------------------------


class _Names:
    """The dictionary of a knowledge base; a name is added when a text has its words.

    With a normaliser of the user's own, all names are added at once.
    """

    def __init__(self, kb: KnowledgeBase, normalize: Callable[[str], str]) -> None:
        self._kb = kb
        self._index = word_index(kb) if normalize is normalize_name else None
        rows = None if self._index is None else self._index.always
        self._dictionary = Dictionary.of(kb, rows=rows, normalize=normalize)
        self._has = np.zeros(len(kb), np.bool_)
        self._has[rows] = True

    def for_text(self, text: str) -> Dictionary:
        """Return the dictionary, after adding the names of the knowledge base that the text may contain."""
        if self._index is not None:
            rows = self._index.rows_with(_forms(text))
            rows = rows[~self._has[rows]]
            self._dictionary.add(self._kb, rows)
            self._has[rows] = True
        return self._dictionary


def _forms(text: str) -> set[str]:
    """Return the words of a text; names in capitals match with and without a plural s."""
    found = {text[begin:end] for begin, end in words(text).tolist()}
    singular = {form for form in map(singular_form, found) if form.isupper()}
    return found | singular | {f"{form}s" for form in singular}


@dataclass(frozen=True, slots=True)
class DictionaryFinder:
    """Proposes the names of the knowledge base in a text, and the abbreviations that the text defines for them.

    All scores are 1, so the longest of overlapping names is kept. If a text defines an abbreviation, as in "ataxia
    telangiectasia (A-T)", the abbreviation means the name that the long form is, or ends with. Without such a name, it
    means only an entity that has both the abbreviation as a name and a word of the long form in a name. The finder
    keeps the index of the last knowledge base for further calls.
    """

    normalize: Callable[[str], str] = normalize_name
    """Returns the same form for all spellings of a word, in any case."""
    abbreviations: bool = True
    """Whether abbreviations that a text defines get the meaning of their long form."""
    _kept: _Kept[_Names] = field(default_factory=lambda: _Kept(), init=False, repr=False, compare=False)

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions; once names are indexed, the time depends on the texts, hardly on the number of names."""
        names = self._kept(kb, lambda: _Names(kb, self.normalize))
        for place, document in enumerate(announce("documents")(documents, len(documents))):
            for match in self._matches(names.for_text(document.text), kb, document.text):
                for entity in match.entities:
                    yield Proposal(place, ((match.begin, match.end),), entity, 1.0)

    def _matches(self, dictionary: Dictionary, kb: KnowledgeBase, text: str) -> Iterator[Match]:
        defined = definitions(text) if self.abbreviations else []
        found = dictionary.matches(text)
        if defined:
            found = sorted({*found, *dictionary.matches(_without_brackets(text, defined))})
        long_of = _abbreviated(text, defined, found)
        meant = {text[slice(*short)]: self._words(text[slice(*long)]) for short, long in reversed(defined)}
        add_other_number(meant)
        for match in found:
            if (surface := text[match.begin : match.end]) not in meant:
                yield match
            elif surface not in long_of:
                known = ((row, kb.entities[row]) for row in match.entities)
                rows = (row for row, of in known if meant[surface] & self._words(of.name, *of.aliases))
                yield match._replace(entities=tuple(rows))
        if long_of:
            forms = "|".join(map(re.escape, sorted(long_of, key=len, reverse=True)))
            for form in re.finditer(rf"(?<!\w)(?:{forms})(?!\w)", text):
                yield long_of[form[0]]._replace(begin=form.start(), end=form.end())

    def _words(self, *names: str) -> set[str]:
        return {self.normalize(name[begin:end]) for name in names for begin, end in content_words(name)}


def _without_brackets(text: str, defined: Sequence[Definition]) -> str:
    """Replace the brackets that define abbreviations with blanks, as in "breast cancer (BC) syndrome"."""
    characters = list(text)
    for (begin, end), long in defined:
        if long < (begin, end) and text[begin - 1] in "([" and text[end : end + 1] in (")", "]"):
            characters[begin - 1 : end + 1] = " " * (end + 2 - begin)
    return "".join(characters)


def _abbreviated(text: str, defined: Sequence[Definition], matches: Sequence[Match]) -> dict[str, Match]:
    """Return the longest name at the end of the long form of each abbreviation, and of its plural."""
    ending: dict[int, list[Match]] = {}
    for match in matches:
        ending.setdefault(match.end, []).append(match)
    long_of: dict[str, Match] = {}
    for short, (begin, end) in defined:
        names = [match for match in ending.get(end, ()) if match.begin >= begin]
        if names:
            long_of.setdefault(text[slice(*short)], min(names))
    add_other_number(long_of)
    return long_of


# By pairs of a text and an entity ----------------------------------------------------------------------


def each_alone(text: str, spans: Spans) -> tuple[Spans, ...]:
    """Make each span a separate mention; this suits readers that find whole names."""
    return tuple((span,) for span in spans)


def without_repetition(text: str, spans: Spans) -> tuple[Spans, ...]:
    """Join successive spans into one mention until a word is repeated, since few names have the same word twice.

    This suits readers that find the separate words of a name ("swelling ... knee" in "pain and swelling in knee") each
    time the text names the entity.

    >>> text = "knee pain: swelling in knee"
    >>> without_repetition(text, ((0, 4), (11, 19), (23, 27)))
    (((0, 4), (11, 19)), ((23, 27),))
    """
    mentions: list[list[tuple[int, int]]] = []
    said: set[str] = set()
    for span in sorted(spans):
        covered = text[slice(*span)]
        own = {fold(covered[begin:end]) for begin, end in words(covered)}
        if not mentions or own & said:
            mentions.append([])
            said = set()
        mentions[-1].append(span)
        said |= own
    return tuple(map(tuple, mentions))


@dataclass(frozen=True, slots=True)
class PairFinder:
    """Proposes the entities that a reader finds in a text, among candidates near the words of the text."""

    reader: Reader
    threshold: float
    """Minimum score of a proposed mention."""
    candidates: int = 32
    """Number of candidate entities for each piece of a text."""
    encoder: Encoder = field(default_factory=NgramEncoder)
    """The encoder that finds the candidates."""
    split: Splitter = passages
    """Splits documents into the pieces that the reader reads at once."""
    mentions: Callable[[str, Spans], tuple[Spans, ...]] = each_alone
    """Groups the spans of an entity into mentions, see `each_alone` and `without_repetition`."""
    abbreviations: bool = True
    """Whether candidates are looked for by the long forms of abbreviations that a document defines."""
    _kept: _Kept[EncodedNames] = field(default_factory=lambda: _Kept(), init=False, repr=False, compare=False)

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions of the entities whose score is at least the threshold."""
        found, texts, score = self._asked(documents, kb, announce)
        likely = np.flatnonzero(score >= self.threshold)
        text, entity = found.text[likely], found.entity[likely]
        for place, spans in enumerate(self.reader.spans(texts, kb, text, entity, announce)):
            piece = int(text[place])
            origin = int(found.pieces.begin[piece])
            for mention in self.mentions(texts[piece], spans):
                moved = tuple((origin + begin, origin + end) for begin, end in mention)
                document = int(found.pieces.document[piece])
                yield Proposal(document, moved, int(entity[place]), float(score[likely[place]]))

    def tuned(self, documents: Iterable[Any], kb: KnowledgeBase, *, announce: Announce = quiet) -> PairFinder:
        """Return the same finder, with the best threshold on annotated documents.

        The best threshold has the highest F1 of pairs of a piece and an entity that it names. Pieces without
        annotations count too, and an entity that is not a candidate counts as missed. The positions of mentions do not
        count. Raise UsageError if no document has a gold entity of the knowledge base.
        """
        found, _, score = self._asked(Corpus.of(documents), kb, announce)
        gold = Pairs.of(found.pieces.corpus, kb)
        if not len(gold):
            raise UsageError("no document has a gold entity of the knowledge base; check that the ids match")
        right = np.isin(found.text * len(kb) + found.entity, gold.text * len(kb) + gold.entity)
        curve = threshold_curve(right, score)
        best = replace(curve, gold=len(gold)).best
        limits = (score.min(), score.max()) if len(score) else (self.threshold, self.threshold)
        return replace(self, threshold=float(np.clip(best.threshold, *limits)))

    def _asked(
        self, documents: Corpus, kb: KnowledgeBase, announce: Announce
    ) -> tuple[Preselection, list[str], Floats]:
        """Score the candidates of each piece; return the candidates, the texts of the pieces, and the scores."""
        names = self._kept(kb, lambda: encoded_names(kb, self.encoder, announce))
        how: Any = {"split": self.split, "expand_abbreviations": self.abbreviations, "announce": announce}
        found = preselect(documents, kb, self.candidates, names=names, **how)
        texts = [piece.text for piece in found.pieces.corpus]
        return found, texts, self.reader.score(texts, kb, found.text, found.entity, announce)
