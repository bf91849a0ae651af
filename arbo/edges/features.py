"""Facts about a mention that are cheap to compute, such as its words, its kind and its place, and features of pairs.

Every fact depends on the mention and its document alone and, in discovery, on the documents of the run when it began,
so that the weight of an edge never changes when documents are added or removed. Pairs are two mentions, or a mention
and a name of an entity. Mentions are compared that are near in their document, alike in words, or neighbours by the
encoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from arbo.data import KnowledgeBase, MentionInput, codes_of
from arbo.engine import Bools, Floats, Ids, Neighbors, Vectors, nearest, ranges, sorted_unique
from arbo.retrieval.groups import fill
from arbo.retrieval.retrieval import Retrieval
from arbo.text.names import normalize_name
from arbo.text.phrases import PRONOUNS, TOKEN, head_of, tokens_of
from arbo.text.words import STOP_WORDS, sentences, words

_STARTS = ("", "the", "this that these those", "my your his her its our their", "a an some any another many several no")
_DEFINITE = 3  # the index of the last group in `_STARTS` whose words refer to something known
_CLASSES = (
    "",
    "person per pers human hum people",
    "place location loc gpe geo geographic",
    "organization organisation org company group",
    "time tim date",
    "object product prod artifact substance",
    "event act action",
    "abstract misc",
)
_BEFORE = "by of , ( in to and with 's is was \" that said as for"
_AFTER = "'s , ) is was are were and of in who which has had said be ("
_PART = re.compile("[a-z]+")
_CONTEXT = 150  # number of characters on either side of a mention that are its context
_HASHES = 2**18
_RARE, _NEAR_TEXTS = 64, 11  # numbers of words by which a text finds others, and of texts that it finds, itself too


def _numbered(groups: Iterable[str]) -> dict[str, int]:
    return {word: number for number, group in enumerate(groups) for word in group.split()}


_PRONOUN, _START, _CLASS = map(_numbered, (PRONOUNS, _STARTS, _CLASSES))
_LEFT, _RIGHT = (_numbered(["", *group.split()]) for group in (_BEFORE, _AFTER))


class Names(NamedTuple):
    """The parts of texts that are compared, such as words, heads and letters; each matrix has a row for each text."""

    content: csr_matrix  # (texts, hashes): 1 for each content word of the text
    head: csr_matrix  # (texts, hashes): 1 for the head of the text, see `head_of`
    letters: csr_matrix  # (texts, hashes): counts of character n-grams, as vectors of length 1
    n_words: Ids  # (texts,) the number of content words
    keys: npt.NDArray[np.object_]
    """(texts, 4): the text in lower case without an article at its start; its content words in alphabetical order; the
    initials of its words with capitals; and the first of these strings without blanks."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Compute the parts of texts."""
        tokens = [tokens_of(text) for text in texts]
        heads = [normalize_name(head_of(some)) for some in tokens]
        content = [[word for word in normalize_name(text).split() if word not in STOP_WORDS] for text in texts]
        keys = np.empty((len(texts), 4), object)
        for row, (some, words_) in enumerate(zip(tokens, content, strict=True)):
            low = [token.lower() for token in some]
            low = low[1:] if len(low) > 1 and low[0] in _START else low
            initials = "".join(token[0] for token in some if token[0].isupper()).lower() if len(some) > 1 else ""
            keys[row] = " ".join(low), " ".join(sorted(set(words_))) or " ".join(low), initials, "".join(low)
        hashed = _hashed(content, analyzer=list, binary=True)
        letters = _hashed(keys[:, 0], analyzer="char_wb", ngram_range=(2, 4), norm="l2")
        return cls(hashed, _hashed([[head] for head in heads], analyzer=list), letters, np.diff(hashed.indptr), keys)


