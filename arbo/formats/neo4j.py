"""Read and write a folder of CSV files of Neo4j, with the headers of `neo4j-admin database import`.

    :ID,name,:LABEL                        :START_ID,:END_ID,:TYPE
    1,Ann Lee,__Entity__;Person            1,2,KNOWS

`CALL apoc.export.csv.all("graph.csv", {bulkImport: true})` writes such files, and `neo4j-admin database import` reads
them. Nodes to compare have a `name`, `title` or `entity_id`; their type is their labels, but for those that begin with
`__`, and the space of their ids. Of merged nodes the row of one stays, relationships lead to it, and those that become
equal in ends and type are one; one between merged nodes is left out. Other rows, columns and files stay as they are.
"""

import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from arbo.data.arrow import strings
from arbo.errors import DataError
from arbo.formats.files import data_files, decode_line
from arbo.formats.graph import Graph, Groups, Node

_FIELD = re.compile(r"([^:]*)(:(?:ID|LABEL|START_ID|END_ID|TYPE))?(?:\(([^)]*)\))?")
_NAMES = ("name", "title", "entity_id")


class _Table(NamedTuple):
    """A file of nodes or relationships."""

    file: Path
    head: bytes  # the first line
    delimiter: str
    columns: dict[str, tuple[int, str]]  # places, and the spaces of ids, by name or by use, such as `:ID`
    rows: pa.Table  # the cells as texts; an empty one is missing, unless it is quoted

    def cells(self, name: str) -> list[str | None]:
        """Return a column, missing values if there is none; ids begin with their space."""
        place, space = self.columns.get(name, (None, ""))
        cells: list[str | None] = [None] * len(self.rows) if place is None else self.rows[place].to_pylist()
        return [cell and f"{space}:{cell}" for cell in cells] if space else cells


def graph_in(folder: Path) -> Graph:
    """Read the nodes of a folder that have a name."""
    every = (_table(file, *file.read_bytes().partition(b"\n")[::2]) for file in data_files(folder, (".csv",)))
    tables = [table for table in every if {":ID", ":START_ID"} & {*table.columns}]
    nodes = list[Node]()
    for table in (table for table in tables if ":ID" in table.columns):
        name, (_, space) = next((name for name in _NAMES if name in table.columns), ""), table.columns[":ID"]
        for id_, text, labels in zip(*map(table.cells, (":ID", name, ":LABEL")), strict=True):
            if id_ and text and text.strip():
                kinds = sorted(label for label in (labels or "").split(";") if label and not label.startswith("__"))
                nodes.append(Node.of(id_, text, "|".join([*kinds, *([space] if space else ())])))
    return nodes, partial(_write, folder, tables, nodes)


def _table(file: Path, head: bytes, content: bytes) -> _Table:
    """Make a table of the first line and the others, which are not read if the first has no column of ids."""
    line = decode_line(head, file, 1)
    delimiter = max(",;\t|", key=line.count)
    fields = [found.groups("") for name in line.split(delimiter) if (found := _FIELD.match(name.strip(' "')))]
    columns = {kind or name: (place, space) for place, (name, kind, space) in enumerate(fields)}
    if (":START_ID" in columns) != (":END_ID" in columns):
        raise DataError("relationships need the columns :START_ID and :END_ID; add the other", file=str(file), line=1)
    names = [*map(str, range(len(fields)))]
    rows = pa.table({name: strings([]) for name in names})
    missing = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
    try:
        if content.strip() and {":ID", ":START_ID"} & {*columns}:
            rows = pyarrow.csv.read_csv(
                pa.BufferReader(content),
                pyarrow.csv.ReadOptions(column_names=names),
                pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), **missing),
            )
    except pa.ArrowException as error:
        problem = f"the file cannot be read ({str(error).splitlines()[0]:.100}); export it again"
        raise DataError(problem, file=str(file)) from None
    return _Table(file, head, delimiter, columns, rows)


def _write(folder: Path, tables: list[_Table], nodes: list[Node], out: Path, groups: Groups) -> None:
    new_of = {nodes[row].id: nodes[best].id for best, *others in groups for row in others}
    for file in filter(Path.is_file, folder.iterdir()):
        shutil.copyfile(file, out / file.name)
    for table in tables:
        if (rows := _merged(table, new_of)) is not table.rows:
            with (out / table.file.name).open("wb") as stream:
                stream.write(table.head + b"\n")
                how = pyarrow.csv.WriteOptions(include_header=False, delimiter=table.delimiter)
                pyarrow.csv.write_csv(rows, stream, how)


def _merged(table: _Table, new_of: Mapping[str, str]) -> pa.Table:
    """Return the rows of a file that stay, with renamed ends; the table's own if it names no node that is merged."""
    before = [*zip(table.cells(":START_ID"), table.cells(":END_ID"), strict=True)]
    after = [(new_of.get(one or "", one), new_of.get(two or "", two)) for one, two in before]
    links, rows = [*zip(after, table.cells(":TYPE"), strict=True)], table.rows
    stays = np.array([id_ not in new_of for id_ in table.cells(":ID")], bool)
    known = {link for link, ends in zip(links, before, strict=True) if link[0] == ends}
    for row, link in enumerate(links):
        if link[0] != before[row]:
            stays[row] = len({*link[0]}) == len({*before[row]}) and link not in known
            known |= {link} if stays[row] else set()
    if after != before:
        for name, cells in zip((":START_ID", ":END_ID"), zip(*after, strict=True), strict=True):
            place, space = table.columns[name]
            skip = len(space) + bool(space)
            rows = rows.set_column(place, rows.schema.field(place), strings([cell and cell[skip:] for cell in cells]))
    return rows if stays.all() else rows.filter(stays)
