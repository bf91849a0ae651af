"""The tables of GraphRAG: entities, relationships between their titles, and text units."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arbo.errors import DataError
from arbo.resolving.resolution import Resolution

ENTITIES = "entities.parquet"
_LINKS, _UNITS, _SAME = "relationships.parquet", "text_units.parquet", "documents.parquet"
_UNIT_IDS, _ENDS = "text_unit_ids", ("source", "target")

Row = dict[str, Any]


def read_graphrag(folder: Path) -> list[Row]:
    """Read the entities of a folder; raise DataError if they, or the relationships, are unusable."""
    _read(folder / _LINKS, *_ENDS)
    return _read(folder / ENTITIES).to_pylist()  # type: ignore[no-any-return]


def write_graphrag(folder: Path, out: Path, found: Resolution) -> None:
    """Write entities, relationships, text units and documents, with merged entities.

    A merged entity has the columns of its canonical row, and the distinct descriptions and the text units of all of its
    rows. Relationships lead between canonical titles: those of one pair are one, with the sum of their weights, and one
    between entities that are merged is left out. A title of several rows means the first of them. Communities and their
    reports are left out, since GraphRAG has to make them again.
    """
    rows, links = _read(folder / ENTITIES), _read(folder / _LINKS, *_ENDS)
    entities, edges = rows.to_pylist(), links.to_pylist()
    title_of: dict[str, str] = {}
    for row, canonical in zip(entities, found.canonical, strict=True):
        title_of.setdefault(row["title"], entities[canonical]["title"])
    pairs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for edge in edges:
        source, target = (title_of.get(edge[end], edge[end]) for end in _ENDS)
        if source != target or edge["source"] == edge["target"]:
            pairs[min(source, target), max(source, target)].append(edge | {"source": source, "target": target})
    degree = Counter(title for pair in pairs for title in set(pair))
    joined = [_joined(some) | {"weight": sum(edge.get("weight") or 0 for edge in some)} for some in pairs.values()]
    for edge in joined:
        edge["combined_degree"] = degree[edge["source"]] + degree[edge["target"]]
    groups: dict[int, list[Row]] = {canonical: [entities[canonical]] for canonical in found.canonical}
    for number, canonical in enumerate(found.canonical):
        groups[canonical] += [entities[number]] * (number != canonical)
    merged = [_joined(some) for some in groups.values()]
    for row in merged:
        row |= {"degree": degree[row["title"]], "frequency": len(row.get(_UNIT_IDS) or ())}
    _write(merged, rows.schema, out / ENTITIES)
    _write(joined, links.schema, out / _LINKS)
    if (folder / _UNITS).exists():
        _write_units(folder, out, {"entity_ids": groups.values(), "relationship_ids": pairs.values()})
    if (folder / _SAME).exists():
        shutil.copyfile(folder / _SAME, out / _SAME)


def _joined(rows: list[Row]) -> Row:
    """Return the first row with the distinct descriptions and text units of all."""
    descriptions = dict.fromkeys(row["description"] for row in rows if row.get("description"))
    units = dict.fromkeys(unit for row in rows for unit in row.get(_UNIT_IDS) or ())
    return rows[0] | {"description": "\n".join(descriptions), _UNIT_IDS: list(units)}


def _write_units(folder: Path, out: Path, groups: Mapping[str, Iterable[list[Row]]]) -> None:
    """Write the text units with the ids of the first row of each group in place of those of its other rows."""
    table = _read(folder / _UNITS)
    units = table.to_pylist()
    for column, some in groups.items():
        first = {row.get("id"): group[0].get("id") for group in some for row in group}
        for unit in units:
            if unit.get(column) is not None:
                unit[column] = list(dict.fromkeys(first[id_] for id_ in unit[column] if id_ in first))
    _write(units, table.schema, out / _UNITS)


def _read(file: Path, *filled: str) -> pa.Table:
    """Read a table, in which every row must have a value in the columns ``filled``."""
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        problem = f"the table cannot be read ({str(error).splitlines()[0]:.100})"
        raise DataError(f"{problem}; give the output folder of GraphRAG", file=str(file)) from None
    for name in filled:
        if name not in table.column_names:
            known = ", ".join(table.column_names)
            raise DataError(f"there is no column {name!r}; the columns are {known}", file=str(file))
        if table[name].null_count:
            row = table[name].to_pylist().index(None) + 1
            raise DataError(f"row {row} has no value in the column {name!r}; correct the table", file=str(file))
    return table


def _write(rows: list[Row], schema: pa.Schema, file: Path) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema), file)