class Facts(NamedTuple):
    """The facts of mentions; each column has a value for each mention."""

    names: Names
    columns: dict[str, Ids]
    """- ``document``, ``type``: codes of the document and of the type;
    - ``sentence``: the index of the sentence in the document;
    - ``class``: the code of a class such as person or place, from the type; 0 for an unknown class;
    - ``pronoun``, ``start``: the kind of a pronoun, and of a first word such as ``the`` or ``my``; 0 for none;
    - ``before``, ``after``: the code of the neighbouring word; 0 for an infrequent word, -1 for none;
    - ``capitals``: the percentage of words that begin with a capital;
    - ``head_capital``, ``plural``: 1 if the head begins with a capital, or looks like a plural; otherwise 0;
    - ``words``: the number of words and signs;
    - ``place``: the number of earlier mentions in the document;
    - ``begin``, ``end``: the number of words of the document before the start and before the end of the mention;
    - ``in_sentence``: the number of words of the sentence before the mention;
    - ``same_text``, ``same_head``: the number of mentions of the document with the same text or head, itself included;
    - ``rank``: the rank by document id and place, so that the order of two mentions does not depend on other documents.
    """
    context: csr_matrix  # (mentions, hashes): the words around each mention, see `hashed_words`
    documents: csr_matrix  # (documents, hashes): the words of each document, see `hashed_words`
    alike: Callable[[Ids, Ids], Floats] | None  # see `Retrieval`
    first: FirstTexts | None = None  # None if it links
    near: csr_matrix | None = None  # (documents, first texts), see `FirstTexts.near`

    @classmethod
    def of(cls, mentions: Sequence[MentionInput], alike: Callable[[Ids, Ids], Floats] | None = None) -> Self:
        """Collect the facts of mentions, which must be grouped by document."""
        names = Names.of([item.name for item in mentions])
        rows: list[tuple[object, ...]] = []
        contexts: list[str] = []
        documents: list[str] = []
        ids: list[str] = []
        for number, (id_, group) in enumerate(groupby(mentions, lambda item: item.document.id)):
            items = list(group)
            text = items[0].document.text
            documents.append(text)
            ids.append(id_)
            begins = words(text)[:, 0], sentences(text)[:, 0]
            for item in items:
                rows.append((number, *_facts_of(item, *begins)))
                begin, end = item.mention.start, item.mention.end
                contexts.append(f"{text[max(0, begin - _CONTEXT) : begin]} {text[end : end + _CONTEXT]}")
        columns = _columns(rows, names)
        by_id = np.argsort(np.argsort(np.array(ids, object)))
        columns["rank"] = np.argsort(np.lexsort((columns["place"], by_id[columns["document"]])))
        return cls(names, columns, hashed_words(contexts), hashed_words(documents), alike)

    def __len__(self) -> int:
        return len(self.columns["document"])

    @property
    def nameless(self) -> npt.NDArray[np.bool_]:
        """(mentions,) whether it is a pronoun, a phrase such as "the company", or has no content words."""
        of = self.columns
        phrase = (of["start"] > 0) & (of["start"] <= _DEFINITE) & (of["capitals"] == 0)
        return np.asarray((of["pronoun"] > 0) | phrase | (self.names.n_words == 0))

    def with_stories(self, first: FirstTexts | None = None) -> Self:
        """Return the facts with the first texts near each document, by default those of these documents."""
        first = first or FirstTexts.of(self.documents)
        return type(self)(*self[:5], first, first.near(self.documents))

    def with_documents(self, retrieval: Retrieval) -> tuple[Retrieval, Retrieval]:
        """Return the retrieval, and one where a candidate is as near as to the nearest mention of the document.

        "Bell" can mean many entities; the one that another mention of the document names in full is the likeliest.
        """
        ids, dissimilarity = retrieval.entities
        key = self.columns["document"][:, None] * (retrieval.n_entities + 1) + ids + 1
        _, pair = np.unique(key, return_inverse=True)
        least = np.full(pair.max(initial=0) + 1, np.inf, np.float32)
        np.minimum.at(least, pair.ravel(), dissimilarity.ravel())
        return retrieval, replace(retrieval, entities=Neighbors(ids, least[pair].reshape(ids.shape)))


def hashed_words(texts: Sequence[str]) -> csr_matrix:
    """Return the square roots of counts of words, without stop words, as vectors of length 1; (texts, hashes)."""
    counts = _hashed(texts, stop_words=sorted(STOP_WORDS)).sqrt()
    from sklearn.preprocessing import normalize

    return normalize(counts) if len(texts) else counts


