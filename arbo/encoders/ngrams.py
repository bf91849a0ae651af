"""The default encoder: character n-grams of names, without trained weights.

Names that may be near others are recognised by their words, so that the vectors of all others are never made. The
vector of a name is the sum of those of its words, which have no negative value: it is at least as long as if these
were orthogonal. So the cosine with a unit vector is at most the sum of the products with the words, divided by the root
of the sum of their squared lengths.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from arbo.data import KnowledgeBase, MentionInput, names_of
from arbo.encoders.encoder import Encoder
from arbo.encoders.string_table import Bytes, Spans, StringTable, words_of
from arbo.engine import Bools, Csr, Floats, Ids, Index, Metric, Vectors, csr, id_dtype, in_parallel, kernel, nearest
from arbo.errors import DataError
from arbo.progress import Announce, quiet

_UNSEEN = 1 << 16
_CHUNK = 1 << 14  # number of words, or of names whose vectors are made, that a thread takes at once
_WORDS, _NAMES = 1 << 12, 1 << 16  # numbers of words and of names that a thread compares at once
_NAMES_PER_QUERY = 1 << 13
"""For more queries in all, it takes longer to leave some names out each time than to encode all."""
_STEPS = 0.3, 0.5, 0.7  # dissimilarities within which neighbours are searched one after the other
_LEAST = 0.1
"""Smaller cosines of a word are not kept, but count as this: then few are kept, and few names too many are marked."""
_ROUNDING = 1e-5  # more than the rounding of vectors to float32
Doubles = npt.NDArray[np.float64]
Items = tuple[Ids, Ids]  # rows of items: row ``i`` has ``items[start[i]:start[i + 1]]``


# Without slots: `cached_property` keeps the weights in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class Frequencies:
    """Document frequencies of words and n-grams in the fitted names; the arrays may be memory-mapped."""

    n_names: int
    words: StringTable = field(repr=False)
    grams: StringTable = field(repr=False)  # the number of an n-gram is its dimension
    word_count: Doubles = field(repr=False)
    gram_count: Doubles = field(repr=False)

    def inverse(self, counts: Doubles | float) -> Doubles:
        """Return the smoothed inverse document frequency ``log((1 + names) / (1 + count)) + 1``."""
        return np.asarray(np.log((1 + self.n_names) / (1 + counts)) + 1)

    @cached_property
    def gram_weight(self) -> Doubles:
        """The inverse document frequency of each dimension, those of unseen n-grams included."""
        return self.inverse(np.pad(self.gram_count, (0, _UNSEEN)))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all values as arrays by name, from which `from_arrays` makes the frequencies again."""
        counts = {"names": np.array([self.n_names]), "word_count": self.word_count, "gram_count": self.gram_count}
        return counts | self.words.arrays("words") | self.grams.arrays("grams")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return frequencies that use these arrays, uncopied; raise DataError if they do not fit together."""
        words, grams = (StringTable.from_arrays(arrays, name) for name in ("words", "grams"))
        counts = [np.asarray(arrays.get(name)) for name in ("word_count", "gram_count", "names")]
        if [count.shape for count in counts] != [(len(words),), (len(grams),), (1,)] or any(
            count.dtype.kind not in "if" or not ((count >= 0) & (count <= counts[2])).all() for count in counts
        ):
            raise DataError("the counts of words or n-grams are damaged; make the index or run with them again")
        return cls(int(counts[2][0]), words, grams, *counts[:2])


# Without slots: `cached_property` keeps the index in the instance's dictionary.
@dataclass(eq=False)
class NamedEntities:
    """Entities by their names, and these by words; searches of few queries encode only names that may be near."""

    in_name: Items
    words: sp.csr_array  # the vector of each word
    alias: Doubles  # (names,) the value in the dimension that marks aliases
    owner: Ids  # (names,) the entity of each name, ascending
    n: int
    n_queries: int = 0  # of `near`

    def vectors(self) -> Vectors:
        """Encode all names."""
        rows = np.arange(len(self.owner), dtype=np.int32)
        return Vectors(name_vectors(self.in_name, self.words, self.alias), rows, self.owner, self.n)

    @cached_property
    def whole(self) -> Index:
        """All entities, ready to be searched."""
        return Index.of(self.vectors(), "cosine")

    def near(self, queries: Vectors, k: int) -> Vectors | None:
        """Return vectors of all entities that may be among the ``k`` nearest; None if searching all is as fast."""
        self.n_queries += queries.n
        if "whole" in vars(self) or self.n_queries * _NAMES_PER_QUERY > len(self.owner):
            return None
        start, items = self.in_name
        for within in _STEPS:
            is_near, length = may_be_near(self.in_name, self.words, queries.matrix[:, :-1], within), np.diff(start)
            in_name = np.append(0, np.cumsum(length[is_near])), items[np.repeat(is_near, length)]
            some = replace(self, in_name=in_name, alias=self.alias[is_near], owner=self.owner[is_near]).vectors()
            if (nearest(queries, some, k).dissimilarity[:, -1] <= within).all():
                return some
        return None


@dataclass(frozen=True, slots=True)
class NgramEncoder(Encoder):
    """Embeds a name as the sum of its words, and a word as the sum of its character n-grams; the metric is the cosine.

    An n-gram has one of the lengths in ``sizes``. Its weight is its inverse document frequency times the larger of
    ``floor`` and ``decay`` to the power of its position in the word, counted from 0, since stems matter more than
    endings. The length of a word's vector is then the root of its length times its inverse document frequency, so that
    long words do not outweigh rare ones.

    An entity has one vector for each name. An alias has a small weight in a separate dimension, so that an entity that
    has the same name as preferred name is nearer. An n-gram that does not occur in the fitted names is assigned to one
    of 65,536 further dimensions by its checksum, so that equal mentions in an unknown script have equal vectors.
    Default thresholds were chosen on training data (`benchmarks/linking.py`).

    With ``most_names``, a word loses n-grams that more names have than this number and than its rarest n-gram: in a
    long list, these take most of the time of a search.
    """

    sizes: tuple[int, ...] = (3, 4)
    decay: float = 0.9
    floor: float = 0.3
    alias_weight: float = 0.045
    most_names: int | None = None
    frequencies: Frequencies | None = None

    # The names that were fitted and their words, until the first names are encoded: these are mostly the same.
    _read: list[tuple[Spans, Items, sp.csr_array]] = field(default_factory=list, init=False, repr=False, compare=False)

    metric: Metric = field(default="cosine", init=False)
    threshold: tuple[float, float] = field(default=(0.35, 0.2), init=False)

    def fit(self, names: Sequence[str]) -> Self:
        """Return a new encoder with the frequencies of words and n-grams in the distinct names; only it can encode."""
        read = Spans.of(names)
        makers: list[Any] = [words_of, Spans.numbered]
        (words, in_name), (distinct, number) = in_parallel(lambda make: make(read), makers)
        is_first = np.diff(np.maximum.accumulate(number), prepend=-1) > 0
        spans, start, place = grams_of(words, self.sizes, 0, len(words))
        distinct_grams, in_word = spans.numbered()
        grams = StringTable.of(Spans.of(distinct_grams))
        n, workers = len(words), os.cpu_count() or 1
        total = np.zeros((workers, n + len(grams)))
        in_parallel(lambda i: _count(in_name, (start, in_word), is_first, i, workers, total[i], n), range(workers))
        word_count, gram_count = np.split(total.sum(axis=0), [n])
        known = Frequencies(len(distinct), words, grams, word_count, gram_count)
        fitted = replace(self, frequencies=known)
        fitted._read.append((read, in_name, fitted._word_vectors(known, (start, in_word), place, word_count)))
        return fitted

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Vectors:
        """Encode every name of every entity; the first name is the preferred name."""
        return self.named(kb).vectors()

    def named(self, kb: KnowledgeBase) -> NamedEntities:
        """Return the names of all entities, of which only some need to be encoded."""
        names, rows = kb.names()
        owner = rows.astype(np.int32)
        alias = np.where(np.diff(owner, prepend=-1) == 0, self.alias_weight, 0.0)
        return NamedEntities(*self._in_words(Spans.of(names)), alias, owner, len(kb))

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        """Encode the name of each mention, each distinct name once; the context is ignored."""
        names, row = Spans.of(names_of(mentions)).numbered()
        return Vectors(self._encode(Spans.of(names)), row, np.arange(len(row), dtype=np.int32), len(row))

    def near(self, names: Sequence[str], queries: Ids, within: float) -> Ids:
        """Return the ascending rows of the names in ``queries``, and of all that `may_be_near` to one of them."""
        if within >= 1 or self.floor < 0 or not len(queries):
            return np.arange(len(names)) if len(queries) else queries
        every = Spans.of(names)
        words, in_name = words_of(every)
        is_near = may_be_near(in_name, self._vectors_of(words), self._encode(every.taken(queries))[:, :-1], within)
        is_near[queries] = True
        return np.flatnonzero(is_near)

    def unseen(self, names: Sequence[str]) -> float:
        """Return the share of the n-grams in the distinct words of names that the fitted names do not have."""
        assert self.frequencies is not None  # the encoder of a run is fitted
        words, _ = words_of(Spans.of(names))
        grams, _, _ = grams_of(words, self.sizes, 0, len(words))
        number = self.frequencies.grams.find(grams)
        return float((number < 0).mean()) if len(number) else 0.0

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the encoder in a manifest."""
        numbers = {name: getattr(self, name) for name in ("decay", "floor", "alias_weight")}
        return {"encoder": "ngram", "sizes": list(self.sizes), **numbers}

    def _encode(self, names: Spans) -> sp.csr_array:
        """Return unit vectors of names: (names, n-grams + unseen + 1); the last dimension is 0."""
        return name_vectors(*self._in_words(names), np.zeros(len(names.begin)))

    def _in_words(self, names: Spans) -> tuple[Items, sp.csr_array]:
        """Return the words of each name, and the vectors of these words."""
        if self._read:
            fitted, in_name, vectors = self._read.pop()
            if all(map(np.array_equal, fitted, names)):
                return in_name, vectors
        words, in_name = words_of(names)
        return in_name, self._vectors_of(words)

    def _vectors_of(self, words: StringTable) -> sp.csr_array:
        """Return the scaled vectors of words; (words, n-grams + unseen)."""
        if (known := self.frequencies) is None:
            raise RuntimeError("the encoder is not fitted; use the one that fit(names) returns")

        def vectors(begin: int) -> sp.csr_array:
            end = min(begin + _CHUNK, len(words))
            grams, start, place = grams_of(words, self.sizes, begin, end)
            number = known.grams.find(grams)
            dimension = np.where(number >= 0, number, len(known.grams) + (-1 - number) % _UNSEEN)
            number = known.words.find(words.spans.taken(np.arange(begin, end)))
            count = np.zeros(end - begin)
            count[number >= 0] = known.word_count[number[number >= 0]]
            return self._word_vectors(known, (start, dimension), place, count)

        parts = in_parallel(vectors, range(0, max(1, len(words)), _CHUNK))
        return parts[0] if len(parts) == 1 else sp.vstack(parts, "csr")

    def _word_vectors(self, known: Frequencies, in_word: Items, place: Ids, count: Doubles) -> sp.csr_array:
        """Return the scaled vectors of words, from the dimensions and places of their n-grams; each place counts."""
        weight = np.array([max(self.floor, self.decay**place) for place in range(100)], np.float64)
        shape = len(count), len(known.grams) + _UNSEEN
        start, dimension = (array.astype(np.int32) for array in in_word)
        vectors = sp.csr_array((weight[np.minimum(place, 99)], dimension, start), shape)
        vectors.sum_duplicates()
        rarity = known.gram_weight[vectors.indices]
        if self.most_names is not None:
            least = np.minimum(np.maximum.reduceat(rarity, vectors.indptr[:-1]), known.inverse(self.most_names))
            rarity[rarity < np.repeat(least, np.diff(vectors.indptr))] = 0
        vectors.data *= rarity
        vectors.eliminate_zeros()
        length = np.sqrt(vectors.power(2).sum(axis=1))
        scale = np.sqrt(known.inverse(count) / np.where(length > 0, length, 1))
        vectors.data *= np.repeat(scale, np.diff(vectors.indptr))
        return vectors


