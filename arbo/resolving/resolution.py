"""Merge the rows of a table that are one entity, and say why."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from arbo.data import Corpus, Document, Mention
from arbo.data.rows import Placed, items_of, numbered
from arbo.errors import DataError, UsageError
from arbo.formats.table import own_name, read_rows
from arbo.linker import Linker
from arbo.linking.config import LinkerConfig
from arbo.resolving.model import NEIGHBORS, RowEdges
from arbo.results.result import Result
from arbo.text.names import normalize_name

THRESHOLD = 0.6
"""Default threshold: conservative, see `benchmarks/resolve.py`."""


class Merge(NamedTuple):
    """Rows that are one entity."""

    canonical: int
    """The row whose name the entity has."""
    rows: tuple[int, ...]
    """All of its rows, ascending."""
    names: tuple[str, ...]
    """Their distinct names, in the order of the rows."""
    probability: float
    """Average probability that a row of one of its last two parts is the same as a row of the other."""


@dataclass(frozen=True, eq=False)
class Resolution:
    """Which rows of a table are one entity; rows are counted from 0, through all tables that were added."""

    result: Result
    """The run of arbo with a mention for each row, see `Linker.discover`."""
    columns: tuple[str, str | None, str | None]
    """The columns of names, types and texts."""
    linker: Linker

    @property
    def frame(self) -> pa.Table:
        """One row for each row of the table, in its order.

        Columns: ``row``; ``name``; ``canonical_row`` and ``canonical``, the row and the name of its entity;
        ``cluster``; ``joined_by``, the row of the entity that is most likely the same, and ``reason``, what counted
        most for this, both missing for a row that is alone. ``frame.to_pandas()`` makes a pandas frame.
        """
        names, canonical = self.names, self.canonical
        links = self.result.link_table
        reasons = map(zip, links["reasons"].to_pylist(), links["reason_log_odds"].to_pylist())
        return pa.table(
            {
                "row": pa.array(range(len(names)), pa.int64()),
                "name": pa.array(names, pa.string()),
                "canonical_row": pa.array(canonical, pa.int64()),
                "canonical": pa.array([names[row] for row in canonical], pa.string()),
                "cluster": links["cluster_id"],
                "joined_by": links["nearest"].cast(pa.int64()),
                "reason": pa.array([_sentence(both) or None for both in reasons], pa.string()),
            }
        )

    @cached_property
    def merges(self) -> tuple[Merge, ...]:
        """The entities with several rows, largest first.

        An entity has the most frequent of its names; of equally frequent names, that of the first row.
        """
        return tuple(self._merges())

    @cached_property
    def names(self) -> list[str]:
        """(rows,) the names."""
        return list(self.result.mention_table["text"].to_pylist())

    @cached_property
    def canonical(self) -> list[int]:
        """(rows,) the row whose name the entity of each row has."""
        found = list(range(len(self.names)))
        for merge in self.merges:
            for row in merge.rows:
                found[row] = merge.canonical
        return found

    def explain(self, row: int) -> str:
        """Say which entity a row is, the row of it that is most likely the same, and which features counted most.

        Raise UsageError for an unknown row.
        """
        if not 0 <= row < len(self.names):
            raise UsageError(f"there is no row {row}; the rows are 0 to {len(self.names) - 1}")
        merge = next((one for one in self.merges if row in one.rows), None)
        if merge is None:
            return f"{self._called(row)} is alone: no other row is likely enough the same entity"
        link = self.result.link_of(str(row))
        why = _sentence(link.reasons)
        lines = [f"{self._called(row)} is {self._called(merge.canonical)}:"]
        if link.nearest is not None and why:
            lines.append(f"    most like {self._called(int(link.nearest))}, by log-odds: {why}")
        rows = ", ".join(map(self._called, merge.rows[:8])) + (", ..." if len(merge.rows) > 8 else "")
        return "\n".join([*lines, f"    {len(merge.rows)} rows are this entity ({rows}), by {merge.probability:.3f}"])

    def _called(self, row: int) -> str:
        return f'row {row} "{self.names[row]}"'

    def add(self, table: Any) -> Resolution:
        """Return the resolution of this table and a further one, whose rows are counted on.

        It is that of both tables together, but only the new rows are encoded and searched. Raise as `resolve` does.
        """
        documents = row_documents(table, self.columns, len(self.names))
        return Resolution(self.linker.add(self.result, documents), self.columns, self.linker)

    def _merges(self) -> Iterator[Merge]:
        order, begin = self.result.rows_of_cluster
        weakest = self.result.cluster_table["weakest_join"].to_pylist()
        for place in np.flatnonzero(np.diff(begin) > 1).tolist():
            rows = sorted(order[begin[place] : begin[place + 1]].tolist())
            count = Counter(normalize_name(self.names[row]) for row in rows)
            canonical = max(rows, key=lambda row: count[normalize_name(self.names[row])])
            names = tuple(dict.fromkeys(self.names[row] for row in rows))
            yield Merge(canonical, tuple(rows), names, 1.0 if weakest[place] is None else 1 - weakest[place])

    def __repr__(self) -> str:
        n, merged = len(self.names), sum(len(merge.rows) - 1 for merge in self.merges)
        return f"Resolution({n:,} rows, {n - merged:,} entities)"


def resolve(
    table: Any,
    name: str = "title",
    type: str | None = None,  # noqa: A002
    context: str | None = None,
    *,
    threshold: float = THRESHOLD,
    corrections: Any = (),
) -> Resolution:
    """Find the rows of a table of entities that are one entity.

    Args:
        table: a pandas or polars frame, an Arrow table, a list of dicts, or a CSV, TSV or Parquet file.
        name: the column of names.
        type: the column of types. Rows of different types are never one entity; a row without a type may be of any.
        context: the column of texts, such as descriptions. Texts that are too different keep equal names apart.
        threshold: smallest average probability with which two groups of rows are merged.
        corrections: what people decided, with numbers of rows as ids of mentions, such as ``{"different": ["3",
            "8"]}``; see `arbo.corrections.lines`.

    Raises:
        UsageError: the table is not a table, or the threshold is not between 0 and 1.
        DataError: a column is missing, or a row has no name; or there are no rows.
        MissingDependency: the package rapidfuzz is not installed.

    >>> import arbo
    >>> found = arbo.resolve([{"title": "Smith, Ada"}, {"title": "ADA SMITH"}, {"title": "Bob Jones"}])
    >>> found.frame["canonical_row"].to_pylist()
    [0, 0, 2]
    """
    if not 0 < threshold < 1:
        raise UsageError(f"the threshold must be between 0 and 1, not {threshold}")
    columns = name, type, context
    if not (rows := row_documents(table, columns, 0)):
        raise DataError("the table has no rows; check the path or the query that made it")
    config = LinkerConfig(k=NEIGHBORS, nil_linkage="average", nil_threshold=1 - threshold)
    linker = Linker(config=config, edges=RowEdges.default())
    return Resolution(linker.discover(rows, corrections), columns, linker)


def row_documents(table: Any, columns: tuple[str, str | None, str | None], begin: int) -> Corpus:
    """Make a document of each row: its name, which is a mention, and its text."""
    rows: list[Placed] | None
    if isinstance(table, (str, PathLike)):
        rows = list(read_rows(Path(table), columns[0]))
        columns = tuple(column and own_name(column) for column in columns)  # type: ignore[assignment]
    elif (items := items_of(table)) is not None:
        rows = numbered(items)
    else:
        raise UsageError(f"expected a frame, a list of dicts or a path, not {builtins.type(table).__name__}")
    return Corpus(_document(*placed, columns, str(number)) for number, placed in enumerate(rows, begin))


def _document(place: str, row: Any, columns: tuple[str, str | None, str | None], id_: str) -> Document:
    if isinstance(row, DataError):
        raise row.at(place)
    if not isinstance(row, Mapping):
        raise UsageError(f"expected rows with columns, not {builtins.type(row).__name__}; pass a frame or dicts")
    if missing := [column for column in columns if column is not None and column not in row]:
        raise DataError(f"there is no column {missing[0]!r}; the columns are {', '.join(map(str, row))}", file=place)
    name, kind, text = ("" if column is None else _text(row[column]) for column in columns)
    if not name:
        raise DataError(f"the row has no {columns[0]!r}; fill it in, or drop the row", file=place)
    whole = f"{name}\n{text}" if text else name
    return Document(id_, whole, (Mention(id_, id_, ((0, len(name)),), name, kind or None),))


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else "" if value is None or value != value else str(value)


def _sentence(reasons: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {odds:+.2f}" for name, odds in reasons)
