"""Entities in columns of Arrow files, mapped into memory; Python objects are made only of entities that are read.

Ids are found by their hashes, in a sorted array. Processes that map the same files share their memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from arbo.data.arrow import OnDemand, numbers
from arbo.data.entities import Entity
from arbo.data.releases import hash_of
from arbo.errors import DataError

_BATCH = 1 << 16
"""Number of rows of each part of a file, except the last."""
_TYPES = {"tuple[str, ...]": pa.large_list(pa.large_string())}
_ENTITIES = pa.schema([(field.name, _TYPES.get(str(field.type), pa.large_string())) for field in fields(Entity)])
SCHEMAS = {
    "entities": _ENTITIES,
    "other_ids": pa.schema([("id", pa.large_string()), ("rows", pa.large_list(pa.int64()))]),
}
"""The columns of entities, with `metadata` as JSON, and of alternative ids, each with ascending rows of entities."""
ADVICE = "build the index again with `arbo kb index`"


class Table:
    """The rows of an Arrow file, which is mapped into memory; raise DataError if it is damaged."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        self._file, self._schema = file, schema
        with self._sound():
            reader = pa.ipc.open_file(pa.memory_map(str(file)))
            parts = [reader.get_batch(part) for part in range(reader.num_record_batches)]
        self._n = sum(map(len, parts))
        self._parts = [{name: part.column(name) for name in schema.names} for part in parts]

    def __len__(self) -> int:
        return self._n

    def row(self, row: int, *names: str) -> list[Any]:
        """Return the values of some columns in a row."""
        with self._sound():
            part, place = self._parts[row // _BATCH], row % _BATCH
            return [_value(name, part[name][place].as_py()) for name in names]

    def each(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield the values of some columns in each row."""
        for part in self._parts:
            with self._sound():
                values = [_values(name, part[name]) for name in names]
            yield from zip(*values, strict=True)

    def taken(self, names: Sequence[str], rows: npt.NDArray[np.integer[Any]]) -> list[pa.Array]:
        """Return the values of some columns in these rows, in the given order; an array of (rows,) for each column."""
        with self._sound():
            distinct, place = np.unique(rows, return_inverse=True)
            ends = np.searchsorted(distinct, np.arange(len(self._parts) + 1) * _BATCH)
            taken_parts = [
                (part, numbers(distinct[begin:end] % _BATCH))
                for part, (begin, end) in zip(self._parts, pairwise(ends.tolist()), strict=True)
                if begin < end
            ]
            columns = [
                pa.chunked_array([part[name].take(own) for part, own in taken_parts], self._schema.field(name).type)
                for name in names
            ]
            taken = [column.combine_chunks() for column in columns]
            return taken if np.array_equal(distinct, rows) else [column.take(numbers(place)) for column in taken]

    @contextmanager
    def _sound(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError, IndexError, TypeError, pa.ArrowException) as error:
            raise DataError(f"the file is damaged ({error}); {ADVICE}", file=str(self._file)) from None


def write_table(rows: Iterable[tuple[Any, ...]], schema: pa.Schema, file: Path) -> None:
    """Write rows with the columns of a schema, which `Table` reads."""
    remaining = iter(rows)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        while some := list(islice(remaining, _BATCH)):
            columns = zip(schema, zip(*some, strict=True), strict=True)
            writer.write_batch(pa.record_batch([_stored(field, values) for field, values in columns], schema))


class StoredEntities(OnDemand[Entity]):
    """The entities of a table."""

    sliced = tuple

    def __init__(self, table: Table) -> None:
        super().__init__(len(table), partial(_entity, table))
        self.table = table

    def __iter__(self) -> Iterator[Entity]:
        return (Entity(*values) for values in self.table.each(*_ENTITIES.names))

    def __repr__(self) -> str:
        return f"<{len(self):,} stored entities>"

    def __hash__(self) -> int:
        return hash(tuple(self))


def _entity(table: Table, row: int) -> Entity:
    return Entity(*table.row(row, *_ENTITIES.names))


class HashedIds(NamedTuple):
    """The hashes of ids, ascending, and for each hash the index of its id in the given order; both (ids,)."""

    hashes: npt.NDArray[np.uint64]
    places: npt.NDArray[np.int64]

    @classmethod
    def of(cls, ids: Iterable[str]) -> HashedIds:
        """Hash ids, and sort the hashes."""
        hashes = np.fromiter(map(hash_of, ids), np.uint64)
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], order)


class StoredRows(Mapping[str, tuple[int, ...]]):
    """Maps each id and alternative id to the rows of its entities; iterating yields own ids first."""

    def __init__(self, entities: Table, others: Table, hashed: HashedIds) -> None:
        self._entities, self._others, self._hashed = entities, others, hashed

    def __getitem__(self, id_: str) -> tuple[int, ...]:
        if isinstance(id_, str):
            hash_, n = hash_of(id_), len(self._entities)
            for at in range(int(np.searchsorted(self._hashed.hashes, hash_)), len(self)):
                if self._hashed.hashes[at] != hash_:
                    break
                place = int(self._hashed.places[at])
                if place < n:
                    if self._entities.row(place, "id") == [id_]:
                        return (place,)
                else:
                    name, rows = self._others.row(place - n, "id", "rows")
                    if name == id_:
                        return tuple(rows)
        raise KeyError(id_)

    def __iter__(self) -> Iterator[str]:
        return (id_ for table in (self._entities, self._others) for (id_,) in table.each("id"))

    def __len__(self) -> int:
        return len(self._entities) + len(self._others)


class FirstRows(Mapping[str, int]):
    """Maps each id and alternative id to the row of its first entity."""

    def __init__(self, rows: StoredRows) -> None:
        self._rows = rows

    def __getitem__(self, id_: str) -> int:
        return self._rows[id_][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _stored(field: pa.Field, values: tuple[Any, ...]) -> pa.Array:
    if field.name == "metadata":
        values = tuple(json.dumps(value, ensure_ascii=False) if value else None for value in values)
    return pa.array(values, field.type)


def _value(name: str, value: Any) -> Any:
    if name == "metadata":
        return {} if value is None else json.loads(value)
    return tuple(value) if isinstance(value, list) else value


def _values(name: str, column: pa.Array) -> Sequence[Any]:
    """Return the Python values of a column; those of lists are cut from the list of all their items."""
    if name == "metadata":
        return [{} if text is None else json.loads(text) for text in column.to_pylist()]
    if pa.types.is_large_list(column.type):
        items = tuple(column.values.to_pylist())
        return [items[begin:end] for begin, end in pairwise(column.offsets.to_pylist())]
    return list(column.to_pylist())
