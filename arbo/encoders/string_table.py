"""Strings, such as the normalised words of many names, as plain arrays, without a Python object for each string."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import Strings, text_of
from arbo.engine import Bools, Ids, kernel
from arbo.errors import DataError
from arbo.text.names import MAY_HAVE_SIGNS, marked, normalize_names, signs_of

Bytes = npt.NDArray[np.uint8]


_CHECKSUMS = np.array([crc32(bytes([byte ^ 0xFF])) ^ 0xFF000000 for byte in range(256)])
"""The CRC-32 of each byte, without inversions, from which those of strings are computed."""


class Spans(NamedTuple):
    """Strings in a text in UTF-8: string ``i`` is ``text[begin[i]:end[i]]``."""

    text: Bytes
    begin: Ids
    end: Ids

    @classmethod
    def of(cls, values: Sequence[str]) -> Self:
        """Return strings in a text; those of an Arrow array stay where they are."""
        text, start = text_of(values.array if isinstance(values, Strings) else pa.array(values, pa.large_string()))
        return cls(text, start[:-1], start[1:])

    def taken(self, places: Ids) -> "Spans":
        """Return the strings in these places."""
        return Spans(self.text, self.begin[places], self.end[places])

    def joined(self, others: "Spans") -> "Spans":
        """Return these strings, and then others."""
        ends = (np.append(one, other + len(self.text)) for one, other in zip(self[1:], others[1:], strict=True))
        return Spans(np.append(self.text, others.text), *ends)

    def numbered(self) -> tuple[Strings, Ids]:
        """Return the distinct ones of adjacent strings in order of first appearance, and the number of each string."""
        content = [None, pa.py_buffer(np.append(self.begin, len(self.text))), pa.py_buffer(self.text)]
        encoded = pa.Array.from_buffers(pa.large_string(), len(self.begin), content).dictionary_encode()
        return Strings(encoded.dictionary), np.asarray(np.from_dlpack(encoded.indices), np.int32)

    def parts(self) -> "tuple[Spans, Ids]":
        """Return the parts between blanks of all strings, and where those of each string begin."""
        text, place, start = _split(*self)
        return Spans(text, place[:-1], place[1:]), start

    def strings(self) -> list[str]:
        """Return the strings as Python objects."""
        text, places = self.text.tobytes(), zip(self.begin.tolist(), self.end.tolist(), strict=True)
        return [text[begin:end].decode("utf-8") for begin, end in places]


@dataclass(frozen=True, eq=False, slots=True)
class StringTable:
    """Distinct strings, numbered in order, and found by open addressing; the arrays may be memory-mapped."""

    text: Bytes  # the strings, each followed by a blank, after a first blank
    start: Ids  # (strings + 1,) where each begins; the last is the length of the text
    slots: Ids  # (a power of two,) the number of a string, from the place of its CRC-32 on; -1 if free

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def spans(self) -> Spans:
        """The strings of the table."""
        return Spans(self.text, self.start[:-1], self.start[1:] - 1)

    @classmethod
    def of(cls, spans: Spans) -> Self:
        """Return the table of distinct strings."""
        return cls(*_table(*spans))

    def find(self, spans: Spans) -> Ids:
        """Return the number of each string, or, for a string that is not in the table, -1 minus its CRC-32; int64."""
        return _found(*spans, self.text, self.start, self.slots)

    def arrays(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of the table by names that begin with ``prefix``."""
        return {f"{prefix}_text": self.text, f"{prefix}_start": self.start, f"{prefix}_slots": self.slots}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> Self:
        """Return the table with these arrays, uncopied; raise DataError if they do not fit together."""
        parts = [np.asarray(arrays.get(f"{prefix}_{name}")) for name in ("text", "start", "slots")]
        if not _is_sound(*parts):
            raise DataError(f"the table of {prefix} is damaged; make the index or run with it again")
        return cls(*parts)


