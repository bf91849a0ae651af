"""Arrow arrays from numbers and strings, and sequences whose items are made from such arrays.

If pandas is there, pyarrow imports it, which takes longer than to link a document; in the command line, it finds none.
"""

import json
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from importlib.machinery import BuiltinImporter
from itertools import chain
from operator import eq
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo import errors
from arbo.files import json_text

Arrays = Mapping[str, npt.NDArray[Any]]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_AT_ONCE = 1 << 12
Item = TypeVar("Item")


if errors.shown and "pandas" not in sys.modules:
    finders, sys.meta_path = sys.meta_path, [BuiltinImporter]
    pa.scalar(0)  # pyarrow looks for pandas once
    sys.meta_path = finders


class OnDemand(Sequence[Item]):
    """A sequence whose items are made when somebody looks at them, some at a time; the last ones are kept."""

    together, keeps_all = 1, False
    """Number of items that are made when one of them is looked at, and whether these are kept when others are made."""

    def __init__(self, length: int, make: Callable[[int, int], Sequence[Item]]) -> None:
        """Take the number of items, and a function that makes at most so many items from a place on."""
        self._places, self._make = range(length), make
        self._blocks: dict[int, Sequence[Item]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(places := self._places[index], range):
            return self._item(places)
        if self.keeps_all or places.step != 1 or not places:
            return [*map(self._item, places)]
        return self._make(places.start, len(places))

    def _item(self, place: int) -> Item:
        block, row = divmod(place, self.together)
        if (made := self._blocks.get(block)) is None:
            made = self._make(place - row, self.together)
            self._blocks = self._blocks if self.keeps_all else {}
            self._blocks[block] = made
        return made[row]

    def __iter__(self) -> Iterator[Item]:
        if self.keeps_all:
            return map(self._item, self._places)
        return chain.from_iterable(self._make(begin, _AT_ONCE) for begin in range(0, len(self), _AT_ONCE))

    def __repr__(self) -> str:
        return f"<{len(self):,} {type(self).__name__.lower()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))


class Strings(OnDemand[str]):
    """The strings of an Arrow array."""

    def __init__(self, array: pa.Array) -> None:
        super().__init__(len(array), lambda begin, length: array.slice(begin, length).to_pylist())
        self.array = array


def views(kind: type[Item], columns: Mapping[str, Sequence[Any]]) -> list[Item]:
    """Make objects of columns by the names of their fields; the values were checked when the columns were made."""
    made = [kind.__new__(kind) for _ in next(iter(columns.values()))]
    for name, column in columns.items():
        set_field = vars(kind)[name].__set__
        for one, value in zip(made, column, strict=True):
            set_field(one, value)
    return made


def text_of(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Return the bytes of strings, read-only, and where each begins, and the last ends; (strings + 1,)."""
    _, offsets, content = column.cast(pa.large_string()).buffers()
    start = np.frombuffer(offsets or bytes(8), np.int64)[column.offset :][: len(column) + 1]
    text = np.frombuffer(content or b"", np.uint8)[start[0] : start[-1]]
    text.flags.writeable = False  # numba would compile kernels again for an array that can be written to
    return text, start - start[0] if start[0] else start


def numbers(values: npt.NDArray[Any], *, missing: Bools | None = None) -> pa.Array:
    """Return numbers or truth values as an Arrow array of the same type; null where ``missing`` is true."""
    return pa.array(values, mask=missing)


def rows_among(values: pa.ChunkedArray, known: pa.ChunkedArray) -> Ints:
    """Return the first row of each value among the known ones; -1 for a value that is missing among them, or null."""
    if 8 * len(values) < len(known):  # only few are hashed
        few = values.unique()
        place, first = rows_among(known, few), np.full(len(few) + 1, -1)
        first[place[::-1]] = np.arange(len(known))[::-1]  # so that the first row stays
        return np.append(first[:-1], -1)[rows_among(values, few)]
    return np.asarray(pc.fill_null(pc.index_in(values, known, skip_nulls=True), -1).to_numpy(), np.int64)


def codes_of(values: Iterable[Hashable]) -> Ints:
    """Return a code for each value; equal values have the same code, and codes ascend from 0 in order of appearance."""
    items = list(values)
    number = {value: code for code, value in enumerate(dict.fromkeys(items))}
    return np.fromiter(map(number.__getitem__, items), np.int64, len(items))


def coded(column: pa.ChunkedArray) -> tuple[Ints, pa.Array]:
    """Return a code for each value, and the distinct values by code; null has the code after them."""
    encoded = column.combine_chunks().dictionary_encode()
    return pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy().astype(np.int64), encoded.dictionary


def strings(values: Sequence[str | None]) -> pa.Array:
    """Return strings as an Arrow array; None becomes null."""
    return values.array.cast(pa.string()) if isinstance(values, Strings) else pa.array(values, pa.string())


def json_strings(objects: Iterable[Mapping[str, Any]]) -> pa.Array:
    """Return objects as large strings of JSON; an empty one becomes null, as do infinity and NaN inside."""
    return pa.array([json_text(one) if one else None for one in objects], pa.large_string())


def parsed(cells: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return the objects of `json_strings`; ``{}`` for null."""
    objects = iter(json.loads(f"[{','.join([cell for cell in cells if cell])}]"))
    return [next(objects) if cell else {} for cell in cells]


def starts(length: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Return where lists of these lengths begin, and where the last ends, for `pyarrow.ListArray.from_arrays`."""
    return numbers(np.append(np.int32(0), np.cumsum(length, dtype=np.int32)))
