"""Check that a Parquet file does not declare far more values than it has bytes: a small file can declare billions."""

from __future__ import annotations

import os

import pyarrow.parquet as pq

from arbo.errors import DataError
from arbo.files import PathLike

_MANY = 10**6
_MOST_PACKED = 100


def check_values(parquet: pq.ParquetFile, size: int, file: PathLike) -> None:
    """Raise DataError if a file of ``size`` bytes has more than a million rows, and more than 100 for each byte.

    Of the values in its lists there may be ten times as many.
    """
    told = parquet.metadata
    groups = [told.row_group(i) for i in range(told.num_row_groups)]
    columns = [sum(one.column(i).num_values for one in groups) for i in range(told.num_columns)]
    for n, times, what in ((told.num_rows, 1, "rows"), (max(columns, default=0), 10, "values in a column")):
        if n > times * max(_MANY, _MOST_PACKED * size):
            raise DataError(
                f"the Parquet file declares {n:,} {what} in {size:,} bytes; write it without compression",
                file=os.fspath(file),
            )
