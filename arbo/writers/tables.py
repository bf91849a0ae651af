"""Write tables as CSV for spreadsheets, and as TSV for programs.

Both are UTF-8. CSV begins with a byte order mark, so that Excel does not assume the local encoding. Texts are in
quotes, so that quotes, tabs and line ends in them survive. `|` joins the items of a list. Since a spreadsheet would run
a cell such as `=cmd()`, texts and column names of CSV that begin with `=`, `+`, `-`, `@`, a tab or a line end get the
prefix `'`; the writer counts the texts. TSV holds each text as it is.
"""

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from arbo.files import PathLike, write_whole

_FORMULA = r"\A([=+\-@\t\r\n\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}])"  # and the full-width forms of the four signs


def write_csv(table: pa.Table, path: PathLike) -> Counter[str]:
    """Write a CSV file, gzipped if its name ends in `.gz`; count the cells like formulas, which get a `'` in front."""
    columns = _columns(table)
    guarded: Counter[str] = Counter()
    for name, column in columns.items():
        if column.type in (pa.string(), pa.large_string()):
            columns[name] = pc.replace_substring_regex(column, _FORMULA, "'\\1")
            guarded[name] = pc.sum(pc.not_equal(column, columns[name])).as_py() or 0
    names = pc.replace_substring_regex(pa.array([*columns], pa.string()), _FORMULA, "'\\1").to_pylist()
    _write(pa.table(list(columns.values()), names), path, ",", b"\xef\xbb\xbf")
    told = f"cells that begin like a formula got a ' in front ({', '.join(+guarded)}); tsv keeps them as they are"
    return Counter({told: guarded.total()})


def write_tsv(table: pa.Table, path: PathLike) -> Counter[str]:
    """Write a file of tab-separated values, gzipped if its name ends in `.gz`; no text is changed."""
    _write(pa.table(_columns(table)), path, "\t", b"")
    return Counter()


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return the columns of a table by name, with the items of lists joined."""
    joined = (pc.binary_join(column, "|") if pa.types.is_list(column.type) else column for column in table.columns)
    return dict(zip(table.column_names, joined, strict=True))


def _write(table: pa.Table, path: PathLike, delimiter: str, mark: bytes) -> None:
    def write(partial: Path) -> None:
        packed = "gzip" if os.fspath(path).endswith(".gz") else None
        with pa.output_stream(partial, compression=packed) as stream:
            stream.write(mark)
            pa.csv.write_csv(table, stream, pa.csv.WriteOptions(delimiter=delimiter))

    write_whole(path, write)
