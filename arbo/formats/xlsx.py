"""Write a table of a run as a workbook for Excel, to look through and to fill in; and read the cells of a workbook.

The last column, `reviewed`, takes the answers of `arbo.corrections.sheets`; the cells of confidence, else of the margin
between the two nearest entities, are coloured from the doubtful ones on.
"""

from collections import Counter
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.objects import written
from arbo.errors import DataError, MissingDependency, UsageError
from arbo.files import PathLike, write_whole
from arbo.formats.files import LARGEST_ARCHIVE

_CHOICES = '"ok,NIL,not,drop"'  # answers that a cell offers; ids and new names are written into it
_MOST_ROWS, _LARGEST_CELL, _WIDEST = 2**20 - 1, 32_767, 60
_COLOURS = {"start_color": "F8B4A6", "mid_color": "FFF3C4", "end_color": "FFFFFF"}


def write_xlsx(table: pa.Table, path: PathLike) -> Counter[str]:
    """Write a workbook; texts that begin like a formula stay texts. Raise UsageError if a sheet has no room for it."""
    if len(table) > _MOST_ROWS:
        raise UsageError(f"a sheet has at most {_MOST_ROWS:,} rows, and the run {len(table):,} mentions; export as csv")
    excel = _openpyxl()
    book = excel.Workbook()
    sheet, names = book.active, table.column_names
    lists = [*map(joined_lists, table.columns)]
    for row in (names, *zip(*(column.to_pylist() for column in lists), strict=True)):
        sheet.append([_cell(excel, sheet, value) for value in row])
    cut = 0
    for place, (name, column) in enumerate(zip(names, lists, strict=True), start=1):
        letter = excel.utils.get_column_letter(place)
        lengths = pc.utf8_length(pc.fill_null(pc.cast(column, pa.string()), ""))
        sheet.column_dimensions[letter].width = min(_WIDEST, max(len(name), pc.max(lengths).as_py() or 0) + 2)
        cut += pc.sum(pc.greater(lengths, _LARGEST_CELL)).as_py() or 0
        sheet.cell(1, place).font = excel.styles.Font(bold=True)
        if name == "reviewed":  # ids are no choices, and no errors
            offered = excel.worksheet.datavalidation.DataValidation("list", _CHOICES, showErrorMessage=False)
            offered.add(f"{letter}2:{letter}{max(len(table), 1) + 1}")
            sheet.add_data_validation(offered)
        if name == ("confidence" if "confidence" in names else "margin"):
            how = {"start_type": "min", "mid_type": "percentile", "mid_value": 20, "end_type": "max"}
            rule = excel.formatting.rule.ColorScaleRule(**how, **_COLOURS)
            sheet.conditional_formatting.add(f"{letter}2:{letter}{max(len(table), 1) + 1}", rule)
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = sheet.dimensions
    write_whole(path, book.save)
    return Counter({f"cells cut to {_LARGEST_CELL:,} characters, the most that Excel holds": cut})


def joined_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of a table, with the items of each list joined."""
    return pc.binary_join(column, "|") if pa.types.is_list(column.type) else column


def read_cells(file: Path, column: str | None = None) -> list[tuple[int, list[str]]]:
    """Return the cells of each row that is not blank, with its number from 1, of the first sheet that has a column."""
    try:
        with file.open("rb") as stream:
            if sum(one.file_size for one in ZipFile(stream).infolist()) > LARGEST_ARCHIVE:
                raise DataError(f"the workbook unpacks to more than {LARGEST_ARCHIVE >> 20} MiB", file=str(file))
            rows = []
            for sheet in _openpyxl().load_workbook(stream, read_only=True, data_only=True).worksheets:
                rows = [(number, [_text(value) for value in row]) for number, row in enumerate(sheet.values, start=1)]
                if any(column is None or column in map(str.lower, cells) for _, cells in rows[:1]):
                    break
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=str(file)) from None
    except (KeyError, ValueError, IndexError, BadZipFile) as error:
        raise DataError(f"not a workbook of Excel ({error})", file=str(file)) from None
    return [(number, cells) for number, cells in rows if any(cells)]


def _openpyxl() -> Any:
    try:
        import openpyxl
        import openpyxl.formatting.rule
        import openpyxl.styles
        import openpyxl.worksheet.datavalidation
    except ImportError:
        raise MissingDependency("a workbook of Excel", extra="xlsx") from None
    return openpyxl


def _cell(excel: Any, sheet: Any, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    cell = excel.cell.WriteOnlyCell(sheet, excel.cell.cell.ILLEGAL_CHARACTERS_RE.sub(" ", value))
    cell.data_type = "s"
    return cell


def _text(value: Any) -> str:
    """Return a cell as text; Excel makes numbers of ids such as 114480."""
    value = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else value
    return "" if value is None else written(value)
