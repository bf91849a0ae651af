"""Read and write the tables of GraphRAG: entities, relationships between their titles, and text units.

A node is an entity. The writer gives a merged entity the columns of the entity that stands for it, with the distinct
descriptions and text units of all. Relationships lead between the titles that are left: those of one pair are one, with
the sum of their weights, and one between merged entities is left out. A title of several entities means the first.
Other columns and tables stay as they are, but GraphRAG has to make communities, their reports and embeddings again.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arbo.data import grouped
from arbo.data.tables import cells_in
from arbo.errors import DataError
from arbo.formats.graph import Graph, Groups, Node
from arbo.formats.table import batches

_NODES, _LINKS = "entities.parquet", "relationships.parquet"
_ENDS, _OF_CLAIMS = ("source", "target"), ("subject_id", "object_id")


def graph_in(folder: Path) -> Graph:
    """Read the entities of a folder; raise DataError if they, or the relationships, are unusable."""
    links, entities = _read(folder / _LINKS, *_ENDS), _read(folder / _NODES)
    ids, *values = (cells_in(entities, name) for name in ("id", "title", "type", "text_unit_ids"))
    if len({*map(str, ids)}) < len(ids) or None in ids:
        ids = [*range(len(entities))]
    return [*map(Node.of, map(str, ids), *values)], partial(_write, folder, entities, links)


def _write(folder: Path, entities: pa.Table, links: pa.Table, out: Path, groups: Groups) -> Counter[str]:
    titles, title_of = cells_in(entities, "title"), dict[Any, Any]()
    for row, best in sorted((row, rows[0]) for rows in groups for row in rows):
        title_of.setdefault(titles[row], titles[best])
    renamed = _renamed(links, _ENDS, title_of)
    ends = enumerate(zip(*(cells_in(table, name) for table in (renamed, links) for name in _ENDS), strict=True))
    pairs = grouped((tuple(sorted((a, b))), row) for row, (a, b, one, two) in ends if a != b or one == two)
    of_links, degree = [*pairs.values()], Counter(chain(*map(set, pairs)))
    nodes = _joined(entities, groups, "description", "text_unit_ids")
    nodes = _with(nodes, "degree", [degree[title] for title in cells_in(nodes, "title")])
    both = zip(*(cells_in(nodes, name) for name in ("frequency", "text_unit_ids")), strict=True)
    nodes = _with(nodes, "frequency", [len(ids) if isinstance(ids, list) else count for count, ids in both])
    edges = _joined(renamed, of_links, "description", "text_unit_ids", "weight")
    edges = _with(edges, "combined_degree", [degree[one] + degree[two] for one, two in pairs])
    written, left_out = {_NODES: nodes, _LINKS: edges}, list[str]()
    for file in sorted(folder.glob("*.parquet")):
        if file.name == "text_units.parquet":
            units = _with_ids(_read(file), "entity_ids", entities, groups)
            written[file.name] = _with_ids(units, "relationship_ids", links, of_links)
        elif file.name == "covariates.parquet":
            written[file.name] = _renamed(_read(file), _OF_CLAIMS, title_of)
        elif file.name.startswith(("communit", "embeddings")):
            left_out.append(file.name)
        elif file.name not in written:
            shutil.copyfile(file, out / file.name)
    for name, table in written.items():
        pq.write_table(table, out / name)
    return Counter({f"tables left out, which GraphRAG makes again: {', '.join(left_out)}": len(left_out)})


def _joined(table: pa.Table, groups: Groups, *names: str) -> pa.Table:
    """Return the first row of each group, with all that its rows have in the columns ``names``."""
    joined = table.take(pa.array([rows[0] for rows in groups], pa.int64()))
    for name in names:
        values = cells_in(table, name)
        found = ([values[row] for row in rows if values[row] is not None] for rows in groups)
        joined = _with(joined, name, [_union(some) if len(some) > 1 else (some or [None])[0] for some in found])
    return joined


def _union(values: list[Any]) -> Any:
    """Join texts by line ends, and lists to one, without repetitions; add numbers; of others, return the first."""
    if isinstance(values[0], str):
        return "\n".join(dict.fromkeys(filter(None, values)))
    if isinstance(values[0], list):
        return [*{repr(item): item for item in chain(*values)}.values()]
    return sum(values) if isinstance(values[0], (int, float)) else values[0]


def _renamed(table: pa.Table, names: Sequence[str], new_of: Mapping[Any, Any]) -> pa.Table:
    for name in names:
        table = _with(table, name, [new_of.get(value, value) for value in cells_in(table, name)])
    return table


def _with_ids(units: pa.Table, name: str, table: pa.Table, groups: Groups) -> pa.Table:
    """Return text units with the ids of the first rows of groups of a table in place of those of the other rows."""
    ids, lists = cells_in(table, "id"), cells_in(units, name)
    try:
        first = dict.fromkeys(ids) | {ids[row]: ids[rows[0]] for rows in groups for row in rows}
        lists = [some and [*dict.fromkeys(first.get(id_, id_) for id_ in some)] for some in lists]
    except TypeError:  # they are no ids
        return units
    return _with(units, name, [some and [id_ for id_ in some if id_ is not None] for some in lists])


def _with(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    """Return a table with other values in a column; as it is, if it has no such column, or one of another type."""
    try:
        place = table.column_names.index(name)
        field = table.schema.field(place)
        return table.set_column(place, field, pa.array(values, field.type))
    except (ValueError, TypeError, pa.ArrowNotImplementedError):  # invalid for Arrow is a ValueError
        return table


def _read(file: Path, *filled: str) -> pa.Table:
    """Read a table, in which every row must have a value in the columns ``filled``."""
    for _ in batches(file):  # raises if it cannot be read
        pass
    table = pq.ParquetFile(file).read()
    for name in filled or (("title",) if file.name == _NODES else ()):
        if name not in table.column_names:
            known = ", ".join(table.column_names)
            raise DataError(f"there is no column {name!r}; the columns are {known}", file=str(file))
        if filled and table[name].null_count:
            row = table[name].to_pylist().index(None) + 1
            raise DataError(f"row {row} has no value in the column {name!r}; correct the table", file=str(file))
    return table
