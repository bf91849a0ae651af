"""Find mentions by a tagger: a conditional random field (Lafferty et al. 2001), logistic regression over sequences.

Each token of a sentence, a word or a mark, is outside of mentions, begins one, or is inside of one. The score of the
labels of a sentence is the sum of the weights of the features of its tokens, and of pairs of successive labels; the
best labels are found exactly (Viterbi). Features are the word, its shape and affixes, how many names of the knowledge
base end in it or contain it, the words around it, and where a dictionary has names: those of the knowledge base, and
those of the mentions that the tagger learnt from. `arbo.training.tagger` trains the weights.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from arbo import files
from arbo.data import Corpus, Entity, KnowledgeBase, codes_of, strings
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Ids
from arbo.errors import DataError
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import EncodedKb
from arbo.settings import read_json
from arbo.spans.finding import DictionaryFinder, Place, Proposal, nearest_entities, without_overlaps
from arbo.text.words import Offsets, offsets_of, passages

OUTSIDE, BEGIN, INSIDE = range(3)
Scores = npt.NDArray[np.float64]
NEVER = -1e4  # the score of a mention that goes on without a beginning
COLUMNS = 1 << 20  # number of columns; features with the same hash share a column
_FACTOR, _SHIFT, _COLUMN_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(29), np.uint64(64 - 20)
_N_PARTS = 13
_NEAR = [0, 2, 8, 9, 11, 12]
"""Those of `_parts` that are features of the words on both sides too: word, shape, two suffixes and the counts."""
_TOGETHER = 500  # number of documents in memory at once
_TOKEN = re.compile(r"\w+|[^\w\s]")
_KEYS = {"names": list, "learnt": str, "used": list, "weights": list, "pairs": list}
_FORMAT = files.Format("arbo-tagger", 1, _KEYS, "a tagger", "train it again with `arbo train finder`")


class KnownNames(NamedTuple):
    """The names of a knowledge base, and further ones."""

    bases: Sequence[tuple[DictionaryFinder, KnowledgeBase]]
    counts: Sequence[Mapping[str, int]]
    """The number of names of the knowledge base that contain a word and that end in it, see `words_of_names`."""

    @classmethod
    def of(cls, kb: KnowledgeBase, *, abbreviations: bool) -> Self:
        """Make a dictionary of the names of a knowledge base."""
        return cls([(DictionaryFinder(abbreviations), kb)], words_of_names(kb))

    def with_names(self, names: Sequence[str]) -> Self:
        """Return a dictionary that also has some further names; blank ones are left out."""
        named = [name for name in names if name.strip()]
        more = KnowledgeBase([Entity("names", named[0], tuple(named[1:]))] if named else ())
        return self._replace(bases=[*self.bases, (replace(self.bases[0][0]), more)])

    def matches(self, documents: Corpus) -> Iterator[Place]:
        """Return the places of names in documents; of names that overlap, the longest."""
        proposals = chain.from_iterable(finder.propose(documents, kb) for finder, kb in self.bases)
        return ((name.document, *name.spans[0]) for name in without_overlaps(proposals))


class Tokens(NamedTuple):
    """The words and marks of documents, sentence by sentence; the arrays have a value for each."""

    words: list[str]
    sentence: Ids  # ascending
    document: Ids
    offsets: Offsets  # (tokens, 2) in all texts one after the other
    start: Ids  # (documents + 1,) the offset of each text

    @classmethod
    def of(cls, documents: Corpus) -> Self:
        """Cut documents into sentences, and sentences into tokens."""
        start = np.cumsum([0, *(len(document.text) + 1 for document in documents)])
        pieces = [(row, *ends) for row, document in enumerate(documents) for ends in passages(document.text).tolist()]
        matches = [[*_TOKEN.finditer(documents[row].text, begin, end)] for row, begin, end in pieces]
        sentence = np.repeat(np.arange(len(pieces)), [*map(len, matches)])
        document = np.array([row for row, *_ in pieces], np.int64)[sentence]
        tokens = [*chain.from_iterable(matches)]
        offsets = offsets_of(token.span() for token in tokens) + start[document][:, None]
        return cls([token[0] for token in tokens], sentence, document, offsets, start)

    def labels(self, places: Iterable[Place]) -> Ids:
        """Label the tokens that mentions touch; (tokens,)."""
        labels = np.full(len(self.words), OUTSIDE)
        for document, begin, end in places:
            first = int(np.searchsorted(self.offsets[:, 1], self.start[document] + begin, "right"))
            last = int(np.searchsorted(self.offsets[:, 0], self.start[document] + end))
            labels[first:last] = INSIDE
            labels[first : min(first + 1, last)] = BEGIN
        return labels

    def columns(self, known: KnownNames, matched: Ids) -> Ids:
        """Return the columns of the features of each token, (tokens, features); ``matched`` are labels of names.

        A feature, a part of a token nearby, a pair of words or where names are, is hashed with its place in the row.
        """
        types = [_parts(word, *known.counts) for word in dict.fromkeys(self.words)]
        hashed = np.array([[crc32(part.encode("utf-8", "replace")) for part in parts] for parts in types], np.uint64)
        parts = hashed.reshape(-1, _N_PARTS)[codes_of(self.words)]
        word, match = parts[:, :1], matched[:, None].astype(np.uint64) + np.uint64(1)
        before, after = (self._moved(match, by) for by in (-1, 1))
        features = [parts, *(self._moved(parts[:, _NEAR], by) for by in (-1, 1))]
        features += [self._moved(word, by) for by in (-3, -2, 2, 3)]
        features += [word + self._moved(word, by) * _FACTOR for by in (-1, 1)]
        features += [self._moved(match, -2), before, match, after, self._moved(match, 2)]
        features += [before << np.uint64(4) | match << np.uint64(2) | after, np.zeros_like(word)]
        codes = np.concatenate(features, axis=1)
        codes = (codes + np.arange(codes.shape[1], dtype=np.uint64) * _FACTOR) * _FACTOR
        return np.asarray((codes ^ codes >> _SHIFT) * _FACTOR >> _COLUMN_SHIFT, np.int64)

    def _moved(self, values: Any, by: int) -> Any:
        """Return the values of the tokens ``by`` places further on; 0 beyond the sentence."""
        place = np.arange(len(self.words)) + by
        there = (place >= 0) & (place < len(place))
        there[there] = self.sentence[place[there]] == self.sentence[there]
        return np.where(there[:, None], values[np.where(there, place, 0)], np.uint64(0))


def words_of_names(kb: KnowledgeBase) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Count the names with each word in lower case, and those that end in it, without what follows a comma."""
    heads = pc.utf8_lower(pc.replace_substring_regex(strings(list(kb.names().names)), ", .*", ""))
    ends = pc.replace_substring_regex(heads, r"^.*?(\w+)\W*$", r"\1")
    counts = (pc.value_counts(words) for words in (pc.split_pattern_regex(heads, r"\W+").flatten(), ends))
    contained, last = (dict(zip(*(side.to_pylist() for side in count.flatten()), strict=True)) for count in counts)
    return contained, last


