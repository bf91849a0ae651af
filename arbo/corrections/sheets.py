"""Corrections in a spreadsheet: a table that `arbo export` wrote, whose column ``reviewed`` a person filled in.

| cell | what it says of the mention of the row |
|---|---|
| blank | nothing |
| ``ok`` | its link is right, or that it is NIL |
| ``D004414``, or ``D1; D2`` | its entity, or several |
| ``NIL`` or ``-`` | not in the knowledge base |
| ``new: marsh fever`` | a new entity |
| ``not`` | not the entity of the row; the right one is unknown |
| ``drop`` | no mention |

Rows may be sorted, left out, or moved to another table; ``mention_id`` says which mention they are about. A column
``author`` names who reviewed a row.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arbo.errors import DataError
from arbo.formats.table import cells_of
from arbo.formats.xlsx import read_cells

_GUARD = re.compile(r"\A'(?=[=+\-@])")
"""What the writer of CSV puts before a cell that begins like a formula."""
_NEEDED = ("mention_id", "reviewed")


def is_sheet(file: Path) -> bool:
    """Return whether a file is a spreadsheet, by its name."""
    return bool({".csv", ".tsv", ".xlsx"} & {suffix.lower() for suffix in file.suffixes[-2:]})


def records_of(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the corrections in a spreadsheet, each with its line or row.

    Raise DataError, with the place, for a missing column, or an answer to which the row lacks a cell.
    """
    suffix = next(one for one in file.suffixes[-2:] if one.lower() in (".csv", ".tsv", ".xlsx")).lower()[1:]
    (_, header), *rows = (read_cells(file) if suffix == "xlsx" else cells_of(file, suffix)) or [(1, [""])]
    names = [name.strip().lower() for name in header]
    if missing := [name for name in _NEEDED if name not in names]:
        raise DataError(f"the table has no column {missing[0]}; arbo export makes a table to review", file=str(file))
    for line, cells in rows:
        row = {name: _GUARD.sub("", cell.strip()) for name, cell in zip(names, cells, strict=False)}
        if row.get("reviewed"):
            try:
                yield line, _record(row) | ({"author": row["author"]} if row.get("author") else {})
            except (KeyError, ValueError) as error:
                problem = f"{row['reviewed']!r:.60} needs the columns of arbo export ({error})"
                raise DataError(problem, file=str(file), line=line, id=row["mention_id"]) from None


def _record(row: Mapping[str, str]) -> dict[str, Any]:
    about, answer = {"mention": row["mention_id"]}, row["reviewed"]
    word = answer.casefold()
    if word == "ok":
        return about | {"entity": row["entity_id"] or None}
    if word == "not":
        return about | {"not": row["entity_id"]}
    if word in ("nil", "-"):
        return about | {"entity": None}
    if word == "drop":
        span = [int(float(row[name])) for name in ("start", "end")]
        return {"document": row["document_id"], "spans": [span], "drop": True}
    if word.startswith("new:"):
        return about | {"new": answer[len("new:") :].strip()}
    ids = [id_.strip() for id_ in answer.split(";") if id_.strip()]
    return about | {"entity": ids if len(ids) > 1 else ids[0]}
