"""Rows of a run as a table, for notebooks and terminals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arbo.engine import Table

ROWS_SHOWN = 20


def table_of(rows: Sequence[Mapping[str, object]], title: str = "", total: int | None = None) -> Table:
    """Make a table of the first 20 rows; ``total`` is the number of all rows, if ``rows`` has only some."""
    from arbo.engine import Cell, Table

    shown = rows[:ROWS_SHOWN]
    names = tuple(shown[0]) if shown else ()
    is_number = tuple(any(isinstance(row[name], int | float) for row in shown) for name in names)
    more = (len(rows) if total is None else total) - len(shown)
    cells = [tuple(Cell(cell(value)) for value in row.values()) for row in shown]
    header = tuple(name.replace("_", " ") for name in names)
    return Table(title, header, is_number, cells, [f"and {more:,} more"] if more else [])


def cell(value: object) -> str:
    """Format a value: None as nothing, a list without brackets, a float with three decimals."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
