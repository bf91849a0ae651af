"""Facts about a mention that are cheap to compute: its words, its kind, its place in the document.

Every fact depends on the mention and its document alone, so that the weight of an edge never changes when other
documents are added or removed.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from arbo.data import MentionInput
from arbo.data.arrow import codes_of
from arbo.engine import Ids
from arbo.text.names import normalize_name
from arbo.text.phrases import PRONOUNS, TOKEN, head_of, tokens_of
from arbo.text.sentences import sentences
from arbo.text.words import STOP_WORDS, words

_STARTS = ("", "the", "this that these those", "my your his her its our their", "a an some any another many several no")
_DEFINITE = 3
"""The index of the last group in `_STARTS` whose words refer to something known."""
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
_CONTEXT = 150
"""Number of characters on either side of a mention that are its context."""
_HASHES = 2**18


def _numbered(groups: Iterable[str]) -> dict[str, int]:
    return {word: number for number, group in enumerate(groups) for word in group.split()}


_PRONOUN, _START, _CLASS = map(_numbered, (PRONOUNS, _STARTS, _CLASSES))
_LEFT, _RIGHT = (_numbered(["", *group.split()]) for group in (_BEFORE, _AFTER))


class Names(NamedTuple):
    """The parts of texts that are compared, such as words, heads and letters; each matrix has a row for each text."""

    content: csr_matrix
    """(texts, hashes): 1 for each content word of the text."""
    head: csr_matrix
    """(texts, hashes): 1 for the head of the text, see `head_of`."""
    letters: csr_matrix
    """(texts, hashes): counts of character n-grams, as vectors of length 1."""
    n_words: Ids
    """(texts,) the number of content words."""
    keys: npt.NDArray[np.object_]
    """(texts, 4): the text in lower case without an article at its start; its content words in alphabetical order; the
    initials of its words with capitals; and the first of these strings without blanks."""

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Compute the parts of texts."""
        tokens = [tokens_of(text) for text in texts]
        heads = [normalize_name(head_of(some)) for some in tokens]
        lower = [_without_article([token.lower() for token in some]) for some in tokens]
        content = [[word for word in normalize_name(text).split() if word not in STOP_WORDS] for text in texts]
        keys = np.empty((len(texts), 4), object)
        for row, (some, low, words_) in enumerate(zip(tokens, lower, content, strict=True)):
            initials = "".join(token[0] for token in some if token[0].isupper()).lower() if len(some) > 1 else ""
            keys[row] = " ".join(low), " ".join(sorted(set(words_))) or " ".join(low), initials, "".join(low)
        hashed = _hashed(content, analyzer=list, binary=True)
        letters = _normalized(_hashed(keys[:, 0], analyzer="char_wb", ngram_range=(2, 4)))
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
    context: csr_matrix
    """(mentions, hashes): the words around each mention, see `hashed_words`."""
    documents: csr_matrix
    """(documents, hashes): the words of each document, see `hashed_words`."""

    @classmethod
    def of(cls, mentions: Sequence[MentionInput]) -> Self:
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
        by_id = np.argsort(np.argsort(np.array(ids, np.str_)))
        columns["rank"] = np.argsort(np.lexsort((columns["place"], by_id[columns["document"]])))
        return cls(names, columns, hashed_words(contexts), hashed_words(documents))

    def __len__(self) -> int:
        return len(self.columns["document"])

    @property
    def nameless(self) -> npt.NDArray[np.bool_]:
        """(mentions,) whether a mention names nothing outside its document.

        It is then a pronoun, a phrase such as "the company", or has no content words.
        """
        of = self.columns
        phrase = (of["start"] > 0) & (of["start"] <= _DEFINITE) & (of["capitals"] == 0)
        return np.asarray((of["pronoun"] > 0) | phrase | (self.names.n_words == 0))


def hashed_words(texts: Sequence[str]) -> csr_matrix:
    """Return the square roots of counts of words, without stop words, as vectors of length 1; (texts, hashes)."""
    counts = _hashed(texts, stop_words=sorted(STOP_WORDS))
    return _normalized(counts.sqrt())


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


def _without_article(tokens: list[str]) -> list[str]:
    return tokens[1:] if len(tokens) > 1 and tokens[0] in _START else tokens


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


def _normalized(rows: csr_matrix) -> csr_matrix:
    return normalize(rows) if rows.shape[0] else rows


def _hashed(texts: Any, **options: Any) -> csr_matrix:
    hashing = HashingVectorizer(n_features=_HASHES, alternate_sign=False, dtype=np.float32, norm=None, **options)
    return hashing.transform(texts) if len(texts) else csr_matrix((0, _HASHES), dtype=np.float32)
