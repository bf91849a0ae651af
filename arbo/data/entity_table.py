"""The table of a knowledge base: one record batch with the fields of `Entity`, in memory or mapped from a file.

Ids are found by their hashes, in a sorted array. Processes that map the same files share their memory.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import json_strings, numbers, parsed, text_of, views
from arbo.data.documents import Entity
from arbo.data.fingerprint import Hashes, hashes_of
from arbo.engine import Ids
from arbo.errors import DataError, UsageError

_TEXT = pa.large_string()
_TEXTS = (pa.string(), _TEXT)
_TYPES = {"tuple[str, ...]": pa.large_list(_TEXT)}
SCHEMA = pa.schema([(field.name, _TYPES.get(str(field.type), _TEXT)) for field in fields(Entity)])
"""The columns of entities, with `metadata` as JSON, or null if there are none."""
CONTENT = [field.name for field in fields(Entity) if field.compare]


def table_of(entities: Iterable[Entity]) -> pa.RecordBatch:
    """Make the table of entities; raise UsageError for anything else."""
    every = [*entities]
    for other in (entity for entity in every if not isinstance(entity, Entity)):
        raise UsageError(f"expected entities, not {type(other).__name__}; make them from dicts with KnowledgeBase.of")
    columns = [_column([getattr(entity, name) for entity in every], name) for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def table_of_columns(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Make the table of columns by name; columns that are not fields of `Entity` become metadata.

    Raise DataError or ArrowException unless `Entity` accepts all values; a null is a missing value.
    """
    n = max(map(len, columns.values()), default=0)
    made = [_valid(columns[one] if one in columns else pa.nulls(n, SCHEMA.field(one).type), one) for one in CONTENT]
    others = {name: column.to_pylist() for name, column in columns.items() if name not in CONTENT}
    if any(columns[name].type not in _TEXTS for name in others):
        raise DataError("metadata that are not strings")
    cells = zip(*others.values(), strict=True)
    rows = ({name: cell for name, cell in zip(others, row, strict=True) if cell is not None} for row in cells)
    metadata = json_strings(rows) if others else pa.nulls(n, _TEXT)
    return pa.RecordBatch.from_arrays([*made, metadata], schema=SCHEMA)


def _valid(column: pa.Array, name: str) -> pa.Array:
    """Return a column with the type of a field of `Entity`; raise DataError for values that are not valid."""
    kind, text = SCHEMA.field(name).type, column.type
    if is_list := kind != _TEXT:
        text = text.value_type if pa.types.is_list(text) or pa.types.is_large_list(text) else pa.null()
    if text not in _TEXTS:
        raise DataError(f"{name} are not strings")
    column = column.cast(kind)
    column.validate(full=True)
    texts, needs_value = column.flatten() if is_list else column, name in ("id", "name", "alternative_ids")
    missing = texts.null_count if is_list or needs_value else 0
    if missing or (text_of(texts)[0] == 0).any() or (needs_value and _n_blank(texts)):
        raise DataError(f"{name} without a value, or with a NUL")
    if is_list and column.null_count:  # `coalesce` is slow
        size = np.from_dlpack(pc.fill_null(pc.list_value_length(column), numbers(np.zeros(1, np.int64))[0]))
        return pa.LargeListArray.from_arrays(numbers(np.append(0, np.cumsum(size))), texts)
    return column


def _n_blank(texts: pa.Array) -> int:
    return int((np.from_dlpack(pc.binary_length(pc.utf8_trim_whitespace(texts))) == 0).sum())


def joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of several tables as one."""
    return pa.RecordBatch.from_arrays([*map(pa.concat_arrays, zip(*parts, strict=True))], schema=SCHEMA)


def _column(values: Sequence[Any], name: str) -> pa.Array:
    return json_strings(values) if name == "metadata" else pa.array(values, SCHEMA.field(name).type)


def with_columns(table: pa.RecordBatch, **values: Sequence[Any]) -> pa.RecordBatch:
    """Return a table with other values in some of its columns."""
    columns = [_column(values[name], name) if name in values else table[name] for name in SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def entities_of_rows(table: pa.RecordBatch, begin: int, length: int) -> list[Entity]:
    """Make at most so many entities from a row on."""
    return views(Entity, dict(zip(SCHEMA.names, columns_in(table.slice(begin, length), SCHEMA.names), strict=True)))


def columns_in(table: pa.RecordBatch, names: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the Python values of each of some columns; those of lists are cut from the list of all their items."""
    for column, name in ((table.column(name), name) for name in names):
        if name == "metadata":
            yield parsed(column.to_pylist())
        elif pa.types.is_large_list(column.type):
            items, start = tuple(column.flatten().to_pylist()), column.offsets.to_pylist()
            yield [items[begin - start[0] : end - start[0]] for begin, end in pairwise(start)]
        else:
            yield column.to_pylist()


def sound(table: pa.RecordBatch, notes: Counter[str]) -> tuple[pa.RecordBatch, Hashes, Ids]:
    """Return the entities without empty aliases and repeated entities, and what `KnowledgeBase` finds ids by.

    These are the `hashes` and `places` there. Count what is left out, and alternative ids that several entities have.
    Raise DataError for different entities with the same id.
    """
    if n := _n_blank(table["aliases"].flatten()):
        notes["empty aliases dropped"] += n
        (lists,) = columns_in(table, ["aliases"])
        table = with_columns(table, aliases=[[alias for alias in aliases if alias.strip()] for aliases in lists])
    more = table["alternative_ids"]
    hashes = np.concatenate([hashes_of(table["id"]), hashes_of(more.flatten())])
    places = np.concatenate([np.arange(len(table)), np.from_dlpack(pc.list_parent_indices(more))])
    order = np.argsort(hashes, kind="stable")
    hashes, places = hashes[order], places[order]
    same = np.flatnonzero(hashes[1:] == hashes[:-1])
    some = np.unique(places[np.append(same, same + 1)])  # the others share no id
    rows = [*zip(some.tolist(), *columns_in(table.take(numbers(some)), ("id", "alternative_ids")), strict=True)]
    row_of: dict[str, int] = {}
    if gone := [row for row, id_, _ in rows if row_of.setdefault(id_, row) != row]:
        for (entity,) in (entities_of_rows(table, row, 1) for row in gone):
            if [entity] != entities_of_rows(table, row_of[entity.id], 1):
                raise DataError("two different entities have this id; merge them, or change one id", id=entity.id)
        notes["duplicate entities dropped"] += len(gone)
        return sound(table.take(numbers(np.delete(np.arange(len(table)), gone))), notes)
    ignored = sum(row_of.get(other, row) != row for row, _, others in rows for other in others)
    notes["alternative ids equal to another entity's own id ignored"] += ignored
    shared = {(other, row) for row, _, others in rows for other in others if other not in row_of}
    notes["alternative ids shared with an earlier entity"] += len(shared) - len({other for other, _ in shared})
    return table, hashes, places
