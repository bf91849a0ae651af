"""Tables of distinct strings as plain arrays, without a Python object for each string."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from arbo.data.arrow import Strings, strings, text_of
from arbo.engine import Ids, kernel
from arbo.errors import DataError

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
        array = values.array if isinstance(values, Strings) else strings(values, pa.large_string())
        text, start = text_of(array)
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
def _slot(text: Bytes, begin: int, end: int, code: int, held: Bytes, start: Ids, slots: Ids) -> int:
    """Return the slot of ``text[begin:end]``, which has this checksum, or the free slot where it belongs."""
    slot = _home(code, len(slots))
    while slots[slot] >= 0:
        first, i = start[slots[slot]], 0
        if start[slots[slot] + 1] - first - 1 == end - begin:
            while i < end - begin and held[first + i] == text[begin + i]:
                i += 1
            if i == end - begin:
                break
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@kernel
def _table(text: Bytes, begin: Ids, end: Ids) -> tuple[Bytes, Ids, Ids]:
    """Return the arrays of a table of distinct strings."""
    n, n_slots = len(begin), 64
    while n_slots < 2 * n:
        n_slots *= 4
    held, start = np.full(1 + (end - begin).sum() + n, 32, np.uint8), np.ones(n + 1, np.int64)
    slots = np.full(n_slots, -1, np.int32)
    for i in range(n):
        length = end[i] - begin[i]
        for at in range(length):
            held[start[i] + at] = text[begin[i] + at]
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
        code = _checksum(text, begin[i], end[i])
        number = slots[_slot(text, begin[i], end[i], code, held, start, slots)]
        numbers[i] = number if number >= 0 else -1 - code
    return numbers
