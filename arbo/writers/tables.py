"""Write tables as CSV for spreadsheets, and as TSV for programs.

Both are UTF-8. CSV begins with a byte order mark, so that Excel does not assume the local encoding. Texts are in
quotes, so that quotes, tabs and line ends in them survive. Since a spreadsheet would run a cell such as `=cmd()`, texts
and column names that begin with `=`, `+`, `-`, `@`, a tab or a line end get the prefix `'`. `|` joins the items of a
list.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from arbo.files import PathLike, write_whole

_TEXTS = (pa.string(), pa.large_string())
_FORMULA = r"\A([=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"  # and the full-width forms of the four signs


def write_csv(table: pa.Table, path: PathLike, *, delimiter: str = ",", mark: bytes = b"\xef\xbb\xbf") -> None:
    """Write a CSV file, gzipped if its name ends in `.gz`."""
    names = _safe(pa.array(table.column_names, pa.string())).to_pylist()
    cells = pa.Table.from_arrays([_safe(column) for column in table.columns], names)

    def write(partial: Path) -> None:
        packed = "gzip" if os.fspath(path).endswith(".gz") else None
        with pa.output_stream(partial, compression=packed) as stream:
            stream.write(mark)
            pa.csv.write_csv(cells, stream, pa.csv.WriteOptions(delimiter=delimiter))

    write_whole(path, write)


def write_tsv(table: pa.Table, path: PathLike) -> None:
    """Write a file of tab-separated values, gzipped if its name ends in `.gz`."""
    write_csv(table, path, delimiter="\t", mark=b"")


def _safe(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Join lists, and put a `'` before texts that a spreadsheet would run as formulas."""
    joined = pc.binary_join(column, "|") if pa.types.is_list(column.type) else column
    return pc.replace_substring_regex(joined, _FORMULA, "'\\1") if joined.type in _TEXTS else joined
