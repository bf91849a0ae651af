"""The kernels of the n-gram encoder: the n-grams of words, and the sums of the words of names."""

import os

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from arbo.encoders.string_table import Bytes, Spans, StringTable
from arbo.engine import Bools, Csr, Floats, Ids, csr, id_dtype, in_parallel, kernel

_CHUNK = 1 << 14  # number of names that a thread takes at once
Doubles = npt.NDArray[np.float64]
Items = tuple[Ids, Ids]
"""Rows of items: row ``i`` has ``items[start[i]:start[i + 1]]``."""


def grams_of(words: StringTable, sizes: tuple[int, ...], begin: int, end: int) -> tuple[Spans, Ids, Ids]:
    """Return the n-grams of words ``begin`` to ``end - 1``, where those of each word begin, and their places in it.

    Each word is read with a blank at either end; a word that is then shorter than n has one n-gram, itself.
    """
    text, at, start, place = _grams(words.text, words.start[begin : end + 1], np.array(sizes, np.int64))
    return Spans(text, at[:-1], at[1:]), start, place


def n_holders(in_name: Items, in_word: Items, counts: Bools, n: tuple[int, int]) -> tuple[Doubles, Doubles]:
    """Count the names that contain each word, and each n-gram; a name counts where ``counts`` is true.

    ``in_name`` has the words of each name, ``in_word`` the n-grams of each word; ``n`` are the numbers of words and
    n-grams, and the lengths of the results.
    """
    workers = os.cpu_count() or 1
    total = np.zeros((workers, sum(n)))
    in_parallel(lambda worker: _count(in_name, in_word, counts, worker, workers, total[worker], n[0]), range(workers))
    words, grams = np.split(total.sum(axis=0), n[:1])
    return words, grams


def name_vectors(in_name: Items, words: sp.csr_array, alias: Doubles) -> sp.csr_array:
    """Return the sum of the words of each name, scaled to length 1, as float32; (names, dimensions of words + 1).

    The last dimension has the value of ``alias`` for each name, which is not scaled. The other dimensions of a row
    ascend.
    """
    n, width, in_word = len(alias), words.shape[1], csr(words)
    parts = in_parallel(
        lambda begin: _sums(in_name, in_word, width, alias, begin, min(begin + _CHUNK, n)), range(0, max(1, n), _CHUNK)
    )
    size, items, values = map(np.concatenate, zip(*parts, strict=True))
    start = np.append(0, np.cumsum(size))
    return sp.csr_array((values, items, start.astype(id_dtype(start[-1]))), (n, width + 1))


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
    """Count the names with each word and then with each n-gram, among every ``step``-th name."""
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
    most = end - begin
    for word in in_name[1][in_name[0][begin] : in_name[0][end]]:
        most += in_word.indptr[word + 1] - in_word.indptr[word]
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
