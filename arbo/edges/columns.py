"""Columns of a table beside its names: which kind of values they hold, and how alike two values are."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import CountVectorizer

from arbo.data.arrow import codes_of
from arbo.data.columns import ColumnKind
from arbo.engine import Ids, Weights, kernel, ranges
from arbo.errors import UsageError
from arbo.text.names import normalize_names

Levels = npt.NDArray[np.int8]
_MOST = 0.8  # share of values that have a kind
_RARE = 10  # most rows of a value that proposes pairs
_SHARED = (0.6, 0.4, 0.2)  # least shares of common 3-grams: nearly equal, similar, somewhat similar
_WITHIN = (0.02, 0.1, 0.3)
_SEPARATOR = re.compile(r"[\W_]+")
_UNIT = re.compile(r"[$€£¥%]|\b(?:usd|eur|gbp)\b", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d*(?:,\d{3})*)(?:\.\d+)?(?:e[-+]?\d{1,2})?", re.IGNORECASE)


class _Sets(NamedTuple):
    """Sets of numbers: the 3-grams or the words of each value."""

    item: npt.NDArray[np.int32]
    begin: npt.NDArray[np.int32]

    @classmethod
    def of(cls, texts: Sequence[str], **how: Any) -> Self:
        matrix = CountVectorizer(lowercase=False, binary=True, **how).fit_transform(texts)
        matrix.sort_indices()
        return cls(matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))


class Column(NamedTuple):
    """The values of a column, as the model compares them."""

    name: str
    kind: ColumnKind
    value: Ids
    """(rows,) the number of each row's value; -1 where it is missing."""
    number: Weights
    """(values,) NaN for no number."""
    grams: _Sets | None
    words: _Sets | None
    """Of the values of texts and codes."""

    @classmethod
    def of(cls, name: str, kind: ColumnKind | None, cells: Sequence[str]) -> Self:
        """Guess the kind if it is None; a cell without a letter and digit is missing. Raise UsageError without any."""
        value = codes_of(cells)
        texts = list(dict.fromkeys(cells))
        is_missing = np.array([not any(map(str.isalnum, text)) for text in texts], np.bool_)
        if kind is None and is_missing.all():
            raise UsageError(f"no row has a value in the column {name!r}; leave it out")
        kind = kind or _kind_of([*compress(texts, ~is_missing)])
        if kind == "text":
            texts = normalize_names(texts)
        elif kind == "code":
            texts = [_SEPARATOR.sub("", text.casefold()) for text in texts]
        compared = codes_of(texts)
        number = np.array([_number(text) if kind == "number" else np.nan for text in dict.fromkeys(texts)], np.float64)
        sets: list[_Sets | None] = [None, None]
        if kind in ("text", "code"):
            distinct = [text or "?" for text in dict.fromkeys(texts)]
            sets = [_Sets.of(distinct, analyzer="char_wb", ngram_range=(3, 3)), _Sets.of(distinct, analyzer=str.split)]
        return cls(name, kind, np.where(is_missing, -1, compared)[value], number, *sets)

    def levels(self, first: Ids, second: Ids) -> Levels:
        """Return the level of each pair of rows, see `LEVELS`; (pairs,)."""
        a, b = self.value[first], self.value[second]
        known = (a >= 0) & (b >= 0)
        out = np.zeros(len(first), np.int8)
        if self.kind == "number":
            known &= np.isfinite(self.number[a]) & np.isfinite(self.number[b])
            x, y = self.number[a[known]], self.number[b[known]]
            most = np.maximum(np.maximum(np.abs(x), np.abs(y)), np.finfo(np.float64).tiny)
            out[known] = 1 + np.searchsorted((0, *_WITHIN), np.abs(x / 2 - y / 2) / (most / 2))
        elif self.grams is None or self.words is None:
            out[known] = np.where(a[known] == b[known], 1, 2)
        else:
            some = np.empty(int(known.sum()), np.int8)
            _compare(a[known], b[known], self.grams, self.words, some)
            out[known] = some
        return out

    def pairs(self, name: Ids, is_blank: npt.NDArray[np.bool_]) -> tuple[Ids, Ids]:
        """Return the pairs of rows with an equal rare value, or with an equal value and an equal ``name``, (rows,)."""
        if self.kind == "source":
            return np.empty(0, np.int64), np.empty(0, np.int64)
        value = np.where(is_blank, -1, self.value)
        count = np.bincount(value[value >= 0], minlength=1)
        is_rare = (value >= 0) & (count[value] <= _RARE)
        key = np.where(is_rare, value, len(count) + value * (name.max(initial=0) + 1) + name)
        return _pairs_of_equal(np.flatnonzero(value >= 0), key)


def _pairs_of_equal(row: Ids, key: Ids) -> tuple[Ids, Ids]:
    """Return the pairs of rows with an equal key that at most `_RARE` rows have; the smaller row comes first."""
    row = row[np.argsort(key[row], kind="stable")]
    _, begin, size = np.unique(key[row], return_index=True, return_counts=True)
    chosen = (size > 1) & (size <= _RARE)
    begin, size = begin[chosen], size[chosen]
    at = ranges(begin, size)
    later = np.repeat(begin + size, size) - at - 1
    return np.repeat(row[at], later), row[ranges(at + 1, later)]


def _kind_of(texts: Sequence[str]) -> ColumnKind:
    """Guess the kind of values: numbers, codes, which are mostly digits, or texts."""
    lengths = Counter(len(text) for text in texts if text.isdecimal() and len(text) > 3)
    if max(lengths.values(), default=0) > _MOST * len(texts):
        return "code"  # years, dates, postcodes
    if np.mean([np.isfinite(_number(text)) for text in texts]) > _MOST:
        return "number"
    has_digits = [2 * sum(map(str.isdigit, text)) >= sum(map(str.isalnum, text)) for text in texts]
    return "code" if np.mean(has_digits) > _MOST else "text"


def _number(text: str) -> float:
    text = _UNIT.sub("", text).strip()
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else np.nan


@kernel
def _n_shared(sets: Any, a: int, b: int) -> int:
    i, j, shared = sets.begin[a], sets.begin[b], 0
    while i < sets.begin[a + 1] and j < sets.begin[b + 1]:
        left, right = sets.item[i], sets.item[j]
        shared += int(left == right)
        i += int(left <= right)
        j += int(right <= left)
    return shared


@kernel
def _compare(first: Ids, second: Ids, grams: Any, words: Any, out: Levels) -> None:
    """Write the levels of pairs of texts."""
    for pair in range(len(first)):
        a, b = first[pair], second[pair]
        shared = _n_shared(grams, a, b)
        size_a, size_b = grams.begin[a + 1] - grams.begin[a], grams.begin[b + 1] - grams.begin[b]
        share = shared / max(size_a + size_b - shared, 1)
        n_words = min(words.begin[a + 1] - words.begin[a], words.begin[b + 1] - words.begin[b])
        if a == b:
            out[pair] = 1
        elif share >= _SHARED[0]:
            out[pair] = 2
        elif n_words > 0 and _n_shared(words, a, b) == n_words:
            out[pair] = 3
        else:
            out[pair] = 4 if share >= _SHARED[1] else 5 if share >= _SHARED[2] else 6
