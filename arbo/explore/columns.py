"""Columns as bytes: how a page holds numbers and strings; `static/columns.js` reads them.

The bytes are the length of a JSON header (4 bytes, little-endian), the header, and the columns. The header has the
``columns`` as ``[name, kind, length]``. Numbers have four bytes each; all first bytes come first, then all second bytes
and so on, which compresses well. Kinds: ``i`` integers; ``d`` differences of integers; ``f`` the bits of a float32, NaN
for null; ``s`` strings, as the number of bytes of each in UTF-8 (kind ``i``), then their bytes with a NUL, which no
text of a run has, between each two.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


class Columns:
    """Collects columns, and writes them as bytes."""

    def __init__(self) -> None:
        self._heads: list[tuple[str, str, int]] = []
        self._bodies: list[bytes] = []

    def numbers(self, name: str, values: npt.ArrayLike, *, sorted_: bool = False) -> None:
        """Add integers; with ``sorted_``, as differences, which compress better if neighbours are alike."""
        integers = np.asarray(values, np.int64)
        self._add(
            name, "d" if sorted_ else "i", len(integers), _planes(np.diff(integers, prepend=0) if sorted_ else integers)
        )

    def decimals(self, name: str, values: pa.ChunkedArray | npt.NDArray[Any]) -> None:
        """Add numbers as float32; null and infinities become null."""
        doubles = values if isinstance(values, np.ndarray) else pc.fill_null(values, float("nan")).to_numpy()
        floats = doubles.astype(np.float32)
        floats[~np.isfinite(floats)] = np.nan
        self._add(name, "f", len(floats), _planes(floats.view(np.int32)))

    def strings(self, name: str, values: pa.Array | pa.ChunkedArray) -> None:
        """Add strings; null becomes the empty string."""
        filled = pc.fill_null(values, "")
        length = _planes(np.asarray(pc.binary_length(filled)))
        self._add(name, "s", len(filled), length + "\0".join(filled.to_pylist()).encode())

    def codes(self, name: str, values: pa.ChunkedArray) -> None:
        """Add strings as codes, -1 for null, and under ``name.words`` the distinct strings."""
        coded = values.combine_chunks().dictionary_encode()
        self.numbers(name, pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False))
        self.strings(f"{name}.words", coded.dictionary)

    def packed(self, **head: Any) -> bytes:
        """Return all columns with a header; equal columns give equal bytes."""
        header = json.dumps({**head, "columns": self._heads}, ensure_ascii=True).encode()
        return b"".join([len(header).to_bytes(4, "little"), header, *self._bodies])

    def _add(self, name: str, kind: str, length: int, body: bytes) -> None:
        self._heads.append((name, kind, length))
        self._bodies.append(body)


def _planes(values: npt.NDArray[Any]) -> bytes:
    return values.astype("<i4").view(np.uint8).reshape(-1, 4).T.tobytes()
