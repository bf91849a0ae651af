"""Tables of a run that stay in their files: columns and rows are read when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from arbo.data.parquet import check_values
from arbo.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stored:
    """A table in a Parquet file; it gives rows and columns as a `pyarrow.Table` does, and keeps none in memory.

    Texts are of one type, but for the columns in ``long``, since two types are not joined. Raise DataError, which tells
    the ``mend``, if the file cannot be read or lacks a column that is ``needed``, and, wherever rows or columns are
    asked for, if what was read is ``wrong``.
    """

    def __init__(
        self, file: Path, mend: str, *, long: Set[str], needed: Set[str], wrong: Callable[[pa.Table], str | None]
    ) -> None:
        self._file, self._mend, self._long, self._wrong = file, mend, long, wrong
        with self._reading():
            self._parquet = pq.ParquetFile(file)  # `read_table` imports pandas
            check_values(self._parquet, file.stat().st_size, file)
            told = self._parquet.metadata
            self._ends = np.cumsum([told.row_group(group).num_rows for group in range(told.num_row_groups)])
            self.column_names: list[str] = self._parquet.schema_arrow.names
        if missing := sorted(needed - {*self.column_names}):
            raise self._error(f"the table has no column {', '.join(missing)}")
        if len({*self.column_names}) < len(self.column_names):
            raise self._error("the table has two columns of one name")

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
            return self._checked(self._parquet.schema_arrow.empty_table())
        return pa.concat_tables(taken).take(pa.array(np.argsort(order, kind="stable")))

    def _rows(self, group: int, rows: npt.NDArray[np.int64]) -> pa.Table:
        with self._reading():
            return self._checked(self._parquet.read_row_group(group).take(pa.array(rows)))

    def _checked(self, table: pa.Table) -> pa.Table:
        if wrong := self._wrong(table):
            raise self._error(wrong)
        for place, field in enumerate(table.schema):
            if field.type == pa.large_string() and field.name not in self._long:
                table = table.set_column(place, field.name, table[field.name].cast(pa.string()))
        return table

    def _error(self, problem: str) -> DataError:
        return DataError(f"{problem}; {self._mend}", file=str(self._file))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise self._error(f"the file cannot be read ({error})") from None