def _parts(word: str, *counts: Mapping[str, int]) -> list[str]:
    """Return the word, two shapes, prefixes, suffixes, and orders of magnitude of the counts of names with the word."""
    lower = word.casefold()
    shape = "".join("0" if one.isdigit() else "X" if one.isupper() else "x" if one.isalpha() else one for one in word)
    affixes = [*(lower[:n] for n in range(2, 6)), *(lower[-n:] for n in range(2, 6))]
    numbers = (count.get(lower) or (lower[-1:] == "s" and count.get(lower[:-1])) or 0 for count in counts)
    return [lower, shape[:6], re.sub(r"(.)\1+", r"\1", shape), *affixes, *(str(n.bit_length()) for n in numbers)]


class Chains(NamedTuple):
    """Sentences as chains of tokens, for steps along all of them at once."""

    steps: list[Ids]  # the first tokens of all sentences, the second ones of those that have one, and so on

    @classmethod
    def of(cls, sentence: Ids) -> Self:
        """Take the ascending index of the sentence of each token."""
        _, first, size = np.unique(sentence, return_index=True, return_counts=True)
        return cls([first[size > place] + place for place in range(size.max(initial=0))])

    def marginals(self, scores: Scores, pairs: Scores) -> tuple[float, Scores, Scores]:
        """Return the logarithm of the sum over all labellings, and the expected labels and pairs of labels.

        ``scores`` (tokens, 3) are those of labels, ``pairs`` (3, 3) of a label after another; the results are alike.
        """
        top = scores.max(axis=1, keepdims=True)
        weight, follows = np.exp(scores - top), np.exp(pairs)
        forward, backward, total = np.empty_like(weight), np.ones_like(weight), np.empty((len(weight), 1))
        for place, tokens in enumerate(self.steps):
            reached = weight[tokens] * (forward[tokens - 1] @ follows if place else np.arange(3) != INSIDE)
            total[tokens] = reached.sum(axis=1, keepdims=True)
            forward[tokens] = reached / total[tokens]
        expected = np.zeros_like(follows)
        for tokens in self.steps[:0:-1]:
            after = weight[tokens] * backward[tokens] / total[tokens]
            backward[tokens - 1] = after @ follows.T
            expected += forward[tokens - 1].T @ after
        return float(np.log(total).sum() + top.sum()), forward * backward, expected * follows

    def best(self, scores: Scores, pairs: Scores) -> Ids:
        """Return the labels with the highest score (Viterbi); for the arguments see `marginals`."""
        reached, before = scores.copy(), np.zeros(scores.shape, np.int64)
        reached[self.steps[0] if self.steps else [], INSIDE] += NEVER
        for tokens in self.steps[1:]:
            ways = reached[tokens - 1][:, :, None] + pairs
            before[tokens] = ways.argmax(axis=1)
            reached[tokens] += ways.max(axis=1)
        labels: Ids = reached.argmax(axis=1)
        for tokens in self.steps[:0:-1]:
            labels[tokens - 1] = before[tokens, labels[tokens]]
        return labels


