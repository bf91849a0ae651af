"""Columns of a table that are evidence: how a setting names them, and their cells."""

from collections.abc import Sequence
from math import log
from typing import Any, Literal, get_args

from arbo.data.arrow import numbers
from arbo.data.corpus import Inputs
from arbo.data.tables import metadata_in
from arbo.errors import UsageError, listed

ColumnKind = Literal["text", "number", "code", "exact", "set", "source"]
"""What the values of a column are: texts, which may be places or titles; numbers; codes, such as dates and numbers of
telephones; values that are equal or not; sets of values, divided by semicolons, of which one in common is evidence; or
the table from which a row comes, in which no entity is twice."""
_ALIKE = ("equal", "nearly equal", "one inside the other", "similar", "somewhat similar", "different")
LEVELS: dict[ColumnKind, tuple[str, ...]] = {
    "text": _ALIKE,
    "code": _ALIKE,
    "number": ("equal", "within 2 %", "within 10 %", "within 30 %", "different"),
    "exact": ("equal", "different"),
    "set": ("some in common", "none in common"),
    "source": ("the same", "another"),
}
"""The levels of likeness by kind, from 1 on; 0 means that a value is missing."""
Columns = Sequence[tuple[str, ColumnKind | None]]
_KINDS: dict[str, ColumnKind] = {**{kind: kind for kind in get_args(ColumnKind)}, "place": "text", "date": "code"}


def evidence_line(column: str, kind: str, levels: Sequence[str], m: Sequence[float], u: Sequence[float]) -> str:
    """Say what each level of a column weighs, by its shares among pairs that are one and among others."""
    weights = (f"{level} {log(same) - log(other):+.1f}" for level, same, other in zip(levels, m, u, strict=True))
    return f"{column} ({kind}): {', '.join(weights)}"


def columns_named(evidence: str) -> list[tuple[str, ColumnKind | None]]:
    """Return the names and kinds of columns; None for a kind to guess. Raise UsageError for none, or one named twice.

    >>> columns_named("dc:title, vat:exact")
    [('dc:title', None), ('vat', 'exact')]
    """
    columns: list[tuple[str, ColumnKind | None]] = []
    for item in evidence.split(","):
        name, colon, kind = item.strip().rpartition(":")
        columns.append((name.strip(), _KINDS[kind]) if colon and kind in _KINDS else (item.strip(), None))
    names = [name for name, _ in columns]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"evidence must name columns, each once, such as country,vat:exact, not {evidence!r:.60}")
    return columns


def cells_of(inputs: Inputs, columns: Columns, *, check: bool = True) -> dict[str, list[str]]:
    """Return the cells of columns for some mentions, as texts; "" where one is missing, which has no letter or digit.

    The columns are those that documents had beside their meaning, see `arbo.data.rows`. Without sources, a missing cell
    gets the only value of the rows that are equal in name, type, domain and all other columns, since these would be one
    anyway. With ``check``, raise UsageError for a column without any value.
    """
    tables, rows, names = inputs.corpus.tables, inputs.rows, [name for name, _ in columns]
    mentions = tables.mentions.take(numbers(rows))
    records = metadata_in(mentions)
    if "metadata" in tables.documents.column_names:
        of_documents = metadata_in(tables.documents.take(numbers(tables.home[rows])))
        records = [{**more, **own} for more, own in zip(of_documents, records, strict=True)]
    if "type" in names:  # which has a meaning of its own in a table
        types = mentions["type"].to_pylist()
        records = [{"type": type_, **record} for type_, record in zip(types, records, strict=True)]
    cells = {name: [_text(record.get(name)) for record in records] for name in names}
    if check and (empty := [name for name, some in cells.items() if not any(some)]):
        known = listed(sorted({key for record in records for key in record}), 20)
        kinds = f"; known kinds are: {', '.join(_KINDS)}" if ":" in empty[0] else ""
        raise UsageError(f"no row has a value in the column {empty[0]!r}; the columns are: {known or 'none'}{kinds}")
    own = inputs.names, inputs.column("type"), inputs.column("domain")
    for name in () if "source" in dict(columns).values() else [name for name in names if "" in cells[name]]:
        keys = [*zip(*own, *(some for other, some in cells.items() if other != name), strict=True)]
        only = dict[Any, str]()
        for key, cell in zip(keys, cells[name], strict=True):
            if cell:
                only[key] = cell if only.get(key, cell) == cell else ""
        cells[name] = [cell or only.get(key, "") for key, cell in zip(keys, cells[name], strict=True)]
    return cells


def _text(cell: Any) -> str:
    cell = int(cell) if isinstance(cell, float) and cell.is_integer() else "" if cell is None else cell
    text = str(cell).strip()
    return text if any(map(str.isalnum, text)) else ""
