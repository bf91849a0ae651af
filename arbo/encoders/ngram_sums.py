"""The kernels of the n-gram encoder: the n-grams of words, and sums over the words of a name."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from arbo.encoders.chunks import Rows
from arbo.encoders.string_table import Bytes, Spans, StringTable
from arbo.engine import Ids, Weights, in_threads, kernel

Floats = npt.NDArray[np.float64]


def grams_of(words: StringTable, sizes: tuple[int, ...], begin: int, end: int) -> tuple[Spans, Ids, Ids]:
    """Return the n-grams of words ``begin`` to ``end``, where those of each word begin, and their places in the word.

    A word has a blank at either end; one that is shorter than an n-gram is itself the only one.
    """
    *spans, start, place = _grams(words.text, words.start[begin : end + 1], np.array(sizes, np.int64))
    return Spans(words.text, *spans), start, place


def n_holders(in_name: Rows, in_word: Rows, n_grams: int) -> Ids:
    """Return the number of names that contain each n-gram, from the words of names and the n-grams of words."""
    workers = os.cpu_count() or 1
    counts = np.zeros((workers, n_grams), np.int64)
    in_threads(lambda worker: _count(in_name, in_word, worker, workers, counts[worker]), range(workers), workers)
    return counts.sum(axis=0)


def name_vectors(in_name: Rows, in_word: Rows, begin: int, end: int, width: int, alias: Floats | None) -> Rows:
    """Return the sum of the words of names ``begin`` to ``end``, scaled to length 1, as float32.

    ``alias`` is the value of each of these names in the last of ``width`` dimensions. Dimensions ascend; they descend
    if it is None.
    """
    start, items, values = _sums(in_name, in_word, begin, end, width)
    matrix = sp.csr_array((values, items, start), (end - begin, width))
    matrix.sort_indices()
    start, items, values = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
    values *= np.repeat(1 / lengths(matrix), np.diff(start))
    if alias is None:
        return Rows(start, *_backwards(start, items, values))
    return Rows(*_with_alias(start, items, values, alias, width - 1))


def lengths(matrix: sp.csr_array) -> Floats:
    """Return the length of each row, 1 for a row of zeros."""
    length = np.sqrt(matrix.power(2).sum(axis=1))
    return np.where(length > 0, length, 1)


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
def _count(in_name: Rows, in_word: Rows, first: int, step: int, counts: Ids) -> None:
    """Count the names of every ``step``-th name that contain each n-gram."""
    last = np.full(len(counts), -1, np.int64)
    for name in range(first, len(in_name.start) - 1, step):
        for word in in_name.items[in_name.start[name] : in_name.start[name + 1]]:
            for gram in in_word.items[in_word.start[word] : in_word.start[word + 1]]:
                if last[gram] != name:
                    last[gram] = name
                    counts[gram] += 1


@kernel
def _sums(in_name: Rows, in_word: Rows, begin: int, end: int, width: int) -> tuple[Ids, Ids, Floats]:
    """Return the sums that are not zero, in no order of dimensions."""
    most = 0
    for word in in_name.items[in_name.start[begin] : in_name.start[end]]:
        most += in_word.start[word + 1] - in_word.start[word]
    items, values, n = np.empty(most, np.int32), np.empty(most, np.float64), 0
    start = np.zeros(end - begin + 1, np.int64)
    total, last = np.empty(width, np.float64), np.full(width, -1, np.int64)
    for name in range(begin, end):
        size = n
        for word in in_name.items[in_name.start[name] : in_name.start[name + 1]]:
            for i in range(in_word.start[word], in_word.start[word + 1]):
                item = in_word.items[i]
                if last[item] != name:
                    last[item], total[item], items[size] = name, 0.0, item
                    size += 1
                total[item] += in_word.values[i]
        for i in range(n, size):
            if total[items[i]] != 0:
                items[n], values[n] = items[i], total[items[i]]
                n += 1
        start[name - begin + 1] = n
    return start, items[:n].copy(), values[:n].copy()


@kernel
def _backwards(start: Ids, items: Ids, values: Floats) -> tuple[Ids, Weights]:
    made, small = np.empty_like(items), np.empty(len(items), np.float32)
    for row in range(len(start) - 1):
        for i in range(start[row], start[row + 1]):
            other = start[row] + start[row + 1] - 1 - i
            made[i], small[i] = items[other], np.float32(values[other])
    return made, small


@kernel
def _with_alias(start: Ids, items: Ids, values: Floats, alias: Floats, last: int) -> tuple[Ids, Ids, Weights]:
    """Add ``alias[row]`` in the dimension ``last`` to each row, unless it is 0."""
    first, n = np.zeros_like(start), 0
    made = np.empty(len(items) + len(alias), np.int32)
    small = np.empty(len(made), np.float32)
    for row in range(len(alias)):
        for i in range(start[row], start[row + 1]):
            made[n], small[n] = items[i], np.float32(values[i])
            n += 1
        if alias[row] != 0:
            made[n], small[n] = last, np.float32(alias[row])
            n += 1
        first[row + 1] = n
    return first, made[:n].copy(), small[:n].copy()
