"""Collect the records of a file by id, count irregularities, and add places, such as file and line, to errors."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from arbo import errors
from arbo.data.documents import Document
from arbo.errors import DataError, UsageError

if TYPE_CHECKING:
    from arbo.data.tables import Tables

OnError = Literal["fail", "skip"]

_MOST_DOCUMENTS, _MOST_MENTIONS = 1 << 13, 1 << 16
"""Documents, and mentions, that are kept as objects while documents are read."""


logger = logging.getLogger(__name__)


class Identified(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> str:
        """The id."""


Item = TypeVar("Item", bound=Identified)


class Records(Generic[Item]):
    """Items of one kind in file order, with unique ids, and `notes` that count irregularities.

    `on_error="fail"` raises an error at the first malformed record. `"skip"` leaves malformed records out, counts them,
    and logs their places and errors (see `arbo.errors.shown`). A file that cannot be read at all is never skipped,
    unless it is a single document (`arbo.formats.text`).
    """

    def __init__(self, kind: str, on_error: OnError = "fail") -> None:
        if on_error not in ("fail", "skip"):
            raise UsageError(f"on_error must be 'fail' or 'skip', not {on_error!r}")
        self.notes: Counter[str] = Counter()
        self._kind = kind
        self._skips = on_error == "skip"
        self._items: dict[str, Item] = {}
        self._number: dict[str, int] = {}
        self._places: list[str] = []

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items.values())

    @contextmanager
    def record(self, file: Path | str, line: int | None = None, *, kind: str | None = None) -> Iterator[None]:
        """Add this place to a DataError of the block; then raise it or, with `on_error="skip"`, count and log it."""
        try:
            yield
        except DataError as error:
            placed = error.at(str(file), line)
            if not self._skips:
                raise placed from error.__cause__
            self.notes[f"malformed {kind or self._kind} skipped"] += 1
            place = placed.file if placed.line is None else f"{placed.file}, line {placed.line}"
            logger.warning("skipped: %s", place if not errors.shown and self._kind == "documents" else placed)

    def add(self, item: Item, file: Path | str, line: int | None = None) -> None:
        """Add an item; an equal item with the same id is dropped and counted, a different one is an error."""
        if item.id not in self._number:
            self._items[item.id] = item
            self._number[item.id] = len(self._places)
            self._places.append(str(file) if line is None else f"{file}, line {line}")
        elif self._known(item.id) == item:
            self.notes[f"duplicate {self._kind} dropped"] += 1
        else:
            wrong = f"this id is already taken, with different content ({self._places[self._number[item.id]]})"
            raise DataError(f"{wrong}; merge the two, or change one id", id=item.id)

    def _known(self, id_: str) -> Item:
        """Return the item that was added with an id."""
        return self._items[id_]


class DocumentRecords(Records[Document]):
    """Documents that are read, in file order; all but the last few thousand are rows of tables."""

    def __init__(self, on_error: OnError = "fail") -> None:
        super().__init__("documents", on_error)
        self._parts: list[Tables] = []
        self._begins: list[int] = []
        self._n_mentions = 0

    def tables(self) -> Tables:
        """Return the tables of the documents."""
        from arbo.data.tables import Tables

        self._pack()
        return Tables.joined(self._parts or [Tables.of([])])

    def __iter__(self) -> Iterator[Document]:
        return chain(chain.from_iterable(part.each() for part in self._parts), super().__iter__())

    def add(self, item: Document, file: Path | str, line: int | None = None) -> None:
        """Add a document as `Records.add` does."""
        super().add(item, file, line)
        self._n_mentions += len(item.mentions) if item.id in self._items else 0
        if len(self._items) >= _MOST_DOCUMENTS or self._n_mentions >= _MOST_MENTIONS:
            self._pack()

    def _known(self, id_: str) -> Document:
        if id_ in self._items:
            return self._items[id_]
        place, row = bisect_right(self._begins, self._number[id_]) - 1, self._number[id_]
        return next(self._parts[place].between(row - self._begins[place], 1).each())

    def _pack(self) -> None:
        from arbo.data.tables import Tables

        if self._items:
            self._begins.append(len(self._places) - len(self._items))
            self._parts.append(Tables.of([*self._items.values()]))
        self._items.clear()
        self._n_mentions = 0