def grams_of(words: StringTable, sizes: tuple[int, ...], begin: int, end: int) -> tuple[Spans, Ids, Ids]:
    """Return the n-grams of words ``begin`` to ``end - 1``, where those of each word begin, and their places in it.

    Each word is read with a blank at either end; a word that is then shorter than n has one n-gram, itself.
    """
    text, at, start, place = _grams(words.text, words.start[begin : end + 1], np.array(sizes, np.int64))
    return Spans(text, at[:-1], at[1:]), start, place


def name_vectors(in_name: Items, words: sp.csr_array, alias: Doubles) -> sp.csr_array:
    """Return the sum of the words of each name, scaled to length 1, as float32; (names, dimensions of words + 1).

    The last dimension has the value of ``alias`` for each name, which is not scaled; the others of a row ascend.
    """
    n, width, in_word = len(alias), words.shape[1], csr(words)
    parts = in_parallel(
        lambda begin: _sums(in_name, in_word, width, alias, begin, min(begin + _CHUNK, n)), range(0, max(1, n), _CHUNK)
    )
    size, items, values = map(np.concatenate, zip(*parts, strict=True))
    start = np.append(0, np.cumsum(size))
    return sp.csr_array((values, items, start.astype(id_dtype(start[-1]))), (n, width + 1))