class FirstTexts(NamedTuple):
    """The rare words of the texts of a run when it began, which it keeps, so that its weights stay when it grows.

    Two texts that are near the same ones tell the same story, even in other words. They are searched by the words that
    are rare in these texts, so that the time grows little faster than their number.
    """

    known: Ids  # the words that are in two or more of these texts
    frequency: Ids  # (known words,) in how many
    words: Ids  # (texts, words): the rarest words of each text, of those that others have too; -1 for none
    weights: Floats  # (texts, words): minus their weights

    @classmethod
    def of(cls, texts: csr_matrix) -> Self:
        """Collect the words of texts, see `hashed_words`."""
        known, frequency = (some.astype(np.int32) for some in np.unique(texts.indices, return_counts=True))
        known, frequency = known[frequency > 1], frequency[frequency > 1]
        return cls(known, frequency, *_rarest(texts, known, frequency, texts.shape[0]))

    def near(self, texts: csr_matrix) -> csr_matrix:
        """Return the cosines of each text with the nearest of these, as vectors of length 1; (texts, these texts)."""
        lists = _rarest(texts, self.known, self.frequency, len(self.words)), (self.words, self.weights)
        vectors, these = (Vectors.of(_matrix(ids, -weights, _HASHES)) for ids, weights in lists)
        ids, dissimilarity = nearest(vectors, these, _NEAR_TEXTS)
        cosines = np.where(ids >= 0, 1 - dissimilarity, 0)
        length = np.linalg.norm(cosines, axis=1, keepdims=True)
        return _matrix(ids, cosines / np.maximum(length, 1e-9), len(self.words))


def _rarest(texts: csr_matrix, known: Ids, frequency: Ids, n: int) -> Neighbors:
    """Return the known words of texts that are rarest among ``n`` texts, and minus their weights."""
    rarity, lists = np.zeros(_HASHES), Neighbors.empty(texts.shape[0], _RARE)
    rarity[known] = np.log(n / frequency)
    some = np.isin(texts.indices, known)
    text, word = np.repeat(np.arange(texts.shape[0]), np.diff(texts.indptr))[some], texts.indices[some]
    fill(lists, text, word, np.asarray(-texts.data[some] * rarity[word], np.float32))
    return lists


def _matrix(columns: Ids, values: Floats, width: int) -> csr_matrix:
    """Return a matrix with ``values[i, j]`` in row ``i`` and column ``columns[i, j]``, unless this is -1."""
    row, at = np.nonzero(columns >= 0)
    return csr_matrix((values[row, at], (row, columns[row, at])), shape=(len(columns), width))


_COLUMNS = (
    *("document", "type", "class", "pronoun", "start", "before", "after", "capitals", "head_capital", "plural"),
    *("words", "begin", "end", "sentence", "in_sentence"),
)


def _facts_of(item: MentionInput, word_begins: Ids, sentence_begins: Ids) -> tuple[object, ...]:
    """Return the columns `_COLUMNS` of a mention except the first; its document has words and sentences from there."""
    begin, end, text = item.mention.start, item.mention.end, item.document.text
    kind = item.mention.type or ""
    tokens = tokens_of(item.name)
    head, first = head_of(tokens), tokens[0].lower()
    at, stop = np.searchsorted(word_begins, (begin, end)).tolist()
    sentence = int(np.searchsorted(sentence_begins, begin, "right")) - 1
    opening = int(sentence_begins[sentence]) if sentence >= 0 else 0
    before = TOKEN.findall(text[max(0, begin - 20) : begin].lower())
    after = TOKEN.match(text[end : end + 20].replace("\u2019", "'").lstrip().lower())
    return (
        kind,
        next(filter(None, (_CLASS.get(part, 0) for part in _PART.findall(kind.lower()))), 0),
        _PRONOUN.get(first, 0) if len(tokens) == 1 else 0,
        _START.get(first, 0) if len(tokens) > 1 else 0,
        _LEFT.get(before[-1], 0) if before else -1,
        _RIGHT.get(after[0], 0) if after else -1,
        100 * sum(token[0].isupper() for token in tokens) // len(tokens),
        int(head[:1].isupper()),
        int(head.endswith("s") and not head.endswith("ss")),
        len(tokens),
        at,
        stop,
        sentence,
        at - int(np.searchsorted(word_begins, opening)),
    )


