"""Find mentions in unmarked documents.

A `Finder` proposes spans, each with an entity; `find_mentions` keeps the best of overlapping proposals.
`DictionaryFinder` proposes the names of the knowledge base; `arbo.spans.model` proposes by a trained model.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np

from arbo.data import Corpus, KnowledgeBase, Marked, Mention, MentionInput, grouped, marked_document
from arbo.encoders.index import word_index
from arbo.encoders.word_index import WordIndex
from arbo.engine import Neighbors
from arbo.kb.names import LEAST, SHARE, generic_names, spellings
from arbo.progress import Announce, on_screen, quiet
from arbo.retrieval.groups import EncodedKb, nearest_within, with_entities
from arbo.spans.dictionary import Dictionary, Match
from arbo.text.abbreviations import Definition, add_other_number, definitions, expander, singular_form
from arbo.text.checks import Span
from arbo.text.names import normalize_name
from arbo.text.words import content_words, words

Spans = tuple[Span, ...]  # the spans of a mention, or of all mentions of an entity in a text
Place = tuple[int, int, int]  # the index of a document, and the start and end of a span of its text
LEFT_OUT = "mentions of the documents replaced by found ones"
"""The key under which the notes of `Found.corpus` count the existing mentions that were replaced."""


class Proposal(NamedTuple):
    """A span that may be a mention of an entity."""

    document: int  # the index of its document
    spans: Spans
    entity: int  # the row of its entity
    score: float  # higher means more likely


class Finder(Protocol):
    """Proposes mentions of the entities of a knowledge base, which may overlap."""

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterable[Proposal]:
        """Propose mentions in the texts of documents; existing mentions are ignored."""


@dataclass(frozen=True, slots=True)
class Found:
    """Documents with the found mentions, and the entity of each."""

    corpus: Corpus
    """Documents with the found mentions, which have no gold ids, and a type if their entity has exactly one."""
    proposals: tuple[Proposal, ...]
    """The proposal of each mention, in the order of ``corpus.mentions``."""


def find(finder: Finder, documents: Iterable[Any], kb: KnowledgeBase, *, announce: Announce = on_screen) -> Found:
    """Find mentions of the entities of a knowledge base in documents; existing mentions are ignored.

    `without_overlaps` chooses among proposals; those of entities of another domain than the document's are left out.
    """
    corpus, entity_in = Corpus.of(documents), cache(kb.entities.__getitem__)
    proposed = finder.propose(corpus, kb, announce)
    fitting = (one for one in proposed if entity_in(one.entity).domain == corpus[one.document].domain)
    proposals, marked = without_overlaps(fitting), [list[Marked]() for _ in corpus]
    for one in proposals:
        types = entity_in(one.entity).types
        marked[one.document].append(Marked(one.spans, types[0] if len(types) == 1 else None, score=one.score))
    both = zip(corpus, marked, strict=True)
    made = (marked_document(of.id, of.text, mentions, of.domain, of.metadata) for of, mentions in both)
    notes = {**corpus.notes, LEFT_OUT: corpus.n_mentions} if corpus.n_mentions else corpus.notes
    return Found(Corpus(made, notes, corpus.index_names), tuple(proposals))


def find_mentions(
    finder: Finder, documents: Iterable[Any], kb: KnowledgeBase, *, announce: Announce = on_screen
) -> Corpus:
    """Return the documents with the mentions that a finder finds in place of their own, for `Linker.link`; see `find`.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> found = find_mentions(DictionaryFinder(), documents, kb)
    >>> [mention.text for mention in found[1].mentions]
    ['ribbon kelp', 'Harrow Cove', 'brown blade disease', 'BBD', 'comb kelp', 'BBD']
    """
    return find(finder, documents, kb, announce=announce).corpus


def without_overlaps(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Return the proposals to keep, in the order of documents and spans; of overlapping ones, that with the best score.

    Of those with the same score, the one that covers the most characters is kept; of equally long ones, the one that
    begins first; of those with the same spans, the first entity of the knowledge base.

    >>> spans = ((0, 4),), ((0, 11),), ((5, 8), (12, 15)), ((12, 15),)
    >>> proposals = map(Proposal, [0] * 4, spans, range(4), [1.0, 2.0, 1.0, 1.0])
    >>> [proposal.spans for proposal in without_overlaps(proposals)]
    [((0, 11),), ((12, 15),)]
    """

    def rank(one: Proposal) -> tuple[int, float, int, Spans, int]:
        return one.document, -one.score, -sum(end - begin for begin, end in one.spans), one.spans, one.entity

    best = []
    for _, some in groupby(sorted(proposals, key=rank), lambda one: one.document):
        taken: set[int] = set()
        for one in some:
            characters = {at for span in one.spans for at in range(*span)}
            if taken.isdisjoint(characters):
                best.append(one)
                taken |= characters
    return sorted(best)