def words_of(names: Spans, *, signs: bool = True) -> tuple[StringTable, tuple[Ids, Ids]]:
    """Return the distinct words of ``normalize_name(name).split()`` by first appearance, and those of each name.

    The words of name ``i`` have the numbers ``items[start[i]:start[i + 1]]``, each once. `normalize_name` changes the
    parts of a name between blanks independently, so it is called once for each distinct part. With ``signs``, a name
    with signs has further words, see `arbo.text.names`, which come last in the table.

    >>> words, (start, items) = words_of(Spans.of(["Wilson's Disease", "", "Diseases of Wilson"]))
    >>> words.spans.strings(), start.tolist(), items.tolist()
    (['wilson', 'disease', 'of'], [0, 2, 2, 5], [0, 1, 1, 2, 0])
    """
    spans, begins = names.parts()
    parts, numbers = spans.numbered()
    normalized = normalize_names([*parts])
    spans, first = Spans.of(normalized).parts()
    words, in_part = spans.numbered()
    # A part such as "+++" is a word only in a name of such parts; what follows an apostrophe is no word either.
    is_mark = np.array([not word[:1].isalnum() for word in normalized], np.bool_)
    start, items, order = _distinct_words(begins, numbers, first, in_part, is_mark, len(words))
    distinct = Spans.of(words).taken(order)
    if signs and (has_sign := np.asarray(pc.match_substring_regex(parts.array, MAY_HAVE_SIGNS))).any():
        rows = np.flatnonzero(np.diff(np.append(0, np.cumsum(has_sign[numbers]))[begins]))
        distinct, start, items = _with_marked(distinct, start, items, rows, names.taken(rows).strings())
    return StringTable.of(distinct), (start, items)


def _with_marked(words: Spans, start: Ids, items: Ids, rows: Ids, names: list[str]) -> tuple[Spans, Ids, Ids]:
    """Add the marked words of the names in some rows, if these have signs, to the words and to the names."""
    number: dict[str, int] = {}
    signed = [(row, sign) for row, name in zip(rows.tolist(), names, strict=True) if (sign := signs_of(name))]
    numbers = [items[start[row] : start[row + 1]].tolist() for row, _ in signed]
    used = [*{word: None for of in numbers for word in of}]
    texts = dict(zip(used, words.taken(np.array(used, np.int64)).strings(), strict=True))  # copies the text once
    both = zip(signed, numbers, strict=True)
    new = [[form for word in of for form in marked(texts[word], sign)] for (_, sign), of in both]
    more = [number.setdefault(word, len(words.begin) + len(number)) for of in new for word in of]
    row = np.repeat([row for row, _ in signed], [len(of) for of in new]).astype(np.int64)
    items = np.insert(items, start[row + 1], np.array(more, items.dtype))
    start = start + np.append(0, np.cumsum(np.bincount(row, minlength=len(start) - 1)))
    return words.joined(Spans.of([*number])), start, items


def _is_sound(text: Bytes, start: Ids, slots: Ids) -> bool:
    """Return whether these are the arrays of a table, in which kernels read within bounds and find an end."""
    kinds = [array.dtype.str for array in (text, start, slots) if array.ndim == 1]
    if kinds != ["|u1", "<i8", "<i4"] or not len(start):
        return False
    n, n_slots = len(start) - 1, len(slots)
    return bool(
        start[0] == 1
        and start[-1] == len(text)
        and (np.diff(start) > 0).all()
        and n_slots & (n_slots - 1) == 0 < n_slots >= 2 * n
        and (slots >= 0).sum() == n
        and slots.min() >= -1
        and slots.max() < n
    )


@kernel
def _checksum(text: Bytes, begin: int, end: int) -> int:
    """Return the CRC-32 of ``text[begin:end]``, as zlib defines it."""
    code = 0xFFFFFFFF
    for i in range(begin, end):
        code = _CHECKSUMS[(code ^ text[i]) & 0xFF] ^ (code >> 8)
    return code ^ 0xFFFFFFFF