def may_be_near(in_name: Items, words: sp.csr_array, queries: sp.csr_array, within: float) -> npt.NDArray[np.bool_]:
    """Return whether each name may be within a dissimilarity, below 1, of one of the vectors ``queries``; (names,).

    ``in_name`` has the words of each name, and ``words`` their vectors. A name that is marked may be farther; one that
    is not is farther. ``queries`` are unit vectors, (sought, dimensions of words).
    """
    length, columns = np.sqrt(words.power(2).sum(axis=1)), sp.csr_array(queries.T)

    def products(begin: int) -> sp.csr_array:
        product = words[begin : begin + _WORDS] @ columns
        product.data -= _LEAST * np.repeat(length[begin : begin + _WORDS], np.diff(product.indptr))
        np.maximum(product.data, 0, out=product.data)
        product.eliminate_zeros()
        return product

    near = csr(sp.vstack(in_parallel(products, range(0, max(1, len(length)), _WORDS)), "csr"))
    is_near, n, least = np.zeros(len(in_name[0]) - 1, np.bool_), queries.shape[0], 1 - within - _ROUNDING
    in_parallel(partial(_reached, in_name, length, near, n, least, is_near), range(0, len(is_near), _NAMES))
    return is_near


@kernel
def _grams(text: Bytes, start: Ids, sizes: Ids) -> tuple[Bytes, Ids, Ids, Ids]:
    most = start[-1] - start[0] + 2 * len(start)  # bytes of words with a blank at either end
    joined, begin = np.empty(sizes.sum() * most, np.uint8), np.zeros(len(sizes) * most + 1, np.int64)
    place = np.empty(len(sizes) * most, np.int64)
    at = np.empty(np.diff(start).max() + 2 if len(start) > 1 else 1, np.int64)
    first, n = np.zeros(len(start), np.int64), 0
    for word in range(len(start) - 1):
        length = 0  # in code points
        for i in range(start[word] - 1, start[word + 1]):
            if text[i] & 0xC0 != 0x80:
                at[length] = i
                length += 1
        at[length] = start[word + 1]
        for size in sizes:
            for p in range(max(1, length - size + 1)):
                place[n], begin[n + 1] = p, begin[n]
                for i in range(at[p], at[min(p + size, length)]):
                    joined[begin[n + 1]] = text[i]
                    begin[n + 1] += 1
                n += 1
        first[word + 1] = n
    return joined[: begin[n]].copy(), begin[: n + 1].copy(), first, place[:n].copy()


