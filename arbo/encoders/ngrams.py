"""The default encoder: character n-grams of names, without trained weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from arbo.data.inputs import MentionInput
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Metric, Vectors
from arbo.progress import Announce, quiet
from arbo.text.names import normalize_name

Floats = npt.NDArray[np.float64]

_UNSEEN = 1 << 16
_NORMALIZER = "arbo.names.normalize_name"
"""The name of the default normaliser in files, whatever module it is in; saved settings are compared by this name."""


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Document frequencies of words and n-grams in the fitted names."""

    n_names: int
    words: dict[str, int] = field(repr=False)  # the index of each word in ``word_count``
    grams: dict[str, int] = field(repr=False)  # the dimension of each n-gram
    word_count: Floats = field(repr=False)
    gram_count: Floats = field(repr=False)

    def inverse(self, counts: Floats) -> Floats:
        """Return the smoothed inverse document frequency ``log((1 + names) / (1 + count)) + 1``."""
        return np.asarray(np.log((1 + self.n_names) / (1 + counts)) + 1)


@dataclass(frozen=True, slots=True)
class NgramEncoder:
    """Embeds a name as the sum of its words, and a word as the sum of its character n-grams; the metric is the cosine.

    An n-gram has one of the lengths in ``sizes``. Its weight is its inverse document frequency times the larger of
    ``floor`` and ``decay`` to the power of its position in the word, counted from 0, since stems matter more than
    endings. The vector of a word is then scaled: its new length is the square root of its old length times the square
    root of the word's inverse document frequency, so that long words do not outweigh rare ones.

    An entity has one vector for each name. An alias has a small weight in a separate dimension, so that if two entities
    have the same name, the one that has it as preferred name is nearer. An n-gram that does not occur in the fitted
    names is assigned to one of 65,536 further dimensions by its checksum, so that "Xqz fever" differs from
    "fever", and equal mentions in an unknown script have equal vectors. Default thresholds were chosen on training
    data, see DECISIONS.md.
    """

    sizes: tuple[int, ...] = (3, 4)
    decay: float = 0.9
    floor: float = 0.3
    alias_weight: float = 0.045
    normalize: Callable[[str], str] = normalize_name
    frequencies: Frequencies | None = None

    metric: Metric = field(default="cosine", init=False)
    threshold: tuple[float, float] = field(default=(0.35, 0.2), init=False)

    def fit(self, names: Sequence[str]) -> Self:
        """Return a new encoder with the frequencies of words and n-grams in the distinct names; only it can encode."""
        words: dict[str, int] = {}
        grams: dict[str, int] = {}
        in_name = _incidence([self._words(name) for name in dict.fromkeys(names)], words)
        in_word = self._gram_weights(words, grams, grow=True)
        counts = in_name @ sp.csr_array((np.ones(in_word.nnz), in_word.indices, in_word.indptr), in_word.shape)
        frequencies = Frequencies(
            in_name.shape[0],
            words,
            grams,
            np.bincount(in_name.indices, minlength=len(words)).astype(np.float64),
            np.bincount(counts.indices, minlength=len(grams)).astype(np.float64),
        )
        return replace(self, frequencies=frequencies)

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Vectors:
        """Encode every name of every entity; the first name is the preferred name."""
        names, rows = kb.names()
        owner = np.asarray(rows, np.int32)
        is_alias = np.ones(len(names), np.bool_)
        is_alias[np.unique(owner, return_index=True)[1]] = False
        return Vectors.of(self._encode(names, is_alias), owner, n=len(kb))

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Vectors:
        """Encode the name of each mention, each distinct name once; the context is ignored."""
        place: dict[str, int] = {}
        row = np.array([place.setdefault(mention.name, len(place)) for mention in mentions], np.int32)
        return Vectors(self._encode(list(place)), row, np.arange(len(row), dtype=np.int32), len(row))

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the encoder in a manifest."""
        own = f"{self.normalize.__module__}.{self.normalize.__qualname__}"
        return {
            "encoder": "ngram",
            "sizes": list(self.sizes),
            "decay": self.decay,
            "floor": self.floor,
            "alias_weight": self.alias_weight,
            "normalize": _NORMALIZER if self.normalize is normalize_name else own,
        }

    def _encode(self, names: Sequence[str], is_alias: npt.NDArray[np.bool_] | None = None) -> sp.csr_array:
        """Return unit vectors of names: (names, n-grams + unseen + 1); the last dimension marks aliases."""
        known = self.frequencies
        if known is None:
            raise RuntimeError("the encoder is not fitted; use the one that fit(names) returns")
        words: dict[str, int] = {}
        in_name = _incidence([self._words(name) for name in names], words)
        in_word = self._gram_weights(words, known.grams, grow=False)
        in_word = in_word @ sp.diags_array(known.inverse(np.pad(known.gram_count, (0, _UNSEEN))))
        place = np.array([known.words.get(word, -1) for word in words], np.int64)
        count = np.where(place >= 0, known.word_count[place], 0) if len(known.word_count) else np.zeros(len(place))
        length = np.sqrt(in_word.power(2).sum(axis=1))
        scale = np.sqrt(known.inverse(count) / np.where(length > 0, length, 1))
        vectors = in_name @ (sp.diags_array(scale) @ in_word)
        length = np.sqrt(vectors.power(2).sum(axis=1))
        vectors = sp.diags_array(1 / np.where(length > 0, length, 1)) @ vectors
        alias = np.zeros(len(names)) if is_alias is None else self.alias_weight * is_alias
        return sp.csr_array(sp.hstack([vectors, sp.csr_array(alias[:, None])]), dtype=np.float32)

    def _words(self, name: str) -> Iterable[str]:
        return dict.fromkeys(self.normalize(name).split())

    def _gram_weights(self, words: Iterable[str], grams: dict[str, int], *, grow: bool) -> sp.csr_array:
        """Return (words, n-grams): the summed position weights of each n-gram in a word with a blank at either end."""
        indices: list[int] = []
        weights: list[float] = []
        indptr = [0]
        weight = [max(self.floor, self.decay**place) for place in range(100)]
        for word in words:
            padded = f" {word} "
            for size in self.sizes:
                for place in range(max(1, len(padded) - size + 1)):
                    gram = padded[place : place + size]
                    dimension = grams.setdefault(gram, len(grams)) if grow else grams.get(gram, -1)
                    indices.append(dimension if dimension >= 0 else len(grams) + crc32(gram.encode()) % _UNSEEN)
                    weights.append(weight[min(place, 99)])
            indptr.append(len(indices))
        shape = len(indptr) - 1, len(grams) + (0 if grow else _UNSEEN)
        matrix = sp.csr_array((weights, indices, indptr), shape, dtype=np.float64)
        matrix.sum_duplicates()
        return matrix


def _incidence(rows: Iterable[Iterable[str]], column: dict[str, int]) -> sp.csr_array:
    """Return a (rows, columns) matrix of ones; new columns are added in order of appearance."""
    indices: list[int] = []
    indptr = [0]
    for items in rows:
        indices.extend(column.setdefault(item, len(column)) for item in items)
        indptr.append(len(indices))
    return sp.csr_array((np.ones(len(indices)), indices, indptr), (len(indptr) - 1, len(column)))
