"""Collect the records of a file by id, count irregularities, and add places, such as file and line, to errors."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from arbo.errors import DataError, UsageError

OnError = Literal["fail", "skip"]

logger = logging.getLogger(__name__)
quiet = True
"""Whether logs leave out the errors of documents, which may quote their texts; the command line shows them."""


class Identified(Protocol):
    """Anything with an id."""

    @property
    def id(self) -> str:
        """The id."""


Item = TypeVar("Item", bound=Identified)


class Records(Generic[Item]):
    """Items of one kind in file order, with unique ids, and `notes` that count irregularities.

    `on_error="fail"` raises an error at the first malformed record. `"skip"` leaves malformed records out, counts them,
    and logs their places and errors (see `quiet`). A file that cannot be read at all is never skipped,
    unless it is a single document (`arbo.readers.text`).
    """

    def __init__(self, kind: str, on_error: OnError = "fail") -> None:
        if on_error not in ("fail", "skip"):
            raise UsageError(f"on_error must be 'fail' or 'skip', not {on_error!r}")
        self.notes: Counter[str] = Counter()
        self._kind = kind
        self._skips = on_error == "skip"
        self._items: dict[str, Item] = {}
        self._places: dict[str, str] = {}

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
            logger.warning("skipped: %s", place if quiet and self._kind == "documents" else placed)

    def add(self, item: Item, file: Path | str, line: int | None = None) -> None:
        """Add an item; an equal item with the same id is dropped and counted, a different one is an error."""
        if item.id not in self._items:
            self._items[item.id] = item
            self._places[item.id] = str(file) if line is None else f"{file}, line {line}"
        elif self._items[item.id] == item:
            self.notes[f"duplicate {self._kind} dropped"] += 1
        else:
            wrong = f"this id is already taken, with different content ({self._places[item.id]})"
            raise DataError(f"{wrong}; merge the two, or change one id", id=item.id)
