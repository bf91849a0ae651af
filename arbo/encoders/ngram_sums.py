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
    *spans, start, place = _grams(words.text, words.start[begin : end + 1], np.array(sizes, np.int64))
    return Spans(words.text, *spans), start, place


def n_holders(in_name: Items, in_word: Items, counts: Bools, n: tuple[int, int]) -> tuple[Doubles, Doubles]:
    """Count the names that contain each word, and each n-gram; a name counts where ``counts`` is true.

    ``in_name`` has the words of each name, ``in_word`` the n-grams of each word; ``n`` are the numbers of words and
    n-grams, and the lengths of the results.
    """
    workers = os.cpu_count() or 1
    total = np.zeros((workers, sum(n)))
    in_parallel(
        lambda worker: _count(in_name, in_word, counts, worker, workers, total[worker, : n[0]], total[worker, n[0] :]),
        range(workers),
    )
    words, grams = np.split(total.sum(axis=0), n[:1])
    return words, grams


def name_vectors(in_name: Items, words: sp.csr_array, alias: Doubles) -> sp.csr_array:
    """Return the sum of the words of each name, scaled to length 1, as float32; (names, dimensions of words + 1).

    The last dimension has the value of ``alias`` for each name, which is not scaled. The other dimensions of a row
    ascend.
    """
    n, width, in_word = len(alias), words.shape[1], csr(words)
    start = np.zeros(n + 1, np.int64)
    begins = range(0, n, _CHUNK)
    in_parallel(lambda begin: _sizes(in_name, in_word, width, alias, begin, begin + _CHUNK, start), begins)
    np.cumsum(start, out=start)
    items, values = np.empty(int(start[-1]), np.int32), np.empty(int(start[-1]), np.float32)

    def fill(begin: int) -> None:
        _fill(in_name, in_word, width, alias, begin, begin + _CHUNK, start, items, values)

    in_parallel(fill, begins)
    return sp.csr_array((values, items, start.astype(id_dtype(start[-1]))), (n, width + 1))


@kernel
def _grams(text: Bytes, start: Ids, sizes: Ids) -> tuple[Ids, Ids, Ids, Ids]:
    most = len(sizes) * (start[-1] - start[0] + 2 * len(start))
    begin, end, place = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
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
                begin[n], end[n], place[n] = at[p], at[min(p + size, length)], p
                n += 1
        first[word + 1] = n
    return begin[:n].copy(), end[:n].copy(), first, place[:n].copy()


@kernel
def _count(
    in_name: Items, in_word: Items, counts: Bools, first: int, step: int, words: Doubles, grams: Doubles
) -> None:
    """Count the names with each word and n-gram, among every ``step``-th name."""
    last = np.full(len(grams), -1, np.int64)
    for name in range(first, len(counts), step):
        if counts[name]:
            for word in in_name[1][in_name[0][name] : in_name[0][name + 1]]:
                words[word] += 1
                for gram in in_word[1][in_word[0][word] : in_word[0][word + 1]]:
                    grams[gram] += last[gram] != name
                    last[gram] = name


@kernel
def _sizes(in_name: Items, in_word: Csr, width: int, alias: Doubles, begin: int, end: int, size: Ids) -> None:
    """Count the dimensions of names ``begin`` to ``end``, the alias included, in ``size[name + 1]``."""
    last = np.full(width, -1, np.int64)
    for name in range(begin, min(end, len(alias))):
        size[name + 1] = alias[name] != 0
        for word in in_name[1][in_name[0][name] : in_name[0][name + 1]]:
            for item in in_word.indices[in_word.indptr[word] : in_word.indptr[word + 1]]:
                size[name + 1] += last[item] != name
                last[item] = name


@kernel
def _fill(
    in_name: Items,
    in_word: Csr,
    width: int,
    alias: Doubles,
    begin: int,
    end: int,
    start: Ids,
    items: Ids,
    values: Floats,
) -> None:
    """Write the vectors of names ``begin`` to ``end``; that of name ``i`` begins at ``start[i]``."""
    total, last = np.empty(width, np.float64), np.full(width, -1, np.int64)
    for name in range(begin, min(end, len(alias))):
        at = start[name]
        columns = items[at : start[name + 1] - (alias[name] != 0)]
        n = 0
        for word in in_name[1][in_name[0][name] : in_name[0][name + 1]]:
            before = n
            for i in range(in_word.indptr[word], in_word.indptr[word + 1]):
                item = in_word.indices[i]
                if last[item] != name:
                    last[item], total[item], columns[n] = name, 0.0, item
                    n += 1
                total[item] += in_word.data[i]
            _merge(columns[:n], before)
        length = np.sqrt((total[columns] ** 2).sum())
        scale = 1 / length if length > 0 else 1.0
        for i in range(n):
            values[at + i] = np.float32(scale * total[columns[i]])
        if alias[name] != 0:
            items[at + n], values[at + n] = width, np.float32(alias[name])


@kernel
def _merge(items: Ids, n: int) -> None:
    """Sort items of which the first ``n`` are sorted, and the others too."""
    fresh, place, left = items[n:].copy(), len(items) - 1, n - 1
    for i in range(len(fresh) - 1, -1, -1):
        while left >= 0 and items[left] > fresh[i]:
            items[place] = items[left]
            place, left = place - 1, left - 1
        items[place] = fresh[i]
        place -= 1
