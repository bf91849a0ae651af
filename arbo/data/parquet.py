"""Check that a Parquet file does not declare far more values than it has bytes: a small file can declare billions.

The sizes of columns are read here, from the Thrift structures (in their compact form) that describe the file, since
`RowGroupMetaData.column` of pyarrow ends the process if a column has sizes that do not fit its type.
"""

import os
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from arbo.errors import DataError
from arbo.files import PathLike

_MANY = 10**6
_MOST_PACKED = 100


class Chunk(NamedTuple):
    """What a file declares of a column in a group of rows."""

    values: int
    size: int
    """Bytes, unpacked."""


def check_values(parquet: pq.ParquetFile, size: int, file: PathLike) -> None:
    """Raise DataError if a file of ``size`` bytes has more than a million rows, and more than 100 for each byte.

    Of the values in its lists there may be ten times as many.
    """
    told = parquet.metadata
    columns = (sum(chunk.values for chunk in column) for column in zip(*chunks(parquet), strict=True))
    for n, times, what in ((told.num_rows, 1, "rows"), (max(columns, default=0), 10, "values in a column")):
        if n > times * max(_MANY, _MOST_PACKED * size):
            mend = "write it without compression"
            raise DataError(f"the Parquet file declares {n:,} {what} in {size:,} bytes; {mend}", file=os.fspath(file))


def chunks(parquet: pq.ParquetFile) -> list[list[Chunk]]:
    """Return what is declared of each column, for each group of rows."""
    written = BytesIO()
    parquet.metadata.write_metadata_file(written)
    groups = _struct(BytesIO(written.getvalue()[4:])).get(4, [])  # after the mark of the format
    described = [[column.get(3, {}) for column in group.get(1, [])] for group in groups]
    return [[Chunk(own.get(5, 0), own.get(6, 0)) for own in group] for group in described]


def _struct(stream: BytesIO) -> dict[int, Any]:
    """Read the fields of a structure by their numbers."""
    found: dict[int, Any] = {}
    field = 0
    while head := stream.read(1)[0]:
        field = field + (head >> 4) if head >> 4 else _signed(stream)
        kind = head & 15
        found[field] = kind == 1 if kind in (1, 2) else _value(stream, kind)
    return found


def _value(stream: BytesIO, kind: int) -> Any:
    if kind in (4, 5, 6):
        return _signed(stream)
    if kind == 9:
        head = stream.read(1)[0]
        return [_value(stream, head & 15) for _ in range(head >> 4 if head < 240 else _unsigned(stream))]
    if kind == 12:
        return _struct(stream)
    # A truth value in a list, a byte, a float, or a text after its length.
    return stream.read({1: 1, 2: 1, 3: 1, 7: 8}.get(kind) or _unsigned(stream))


def _unsigned(stream: BytesIO) -> int:
    value = shift = 0
    while (byte := stream.read(1)[0]) > 127:
        value, shift = value | (byte & 127) << shift, shift + 7
    return value | byte << shift


def _signed(stream: BytesIO) -> int:
    value = _unsigned(stream)
    return value >> 1 ^ -(value & 1)
