"""The names of a knowledge base by their words: which entities a text can name, without looking at the others."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from arbo.data import Arrays, KnowledgeBase
from arbo.encoders.string_table import Spans, StringTable, words_of
from arbo.engine import Bools, Ids, is_below, is_start, kernel, ranges
from arbo.errors import DataError
from arbo.text.words import SMALL_WORDS, capital_stop_words, content_words, words as words_in

_PARTS = ("first", "start", "items", "row", "always")


# Without slots: `cached_property` keeps the small words in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class WordIndex:
    """The names of a knowledge base as normalised words, sorted by their rarest word; arrays may be memory-mapped."""

    words: StringTable
    first: Ids  # (words + 1,) the names whose rarest word is ``w`` are ``first[w] .. first[w + 1] - 1``
    start: Ids  # (names + 1,) the words of name ``i`` are ``items[start[i] : start[i + 1]]``
    items: Ids
    row: Ids  # (names,) the row of the entity
    always: Ids
    """Rows of entities with a name of small words alone, or a stop word that belongs to it: the Down of "Down
    syndrome"."""

    @classmethod
    def of(cls, kb: KnowledgeBase) -> Self:
        """Read all names of a knowledge base."""
        names, rows = kb.names()
        words, (start, items) = words_of(Spans.of([*map(_plain, names)]), signs=False)
        row = rows.astype(np.int32)
        rarest, n_small = _rarest(start, items, np.bincount(items, minlength=len(words)), _small(words))
        places = np.flatnonzero(n_small)
        few = np.diff(start)[places] - n_small[places] < 2
        odd = [i for i, is_few in zip(places.tolist(), few.tolist(), strict=True) if _has_stop_word(names[i], is_few)]
        always = np.union1d(row[rarest < 0], row[odd])
        order = np.argsort(rarest, kind="stable")
        order = order[np.searchsorted(rarest[order], 0) :]
        first = np.searchsorted(rarest[order], np.arange(len(words) + 1))
        length = np.diff(start)[order]
        ends = np.append(0, np.cumsum(length))
        return cls(words, first, ends, items[ranges(start[:-1][order], length)], row[order], always)

    def rows_with(self, words: Iterable[str]) -> Ids:
        """Return the rows of all entities with a name that consists of these words and of small words, ascending.

        Small words are those in `arbo.text.words.SMALL_WORDS`. The rows in ``always`` are returned too.
        """
        number = self.words.find(words_of(Spans.of([*words]), signs=False)[0].spans)
        known, there = number[number >= 0], self._is_small.copy()
        there[known] = True
        names = ranges(self.first[known], self.first[known + 1] - self.first[known])
        length = self.start[names + 1] - self.start[names]
        is_there, ends = there[self.items[ranges(self.start[names], length)]], np.cumsum(length)
        named = names[np.logical_and.reduceat(is_there, ends - length)] if len(names) else names
        return np.union1d(self.row[named], self.always)

    @cached_property
    def _is_small(self) -> Bools:
        return _small(self.words)

    def arrays(self) -> dict[str, Any]:
        """Return all values as arrays by name, from which `from_arrays` makes the index again."""
        return {name: getattr(self, name) for name in _PARTS} | self.words.arrays("words")

    @classmethod
    def from_arrays(cls, arrays: Arrays, n_entities: int) -> Self:
        """Return the index with these arrays, uncopied; raise DataError if they do not fit together."""
        words = StringTable.from_arrays(arrays, "words")
        first, start, items, row, always = parts = [np.asarray(arrays.get(name)) for name in _PARTS]
        n = len(words)
        if (
            any(one.ndim != 1 or one.dtype.kind != "i" for one in parts)
            or not (is_start(first, n, len(row)) and is_start(start, len(row), len(items)) and is_below(items, n))
            or not all(is_below(rows, n_entities) for rows in (row, always))
        ):
            raise DataError("the words of names are damaged; build the index again with `arbo kb index`")
        return cls(words, *parts)


def _small(words: StringTable) -> Bools:
    """Return which words are small; they may be left out of a name, and decide nothing."""
    number = words.find(words_of(Spans.of(sorted(SMALL_WORDS)), signs=False)[0].spans)
    is_small = np.zeros(len(words), np.bool_)
    is_small[number[number >= 0]] = True
    return is_small


def _plain(name: str) -> str:
    """Return the words of a name, which normalising a sign such as "\u2122" would change."""
    return name if name.isascii() else " ".join(name[begin:end] for begin, end in words_in(name))


def _has_stop_word(name: str, few: bool) -> bool:
    """Return whether a name has one word beside a stop word in capitals; ``few`` if its normalised words are few."""
    may_have = few or not name.isascii() or "_" in name
    return may_have and len(content_words(name)) == 1 and bool(capital_stop_words(name))


@kernel
def _rarest(start: Ids, items: Ids, frequency: Ids, is_small: Bools) -> tuple[Ids, Ids]:
    """Return the rarest word of each name, or -1 if all are small, and the number of its small words."""
    rarest, n_small = np.full(len(start) - 1, -1, np.int32), np.zeros(len(start) - 1, np.int32)
    for name in range(len(rarest)):
        for word in items[start[name] : start[name + 1]]:
            if is_small[word]:
                n_small[name] += 1
            elif rarest[name] < 0 or frequency[word] < frequency[rarest[name]]:
                rarest[name] = word
    return rarest, n_small