def nearest_entities(
    documents: Corpus,
    places: Sequence[Place],
    known: EncodedKb,
    k: int,
    *,
    abbreviations: bool,
    announce: Announce = quiet,
) -> Neighbors:
    """Find the ``k`` entities nearest to each place in the domain of its document, -1 for none; (places, k)."""
    expander_of = lru_cache(1)(lambda row: expander(documents[row].text) if abbreviations else str)
    items = []
    for row, begin, end in places:
        document, text = documents[row], documents[row].text[begin:end]
        mention = Mention(f"{begin}-{end}", document.id, ((begin, end),), text)
        items.append(MentionInput(expander_of(row)(text), mention, document))
    encoder, entities = known.fitted, known.by_group(None)
    groups = with_entities([item.document.domain for item in items], entities.rows)
    vectors = encoder.encode_mentions(items, announce)
    return nearest_within(groups, vectors, entities, k, metric=encoder.metric, progress=announce("candidates"))


class _Names:
    """The dictionary of a knowledge base; a name is added when a text has its words."""

    def __init__(self, kb: KnowledgeBase, *, generic_names: bool) -> None:
        self.kb, self._index = kb, word_index(kb)
        self.generic = frozenset[str]() if generic_names else _generic_of(kb, self._index)
        self._dictionary, self._has = Dictionary(normalize_name), np.zeros(len(kb), np.bool_)

    def for_text(self, text: str) -> Dictionary:
        """Return the dictionary, after adding the names of the knowledge base that the text may contain."""
        rows = self._index.rows_with(_forms(text))  # and those that are always added
        rows = rows[~self._has[rows]]
        self._has[rows] = True
        return self._dictionary.add(self.kb, rows)


def _generic_of(kb: KnowledgeBase, index: WordIndex) -> frozenset[str]:
    """Return the generic names, normalised; only names are read with a frequent word that is a name itself."""
    size = np.diff(index.start)
    alone = np.unique(index.items[index.start[:-1][size == 1]])
    is_frequent = np.bincount(index.items) >= max(LEAST, SHARE * len(kb))
    rows = np.unique(np.repeat(index.row, size)[np.isin(index.items, alone[is_frequent[alone]])])
    return frozenset(normalize_name(one.values[0]) for one in generic_names(kb, spellings(kb.of_rows(rows))))


def _forms(text: str) -> set[str]:
    """Return the words of a text; names in capitals match with and without a plural s."""
    forms = {text[begin:end] for begin, end in words(text).tolist()}
    singular = {form for form in map(singular_form, forms) if form.isupper()}
    return forms | singular | {f"{form}s" for form in singular}