def _columns(rows: list[tuple[object, ...]], names: Names) -> dict[str, Ids]:
    lists = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    columns = {
        name: codes_of(values) if name == "type" else np.array(values, np.int64)
        for name, values in zip(_COLUMNS, lists, strict=True)
    }
    order = np.lexsort((-columns["end"], columns["begin"], columns["document"]))
    columns["place"] = np.argsort(order) - np.searchsorted(columns["document"], columns["document"])
    for name, group in (("same_text", codes_of(names.keys[:, 0])), ("same_head", names.head.indices)):
        key = columns["document"] * (_HASHES + len(rows)) + group
        _, which, count = np.unique(key, return_inverse=True, return_counts=True)
        columns[name] = count[which] if len(rows) else which
    return columns


def _hashed(texts: Any, norm: str | None = None, **options: Any) -> csr_matrix:
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(n_features=_HASHES, alternate_sign=False, dtype=np.float32, norm=norm, **options)
    return hashing.transform(texts) if len(texts) else csr_matrix((0, _HASHES), dtype=np.float32)


_KINDS = ("class", "pronoun", "start", "before", "after", "capitals", "head_capital", "plural", "words")
_EITHER = (*_KINDS, "in_sentence", "same_text", "same_head")
_COMPARED = (
    *("same_text", "same_words", "initials", "shared", "union", "share_of_first", "share_of_second"),
    *("same_head", "head_in_first", "head_in_second", "letters"),
)
_WINDOW = 60  # number of mentions just before a mention, in its document, that it is paired with
_ALIKE = 40  # the same among the mentions of the document that share a word with it, for each word
_IN_MEMORY = 4_000_000  # numbers of a sparse matrix
_WITHIN = ("sentences", "mentions", "words_between", "place", "inside", "same_begin", "alike", "names")
MENTION_FEATURES = (
    *(f"{side}_{name}" for side in ("first", "second") for name in _EITHER),
    *_COMPARED,
    *("same_type", "same_class", "context", "documents", "similarity", "near_documents"),
    *_WITHIN,
)
"""The columns of `mention_features`."""


def mention_pairs(facts: Facts, groups: Ids, neighbors: Neighbors) -> tuple[Ids, Ids]:
    """Return the distinct pairs of mentions to compare; the mention of lower ``rank`` comes first in each pair.

    ``groups`` are codes of the groups of mentions, (mentions,), and ``neighbors`` their nearest mentions by an encoder.
    Mentions that name nothing (see `Facts.nameless`) are compared only within their document.
    """
    pairs = searched(facts, neighbors).values()
    first, second = (np.concatenate(sides) for sides in zip(*pairs, strict=True))
    inside = groups[first] == groups[second]
    return distinct(first[inside], second[inside], len(facts))


def distinct(first: Ids, second: Ids, n: int) -> tuple[Ids, Ids]:
    """Return pairs of mentions without repetition, in ascending order; ``n`` is the number of mentions."""
    key = sorted_unique(first * n + second)
    return key // max(n, 1), key % max(n, 1)


def searched(facts: Facts, neighbors: Neighbors) -> dict[str, tuple[Ids, Ids]]:
    """Return the pairs that each search finds, by its name.

    ``near``: mentions near each other in a document; ``words``: mentions of a document that share a word; ``names``:
    neighbours in different documents. Several can find the same pair.
    """
    of = facts.columns
    content = facts.names.content
    owner = np.repeat(np.arange(len(facts)), np.diff(content.indptr))
    word = of["document"][owner] * content.shape[1] + content.indices
    target, at = np.nonzero(neighbors.ids >= 0)
    source = neighbors.ids[target, at].astype(np.int64)
    is_named = of["document"][source] != of["document"][target]
    is_named &= ~(facts.nameless[source] | facts.nameless[target])
    source, target = source[is_named], target[is_named]
    swap = of["rank"][source] > of["rank"][target]
    return {
        "near": preceding(np.arange(len(facts)), of["document"], of["place"], _WINDOW),
        "words": preceding(owner, word, of["place"][owner], _ALIKE),
        "names": (np.where(swap, target, source), np.where(swap, source, target)),
    }


