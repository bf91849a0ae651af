"""Collect the records of a file by id, count irregularities, and add places, such as file and line, to errors."""

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, KeysView, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from arbo import errors
from arbo.errors import DataError, UsageError

OnError = Literal["fail", "skip"]

_MOST_ITEMS, _MOST_MENTIONS = 1 << 13, 1 << 16  # items, and their mentions, that are objects while they are read

logger = logging.getLogger(__name__)

Item = TypeVar("Item", bound=Any)  # anything with an ``id``


class Records(Generic[Item]):
    """Items of one kind in file order, with unique ids, and `notes` that count irregularities.

    `on_error="fail"` raises an error at the first malformed record. `"skip"` leaves malformed records out, counts them,
    and logs their places and errors (see `arbo.errors.shown`). A file that cannot be read is never skipped, unless it
    is one document (`arbo.formats.text`). Items before the last few thousand are rows of tables.
    """

    def __init__(self, kind: Literal["documents", "entities"], on_error: OnError = "fail") -> None:
        if on_error not in ("fail", "skip"):
            raise UsageError(f"on_error must be 'fail' or 'skip', not {on_error!r}")
        self.notes: Counter[str] = Counter()
        self._kind, self._skips = kind, on_error == "skip"
        self._number, self._places = dict[str, int](), list[str]()
        self._items, self._n_mentions = list[Item](), 0
        self._tables, self._parts, self._begins = list[Any](), list[Sequence[Item]](), [0]

    def __iter__(self) -> Iterator[Item]:
        return chain(*self._parts, self._items)

    @property
    def ids(self) -> KeysView[str]:
        """The ids of the items."""
        return self._number.keys()

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
        number = self._number.setdefault(item.id, len(self._places))
        if number == len(self._places):
            self._places.append(str(file) if line is None else f"{file}, line {line}")
            self._items.append(item)
            self._n_mentions += len(item.mentions) if self._kind == "documents" else 0
            if len(self._items) >= _MOST_ITEMS or self._n_mentions >= _MOST_MENTIONS:
                self.tables()
            return
        part = bisect_right(self._begins, number) - 1
        if [*self._parts, self._items][part][number - self._begins[part]] == item:
            self.notes[f"duplicate {self._kind} dropped"] += 1
        else:
            wrong = f"this id is already taken, with different content ({self._places[number]})"
            raise DataError(f"{wrong}; merge the two, or change one id", id=item.id)

    def tables(self) -> list[Any]:
        """Return the tables of all items, see `arbo.data.tables` and `arbo.data.entity_table`."""
        from arbo.data.arrow import OnDemand
        from arbo.data.entity_table import entities_of_rows, table_of
        from arbo.data.tables import Tables, documents_of_rows

        if self._items or not self._tables:
            is_entity = self._kind == "entities"
            table: Any = table_of(self._items) if is_entity else Tables.of(self._items)
            make: Any = partial(entities_of_rows if is_entity else documents_of_rows, table)
            self._tables.append(table)
            self._parts.append(OnDemand(len(self._items), make))
            self._begins.append(len(self._places))
            self._items, self._n_mentions = [], 0
        return self._tables