@dataclass(frozen=True, slots=True)
class DictionaryFinder:
    """Proposes the names of the knowledge base in a text, and the abbreviations that the text defines for them.

    All scores are 1, so the longest of overlapping names is kept. If a text defines an abbreviation, as in "ataxia
    telangiectasia (A-T)", the abbreviation means the name that the long form is, or ends with. Without such a name, it
    means only an entity that has both the abbreviation as a name and a word of the long form in a name. An alias of
    two capitals that no definition explains, such as HT, means only an entity with another name in the text. The
    finder keeps the index of the last knowledge base for further calls.
    """

    abbreviations: bool = True
    """Whether abbreviations that a text defines get the meaning of their long form, and short aliases need a name."""
    generic_names: bool = False
    """Whether to propose generic names too, such as ``disease``, see `arbo.kb.names`; most often they mean nothing."""
    _names: list[_Names] = field(default_factory=list, init=False, repr=False, compare=False)

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions; once names are indexed, the time depends on the texts, hardly on the number of names."""
        names = self._names_of(kb)
        for place, document in enumerate(announce("documents")(documents, len(documents))):
            for match in self._matches(names.for_text(document.text), kb, document.text):
                if match.size > 1 or normalize_name(document.text[match.begin : match.end]) not in names.generic:
                    yield from (Proposal(place, ((match.begin, match.end),), row, 1.0) for row in match.entities)

    def left_out(self, kb: KnowledgeBase) -> list[str]:
        """Return the generic names that are not proposed, normalised, in alphabetical order."""
        return sorted(self._names_of(kb).generic)

    def _names_of(self, kb: KnowledgeBase) -> _Names:
        if not self._names or self._names[0].kb is not kb:
            self._names[:] = [_Names(kb, generic_names=self.generic_names)]  # for the next documents
        return self._names[0]

    def _matches(self, dictionary: Dictionary, kb: KnowledgeBase, text: str) -> Iterator[Match]:
        matches = dictionary.matches(text)
        if defined := definitions(text) if self.abbreviations else []:
            matches = sorted({*matches, *dictionary.matches(_without_brackets(text, defined))})
        long_of = _abbreviated(text, defined, matches)
        meant = {text[slice(*short)]: _words(text[slice(*long)]) for short, long in reversed(defined)}
        add_other_number(meant)
        is_short = {match: text[slice(*match[:2])].isupper() and match.end - match.begin <= 2 for match in matches}
        spelt = {row for match in matches if not is_short[match] for row in match.entities}
        for match in matches:
            surface, rows = text[match.begin : match.end], match.entities
            known = ((row, kb.entities[row]) for row in rows)
            if surface in meant:
                rows = tuple(row for row, of in known if meant[surface] & _words(of.name, *of.aliases))
            elif self.abbreviations and is_short[match]:
                rows = tuple(row for row, of in known if row in spelt or of.name == surface)
            if surface not in long_of:
                yield match._replace(entities=rows)
        if long_of:
            forms = "|".join(map(re.escape, sorted(long_of, key=len, reverse=True)))
            for form in re.finditer(rf"(?<!\w)(?:{forms})(?!\w)", text):
                yield long_of[form[0]]._replace(begin=form.start(), end=form.end())


def _words(*names: str) -> set[str]:
    return {normalize_name(name[begin:end]) for name in names for begin, end in content_words(name)}


def _without_brackets(text: str, defined: Sequence[Definition]) -> str:
    """Replace the brackets that define abbreviations with blanks, as in "breast cancer (BC) syndrome"."""
    characters = list(text)
    for (begin, end), long in defined:
        if long < (begin, end) and text[begin - 1] in "([" and text[end : end + 1] in (")", "]"):
            characters[begin - 1 : end + 1] = " " * (end + 2 - begin)
    return "".join(characters)


def _abbreviated(text: str, defined: Sequence[Definition], matches: Sequence[Match]) -> dict[str, Match]:
    """Return the longest name at the end of the long form of each abbreviation, and of its plural."""
    ending = grouped((match.end, match) for match in matches)
    long_of: dict[str, Match] = {}
    for short, (begin, end) in defined:
        if names := [match for match in ending[end] if match.begin >= begin]:
            long_of.setdefault(text[slice(*short)], min(names))
    add_other_number(long_of)
    return long_of