def preceding(item: Ids, group: Ids, place: Ids, most: int) -> tuple[Ids, Ids]:
    """Pair each item with the ``most`` items before it in its group, which come first in their pairs."""
    order = np.lexsort((place, group))
    item, group = item[order], group[order]
    firsts, seconds = [item[:0]], [item[:0]]
    for step in range(1, min(most, max(len(item) - 1, 0)) + 1):
        together = group[:-step] == group[step:]
        if not together.any():
            break
        firsts.append(item[:-step][together])
        seconds.append(item[step:][together])
    return np.concatenate(firsts), np.concatenate(seconds)


def mention_features(facts: Facts, first: Ids, second: Ids) -> Floats:
    """Return the features of pairs of mentions; (pairs, features).

    In a document, ``first`` must be the earlier one; between documents, distances and places are NaN.
    """
    of, names = facts.columns, facts.names
    document = of["document"]
    columns: list[Any] = [of[name][side] for side in (first, second) for name in _EITHER]
    columns += compared(names, names, first, second)
    columns += [of[name][first] == of[name][second] for name in ("type", "class")]
    columns.append(products(facts.context, facts.context, first, second))
    columns.append(products(facts.documents, facts.documents, document[first], document[second]))
    columns.append(facts.alike(first, second) if facts.alike else np.full(len(first), np.nan))
    apart = document[first] != document[second]
    near = np.nan if facts.near is None else products(facts.near, facts.near, document[first], document[second])
    columns.append(np.where(apart, near, np.nan))
    columns += [np.where(apart, np.nan, column) for column in _within(facts, first, second)]
    return np.stack(columns, axis=1, dtype=np.float32, casting="unsafe")


def compared(firsts: Names, seconds: Names, first: Ids, second: Ids) -> list[Any]:
    """Compare row ``first[i]`` of ``firsts`` with row ``second[i]`` of ``seconds``; return the columns `_COMPARED`."""
    one, other = firsts.keys[first], seconds.keys[second]
    shared = products(firsts.content, seconds.content, first, second)
    n_first, n_second = firsts.n_words[first], seconds.n_words[second]
    return [
        one[:, 0] == other[:, 0],
        one[:, 1] == other[:, 1],
        ((one[:, 2] == other[:, 3]) & (one[:, 2] != "")) | ((one[:, 3] == other[:, 2]) & (other[:, 2] != "")),
        shared,
        shared / np.maximum(n_first + n_second - shared, 1),
        shared / np.maximum(n_first, 1),
        shared / np.maximum(n_second, 1),
        products(firsts.head, seconds.head, first, second),
        products(firsts.content, seconds.head, first, second),
        products(firsts.head, seconds.content, first, second),
        products(firsts.letters, seconds.letters, first, second),
    ]


def products(left: csr_matrix, right: csr_matrix, rows: Ids, others: Ids) -> Floats:
    """Return the inner product of row ``rows[i]`` of ``left`` and row ``others[i]`` of ``right``; (pairs,)."""
    key, which = np.unique(rows * right.shape[0] + others, return_inverse=True)
    rows, others = key // max(right.shape[0], 1), key % max(right.shape[0], 1)
    values = np.empty(len(rows), np.float32)
    step = _IN_MEMORY // max(int(np.diff(left.indptr).max(initial=1)), 1) + 1
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        values[part] = np.asarray(left[rows[part]].multiply(right[others[part]]).sum(axis=1)).ravel()
    return values[which]


def _within(facts: Facts, first: Ids, second: Ids) -> list[Any]:
    """Return the columns `_WITHIN`: where the two mentions of each pair are in their document."""
    of = facts.columns
    names = (of["head_capital"] > 0) & (of["pronoun"] == 0)
    return [
        of["sentence"][second] - of["sentence"][first],
        of["place"][second] - of["place"][first],
        np.clip(of["begin"][second] - of["end"][first], -20, 400),
        of["place"][first],
        of["end"][second] <= of["end"][first],
        of["begin"][first] == of["begin"][second],
        _between(facts, of["class"], of["class"][second], first, second),
        _between(facts, names.astype(np.int64), 1, first, second),
    ]


