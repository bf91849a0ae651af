"""The kernels of the n-gram encoder: the n-grams of words, the sums of the words of names, and names that may be near.

Names that may be near others are recognised by their words, so that the vectors of all others are never made. The
vector of a name is the sum of those of its words, which have no negative value: it is at least as long as if these
were orthogonal. So the cosine with a unit vector is at most the sum of the products with the words, divided by the root
of the sum of their squared lengths.
"""

import os

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from arbo.encoders.string_table import Bytes, Spans, StringTable
from arbo.engine import Bools, Csr, Floats, Ids, csr, id_dtype, in_parallel, kernel

_CHUNK = 1 << 14  # number of names that a thread takes at once
_WORDS, _NAMES = 1 << 12, 1 << 16  # numbers of words and of names that a thread takes at once
_LEAST = 0.1
"""Smaller cosines of a word are not kept, but count as this: then few are kept, and few names too many are marked."""
_ROUNDING = 1e-5  # more than the rounding of vectors to float32
Doubles = npt.NDArray[np.float64]
Items = tuple[Ids, Ids]  # rows of items: row ``i`` has ``items[start[i]:start[i + 1]]``


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
    in_parallel(
        lambda begin: _reached(in_name, length, near, n, least, begin, begin + _NAMES, is_near),
        range(0, len(is_near), _NAMES),
    )
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


@kernel
def _reached(
    in_name: Items, length: Doubles, near: Csr, n: int, least: float, begin: int, end: int, is_near: Bools
) -> None:
    """Write which of the names ``begin`` to ``end`` may have a cosine of ``least`` with one of ``n`` vectors."""
    total = np.zeros(n, np.float64)
    for name in range(begin, min(end, len(is_near))):
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
