"""Corrections in a spreadsheet: a table that `arbo export` wrote, whose column ``reviewed`` a person filled in.

A cell is blank, or ``ok`` (the link is right, or NIL), ``D1`` or ``D1; D2`` (its entity, or several), ``NIL`` or ``-``,
``new: NAME``, ``not`` (another, unknown entity), or ``drop`` (no mention). Rows may be sorted, left out, or moved to
another table: ``mention_id`` says which mention they are about. A column ``author`` names who reviewed a row. A program
may have written the id 101 as 101.0: then so it wrote all ids of links and runners-up, unless none is a number.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arbo.errors import DataError
from arbo.formats.files import ending
from arbo.formats.table import cells_of
from arbo.formats.xlsx import read_cells

_GUARD = re.compile(r"\A'(?=[=+\-@＝＋－＠])")  # what the writer of CSV puts before a cell that begins like a formula
_WHOLE = re.compile(r"\A(0|[1-9][0-9]*)\.0\Z")
_IDS = {"entity_id", "runner_up_id"}
_NEEDED = ("mention_id", "reviewed")


def records_of(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the corrections in a spreadsheet, each with its line or row.

    Raise DataError, with the place, for a missing column, or an answer to which the row lacks a cell.
    """
    kind = ending(file)
    (_, header), *rows = (read_cells(file, _NEEDED[0]) if kind == "xlsx" else cells_of(file, kind)) or [(1, [""])]
    names = [name.strip().lower() for name in header]
    if missing := [name for name in _NEEDED if name not in names]:
        raise DataError(f"the table has no column {missing[0]}; arbo export makes a table to review", file=str(file))
    known = {cell.strip() for _, row in rows for name, cell in zip(names, row, strict=False) if name in _IDS} - {""}
    are_numbers, n = len([*filter(_WHOLE.match, known)]) in (0, len(known)), 0
    for line, cells in rows:
        row = {name: _GUARD.sub("", cell.strip()) for name, cell in zip(names, cells, strict=False)}
        if row.get("reviewed"):
            n += 1
            try:
                yield line, _record(row, are_numbers) | ({"author": row["author"]} if row.get("author") else {})
            except (KeyError, ValueError) as error:
                why = f"the table has no column {error}" if isinstance(error, KeyError) else error
                problem = f"{row['reviewed']!r:.60} does not fit the row: {why}"
                raise DataError(problem, file=str(file), line=line, id=row["mention_id"]) from None
    if not n:
        raise DataError("the column reviewed is empty; fill in the rows that you reviewed", file=str(file))


def _record(row: Mapping[str, str], are_numbers: bool) -> dict[str, Any]:
    about, answer = {"mention": row["mention_id"]}, row["reviewed"]
    word = answer.casefold()
    if word == "ok":
        return about | {"entity": _ids(row["entity_id"], "|", are_numbers)}
    if word == "not":
        if not isinstance(entity := _ids(row["entity_id"], "|", are_numbers), str):
            raise ValueError(f"the mention has {'several entities' if entity else 'no entity'}")
        return about | {"not": entity}
    if word in ("nil", "-"):
        return about | {"entity": None}
    if word == "drop":
        span = [int(float(row[name])) for name in ("start", "end")]
        return {"document": row["document_id"], "spans": [span], "drop": True}
    if word.startswith("new:"):
        return about | {"new": answer[len("new:") :].strip()}
    if not (ids := _ids(answer, ";", are_numbers)):
        raise ValueError("there is no id")
    return about | {"entity": ids}


def _ids(cell: str, separator: str, are_numbers: bool) -> str | list[str] | None:
    """Return the ids in a cell; if they ``are_numbers``, 101.0 is the id 101."""
    parts = [one.strip() for one in cell.split(separator) if one.strip()]
    ids = [*dict.fromkeys(_WHOLE.sub(r"\1", one) if are_numbers else one for one in parts)]
    return ids if len(ids) > 1 else ids[0] if ids else None