def _between(facts: Facts, group: Ids, counted: Ids | int, first: Ids, second: Ids) -> Ids:
    """Count the mentions between two whose group is the wanted one; (pairs,)."""
    rank = facts.columns["rank"]
    counts = np.zeros((len(rank) + 1, int(group.max(initial=1)) + 1), np.int64)
    counts[rank + 1, group] = 1
    counts = counts.cumsum(axis=0)
    return np.asarray(counts[rank[second], counted] - counts[rank[first] + 1, counted])


_OF_NAME = ("preferred", "name_words", "name_capital", "in_brackets")
_NEAR = ("similarity", "lead", "similarity_in_document")
ENTITY_FEATURES = (*_EITHER, *_COMPARED, *_OF_NAME, "definition_context", "definition_document", *_NEAR)
"""The columns of `entity_features`."""


def entity_features(
    facts: Facts, entities: EntityNames, near: Sequence[Retrieval], mention: Ids, entity: Ids
) -> Floats:
    """Return the features of pairs of a mention and an entity; (pairs, features).

    Of the names of the entity, the mention is compared with the most similar one. For each pair, ``mention`` is a row
    of ``facts``, ``entity`` a row of the knowledge base. ``near`` is from `Facts.with_documents`.
    """
    row = np.searchsorted(entities.entities, entity)
    name = entities.most_alike(facts.names, mention, row)
    columns: list[Any] = [facts.columns[column][mention] for column in _EITHER]
    columns += compared(facts.names, entities.names, mention, name)
    columns += [*entities.columns[:, name]]
    document = facts.columns["document"][mention]
    for matrix, at in ((facts.context, mention), (facts.documents, document)):
        about = products(matrix, entities.definitions, at, row)
        columns.append(np.where(entities.defined[row], about, np.nan))
    columns += [*near[0].evidence(entity, mention).T, near[1].evidence(entity, mention)[:, 0]]
    return np.stack(columns, axis=1, dtype=np.float32, casting="unsafe")


class EntityNames(NamedTuple):
    """The names of some entities of a knowledge base."""

    entities: Ids  # (entities,) rows of the knowledge base, ascending
    begin: Ids  # (entities + 1,) the index in ``names`` of the first name of each entity, its preferred name
    names: Names
    columns: Ids  # (4, names) the columns `_OF_NAME`
    definitions: csr_matrix  # (entities, hashes): the words of each definition, see `hashed_words`
    defined: Bools  # (entities,) whether the entity has a definition

    @classmethod
    def of(cls, kb: KnowledgeBase, rows: Ids) -> EntityNames:
        """Collect the names of the entities in these rows."""
        entities = np.unique(rows)
        chosen = [kb.entities[row] for row in entities]
        texts = [list(dict.fromkeys((entity.name, *entity.aliases))) for entity in chosen]
        begin = np.cumsum([0, *map(len, texts)])
        flat = [text for some in texts for text in some]
        of_name = [(len(text.split()), text[:1].isupper(), "(" in text) for text in flat]
        is_preferred = np.isin(np.arange(len(flat)), begin[:-1])
        columns = np.column_stack([is_preferred, np.array(of_name, np.int64).reshape(-1, 3)])
        definitions = [entity.definition or "" for entity in chosen]
        defined = np.array([bool(text) for text in definitions], np.bool_)
        return cls(entities, begin, Names.of(flat), columns.T, hashed_words(definitions), defined)

    def most_alike(self, mentions: Names, mention: Ids, row: Ids) -> Ids:
        """Return the index in ``names`` of the first of the entity's names with the most similar letters; (pairs,).

        Pair ``i`` is row ``mention[i]`` of ``mentions``, and the entity at index ``row[i]`` in ``entities``.
        """
        count = np.diff(self.begin)[row]
        name = ranges(self.begin[row], count)
        pair = np.repeat(np.arange(len(row)), count)
        alike = products(mentions.letters, self.names.letters, mention[pair], name)
        order = np.lexsort((name, -alike, pair))
        return np.asarray(name[order[np.cumsum(count) - count]])