@kernel
def _home(code: int, n_slots: int) -> int:
    """Return the first slot to try; low digits of checksums of similar strings are too often equal."""
    return (code * 2654435769 & 0xFFFFFFFF) * n_slots >> 32


@kernel
def _table(text: Bytes, begin: Ids, end: Ids) -> tuple[Bytes, Ids, Ids]:
    n, n_slots = len(begin), 64
    while n_slots < 2 * n:
        n_slots *= 4
    held, start = np.full(1 + (end - begin).sum() + n, 32, np.uint8), np.ones(n + 1, np.int64)
    slots = np.full(n_slots, -1, np.int32)
    for i in range(n):
        length = end[i] - begin[i]
        held[start[i] : start[i] + length] = text[begin[i] : end[i]]
        start[i + 1] = start[i] + length + 1
        slot = _home(_checksum(text, begin[i], end[i]), n_slots)
        while slots[slot] >= 0:
            slot = (slot + 1) & (n_slots - 1)
        slots[slot] = i
    return held, start, slots


@kernel
def _found(text: Bytes, begin: Ids, end: Ids, held: Bytes, start: Ids, slots: Ids) -> Ids:
    numbers = np.empty(len(begin), np.int64)
    for i in range(len(begin)):
        code, length = _checksum(text, begin[i], end[i]), end[i] - begin[i]
        slot, numbers[i] = _home(code, len(slots)), -1 - code
        while slots[slot] >= 0 and numbers[i] < 0:
            first, same = start[slots[slot]], 0
            if start[slots[slot] + 1] - first - 1 == length:
                while same < length and held[first + same] == text[begin[i] + same]:
                    same += 1
                if same == length:
                    numbers[i] = slots[slot]
            slot = (slot + 1) & (len(slots) - 1)
    return numbers


@kernel
def _split(text: Bytes, first: Ids, last: Ids) -> tuple[Bytes, Ids, Ids]:
    """Return the parts of strings without blanks, where each begins, and the number of parts before each string."""
    joined, n_bytes = np.empty((last - first).sum(), np.uint8), 0
    place, start, n = np.zeros((last - first + 1).sum() // 2 + 1, np.int64), np.zeros(len(first) + 1, np.int64), 0
    for row in range(len(first)):
        is_inside = False
        for i in range(first[row], last[row]):
            if text[i] != 32:
                joined[n_bytes] = text[i]
                n_bytes += 1
                n += not is_inside
                place[n] = n_bytes
            is_inside = text[i] != 32
        start[row + 1] = n
    return joined[:n_bytes].copy(), place[: n + 1].copy(), start


@kernel
def _distinct_words(
    start: Ids, parts: Ids, first: Ids, words: Ids, is_mark: Bools, n_words: int
) -> tuple[Ids, Ids, Ids]:
    """Return the distinct words of each row of parts, renumbered in order of first use, and the old number of each."""
    most = (first[parts + 1] - first[parts]).sum()
    items, begins, n = np.empty(most, np.int32), np.zeros_like(start), 0
    number, order, n_used = np.full(n_words, -1, np.int32), np.empty(n_words, np.int64), 0
    last = np.full(n_words, -1, np.int64)
    for row in range(len(start) - 1):
        is_bare = True
        for part in parts[start[row] : start[row + 1]]:
            is_bare &= is_mark[part]
        for part in parts[start[row] : start[row + 1]]:
            for word in words[first[part] : first[part + 1]]:
                if is_mark[part] != is_bare or last[word] == row:
                    continue
                last[word] = row
                if number[word] < 0:
                    number[word], order[n_used] = n_used, word
                    n_used += 1
                items[n] = number[word]
                n += 1
        begins[row + 1] = n
    return begins, items[:n].copy(), order[:n_used].copy()