@dataclass(frozen=True, eq=False, slots=True)
class Tagger:
    """Finds mentions like those of the documents that it learnt from; it is a finder, see `arbo.spans.finding`.

    `arbo.train_tagger` trains it. The entity of a mention is that with the nearest name by n-grams; its score is the
    smallest probability of the labels of its tokens.
    """

    weights: Scores
    """(COLUMNS, 3) the weight of each label for each column of features; most are 0."""
    pairs: Scores
    """(3, 3) the score of a label after another."""
    names: Sequence[str]
    """Names of the mentions that it learnt from."""
    learnt: str = field(default="", repr=False)
    """Hashes of the documents that it learnt from, see `arbo.data.fingerprint`."""
    threshold: float = 0.0
    """Smallest score of a mention."""
    abbreviations: bool = True
    """Whether abbreviations that a text defines mean their long forms."""
    _known: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def propose(self, documents: Corpus, kb: KnowledgeBase, announce: Announce = quiet) -> Iterator[Proposal]:
        """Propose mentions, which do not overlap; the time grows with the texts."""
        if not self._known or self._known[1].kb is not kb:
            known = KnownNames.of(kb, abbreviations=self.abbreviations).with_names(self.names)
            self._known[:] = known, EncodedKb(kb, NgramEncoder())  # for the next documents
        slices = range(0, len(documents), _TOGETHER)
        for begin in announce("tagging")(slices, len(slices)):
            part = documents[begin : begin + _TOGETHER]
            mentions = [one for one in self.tagged(part, self._known[0]) if one[1] >= self.threshold]
            places = [place for place, _ in mentions]
            entities = nearest_entities(part, places, self._known[1], 1, abbreviations=self.abbreviations)
            for ((row, *span), score), entity in zip(mentions, entities.ids[:, 0].tolist(), strict=True):
                if entity >= 0:
                    yield Proposal(begin + row, ((span[0], span[1]),), entity, score)

    def tagged(self, documents: Corpus, known: KnownNames) -> list[tuple[Place, float]]:
        """Return the mentions of documents with their scores, in the order of the texts."""
        tokens = Tokens.of(documents)
        columns = tokens.columns(known, tokens.labels(known.matches(documents)))
        scores, chains = np.zeros((len(columns), 3)), Chains.of(tokens.sentence)
        for column in columns.T:
            scores += self.weights[column]
        labels, (_, chance, _) = chains.best(scores, self.pairs), chains.marginals(scores, self.pairs)
        sure = chance[np.arange(len(labels)), labels]
        begins, others = np.flatnonzero(labels == BEGIN), np.append(np.flatnonzero(labels != INSIDE), len(labels))
        mentions = []
        for begin, end in zip(begins.tolist(), others[np.searchsorted(others, begins, "right")].tolist(), strict=True):
            row = int(tokens.document[begin])
            first, last = (tokens.offsets[[begin, end - 1], [0, 1]] - tokens.start[row]).tolist()
            mentions.append(((row, first, last), float(sure[begin:end].min())))
        return mentions

    def save(self, file: files.PathLike) -> None:
        """Write the tagger to a JSON file, completely or not at all; raise UsageError if that is impossible."""
        used = np.flatnonzero(self.weights.any(axis=1))
        arrays = {"used": used.tolist(), "weights": self.weights[used].tolist(), "pairs": self.pairs.tolist()}
        files.write_json({**_FORMAT.head, **arrays, "names": [*self.names], "learnt": self.learnt}, file)

    @classmethod
    def load(cls, file: files.PathLike, **fields: Any) -> Self:
        """Read what `save` wrote; raise DataError for anything else."""
        values = _FORMAT.checked(read_json(file, "the tagger"), file)
        weights, used = np.zeros((COLUMNS, 3)), values["used"]
        try:
            pairs = np.array(values["pairs"], np.float64).reshape(3, 3)
            weights[np.array(used, np.int64)] = np.array(values["weights"], np.float64).reshape(len(used), 3)
        except (TypeError, ValueError, IndexError) as error:
            raise DataError(f"the weights are damaged: {error}; {_FORMAT.advice}", file=str(file)) from None
        return cls(weights, pairs, [*map(str, values["names"])], values["learnt"], **fields)
