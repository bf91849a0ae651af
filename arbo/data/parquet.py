"""Check that a Parquet file holds no more values than its bytes can tell apart: a small file can declare billions."""

from __future__ import annotations

import os

import pyarrow.parquet as pq

from arbo.errors import DataError
from arbo.files import PathLike

_MANY = 10**6


def check_values(parquet: pq.ParquetFile, size: int, file: PathLike) -> None:
    """Raise DataError if a file of ``size`` bytes has more than a million rows, and more than bytes.

    Of the values in its lists there may be ten times as many.
    """
    told = parquet.metadata
    groups = [told.row_group(i) for i in range(told.num_row_groups)]
    columns = [sum(one.column(i).num_values for one in groups) for i in range(told.num_columns)]
    for n, times, what in ((told.num_rows, 1, "rows"), (max(columns, default=0), 10, "values in a column")):
        if n > times * max(_MANY, size):
            raise DataError(
                f"the Parquet file declares {n:,} {what} in {size:,} bytes, which no data do; write it again",
                file=os.fspath(file),
            )
