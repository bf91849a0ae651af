"""Read a knowledge base from a table: one entity a line, two to four tab-separated columns.

    D010190 <tab> Pancreatic Neoplasms <tab> Cancer of Pancreas|Pancreas Cancer <tab> Tumors of the pancreas.

The columns are id, name, aliases (separated by `|`) and definition; the last two may be empty or absent. White space
around a column or an alias is dropped. A first line whose first two columns are `id` and `name`, in upper or lower
case, is a header and skipped. Quotes have no special meaning. A repeated id with equal content is kept once; with
different content it is an error.
"""

from __future__ import annotations

from arbo.data.entities import Entity
from arbo.data.knowledge_base import KnowledgeBase
from arbo.data.records import OnError, Records
from arbo.errors import DataError
from arbo.files import PathLike
from arbo.readers.files import data_files, read_lines

SUFFIXES = (".tsv",)

_COLUMNS = "id, name, aliases, definition"


def read_tsv(path: PathLike, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Read a table, or all `.tsv` files of a folder."""
    records: Records[Entity] = Records("entities", on_error)
    for file in data_files(path, SUFFIXES):
        for number, line in read_lines(file):
            columns = [column.strip() for column in line.split("\t")]
            if not any(columns) or (number == 1 and [column.lower() for column in columns[:2]] == ["id", "name"]):
                continue
            with records.record(file, number):
                records.add(_entity(columns), file, number)
    return KnowledgeBase(records, records.notes)


def _entity(columns: list[str]) -> Entity:
    if not 2 <= len(columns) <= 4:
        raise DataError(
            f"the line has {len(columns)} tab-separated columns; write 2 to 4 ({_COLUMNS})", id=columns[0][:60]
        )
    entity_id, name, aliases, definition = (*columns, "", "")[:4]
    return Entity(
        entity_id,
        name,
        tuple(alias.strip() for alias in aliases.split("|")) if aliases else (),
        definition or None,
    )
