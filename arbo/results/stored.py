"""Tables of a run that stay in their files: columns and rows are read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from arbo.errors import DataError
from arbo.results.schema import wrong_nulls, wrong_types

ADVICE = "run the job again"


class Stored:
    """A table in a Parquet file; it gives rows and columns as a `pyarrow.Table` does, and keeps none in memory.

    Raise DataError if the file cannot be read or its columns are not those of `arbo.results.schema` for the table of
    its name.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        with self._reading():
            self._parquet = pq.ParquetFile(file)  # `read_table` imports pandas
            groups = self._parquet.metadata
            self._ends = np.cumsum([groups.row_group(group).num_rows for group in range(groups.num_row_groups)])
            schema = self._parquet.schema_arrow
        self.column_names: list[str] = schema.names
        self._check(wrong_types(file.stem, schema))

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self._parquet.metadata.num_rows)

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.select([name])[name]

    def select(self, names: Sequence[str]) -> pa.Table:
        """Read some columns."""
        with self._reading():
            return self._checked(self._parquet.read(columns=[*names])).select([*names])

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Read some rows, one group of the file after the other."""
        group = np.searchsorted(self._ends, rows, "right")
        order = np.argsort(group, kind="stable")
        begins = np.append(0, self._ends)
        taken = [self._rows(own, rows[group == own] - begins[own]) for own in np.unique(group).tolist()]
        if not taken:
            return self._parquet.schema_arrow.empty_table()
        return pa.concat_tables(taken).take(pa.array(np.argsort(order, kind="stable")))

    def _rows(self, group: int, rows: npt.NDArray[np.int64]) -> pa.Table:
        with self._reading():
            return self._checked(self._parquet.read_row_group(group).take(pa.array(rows)))

    def _checked(self, content: pa.Table) -> pa.Table:
        self._check(wrong_nulls(self._file.stem, content))
        return content

    def _check(self, problem: str | None) -> None:
        if problem is not None:
            raise DataError(f"{problem}; {ADVICE}", file=str(self._file))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"the file cannot be read ({error}); {ADVICE}", file=str(self._file)) from None
