"""What a notebook shows of runs: tables in HTML, in which all text is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arbo.metrics import Cell, Table

ROWS_SHOWN = 20


def html_table(title: str, rows: Sequence[Mapping[str, object]], total: int | None = None) -> str:
    """Return a table of the first rows in HTML; ``total`` counts all rows, if more than the given ones exist."""
    names = tuple(rows[0]) if rows else ()
    shown = rows[:ROWS_SHOWN]
    is_number = tuple(any(isinstance(row[name], int | float) for row in shown) for name in names)
    more = (len(rows) if total is None else total) - len(shown)
    cells = [tuple(Cell(cell(value)) for value in row.values()) for row in shown]
    header = tuple(name.replace("_", " ") for name in names)
    return Table(title, header, is_number, cells, [f"and {more:,} more"] if more else []).to_html()


def cell(value: object) -> str:
    """Write a value for people: nothing for None, a list without brackets, a number with three decimals."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