@kernel
def _count(in_name: Items, in_word: Items, counts: Bools, first: int, step: int, total: Doubles, n_words: int) -> None:
    """Count the names with each word and then with each n-gram, among every ``step``-th name that ``counts``."""
    last = np.full(len(total) - n_words, -1, np.int64)
    for name in range(first, len(counts), step):
        if counts[name]:
            for word in in_name[1][in_name[0][name] : in_name[0][name + 1]]:
                total[word] += 1
                for gram in in_word[1][in_word[0][word] : in_word[0][word + 1]]:
                    total[n_words + gram] += last[gram] != name
                    last[gram] = name


@kernel
def _sums(in_name: Items, in_word: Csr, width: int, alias: Doubles, begin: int, end: int) -> tuple[Ids, Ids, Floats]:
    """Return the number of dimensions of each name from ``begin`` to ``end - 1``, these dimensions, and the values."""
    words = in_name[1][in_name[0][begin] : in_name[0][end]]
    most = end - begin + (in_word.indptr[words + 1] - in_word.indptr[words]).sum()
    items, values, size = np.empty(most, np.int32), np.empty(most, np.float32), np.zeros(end - begin, np.int64)
    total, last, at = np.empty(width, np.float64), np.full(width, -1, np.int64), 0
    for name in range(begin, end):
        columns, n = items[at:], 0
        for word in in_name[1][in_name[0][name] : in_name[0][name + 1]]:
            for i in range(in_word.indptr[word], in_word.indptr[word + 1]):
                item = in_word.indices[i]
                if last[item] != name:
                    last[item], total[item], columns[n] = name, 0.0, item
                    n += 1
                total[item] += in_word.data[i]
        columns[:n].sort()
        length = np.sqrt((total[columns[:n]] ** 2).sum())
        scale = 1 / length if length > 0 else 1.0
        for i in range(n):
            values[at + i] = np.float32(scale * total[columns[i]])
        at += n
        if alias[name] != 0:
            items[at], values[at] = width, np.float32(alias[name])
            at += 1
        size[name - begin] = n + (alias[name] != 0)
    return size, items[:at].copy(), values[:at].copy()


@kernel
def _reached(in_name: Items, length: Doubles, near: Csr, n: int, least: float, is_near: Bools, begin: int) -> None:
    """Write which of the names from ``begin`` on may have a cosine of ``least`` with one of ``n`` vectors."""
    total = np.zeros(n, np.float64)
    for name in range(begin, min(begin + _NAMES, len(is_near))):
        items = in_name[1][in_name[0][name] : in_name[0][name + 1]]
        squares = lengths = 0.0
        for word in items:
            squares += length[word] ** 2
            lengths += length[word]
        missing = least * np.sqrt(squares) - _LEAST * lengths
        is_near[name] = missing <= 0
        for word in items:
            for i in range(near.indptr[word], near.indptr[word + 1]):
                total[near.indices[i]] += near.data[i]
                is_near[name] |= total[near.indices[i]] >= missing
        for word in items:
            total[near.indices[near.indptr[word] : near.indptr[word + 1]]] = 0
