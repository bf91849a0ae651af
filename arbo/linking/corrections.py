"""Corrections: what people decided about mentions, one JSON object a line.

    {"mention": "d1-0", "entity": "D004414"}        the right entity, by an id of the knowledge base
    {"mention": "d1-1", "entity": null}             not in the knowledge base
    {"mention": "d1-2", "new": "marsh fever"}       a new entity, which several mentions may name
    {"mention": "d1-3", "not": "D004414"}           not this entity; the right one is unknown
    {"same": ["d1-1", "d2-5", "d4-0"]}              one entity, whichever it is
    {"different": ["d1-2", "d3-1"]}                 two entities

    {"document": "d1", "spans": [[0, 4]], "drop": true}             no mention
    {"document": "d1", "spans": [[9, 14]], "add": true}             a missing mention, with a "type" if you like
    {"document": "d1", "spans": [[0, 4]], "resize": [[0, 11]]}      the same mention at other spans

``author``, ``date``, ``note`` and further keys are kept. A later line of the same author replaces the lines that it
contradicts; lines without an author have one author. A mention is known by its id in the documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike as OsPathLike, fspath
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa

from arbo.data.fields import Convert, fields, spans, string, string_or_null, strings
from arbo.data.objects import parse
from arbo.errors import DataError, UsageError
from arbo.files import PathLike
from arbo.readers.files import read_lines
from arbo.text.checks import Span, check_name, check_spans

Status = Literal["obeyed", "replaced", "waiting", "conflict"]
"""What became of a correction: obeyed; replaced by a later line of its author; waiting for a mention, a document or an
entity that is missing; or in conflict with other lines, so that it is not obeyed."""


def _yes(value: object) -> bool:
    if value is not True:
        raise TypeError("true")
    return value


_OF_MENTIONS: Mapping[str, Convert] = {"entity": string_or_null, "new": string, "not": string}
_OF_GROUPS: Mapping[str, Convert] = {"same": strings, "different": strings}
_OF_SPANS: Mapping[str, Convert] = {"drop": _yes, "add": _yes, "resize": spans}
_KINDS = {**_OF_MENTIONS, **_OF_GROUPS, **_OF_SPANS}
_MORE: Mapping[str, Convert] = {
    **dict.fromkeys(("mention", "document"), string),
    **dict.fromkeys(("author", "date", "note", "type"), string_or_null),
    "spans": spans,
}


@dataclass(frozen=True, slots=True)
class Correction:
    """One line of corrections."""

    kind: str
    """The key that says what was decided: ``entity``, ``new``, ``not``, ``same``, ``different``, ``drop``, ``add`` or
    ``resize``."""
    value: Any
    """The value of that key."""
    mentions: tuple[str, ...]
    """Ids of its mentions; of none if it is about spans."""
    document: str | None
    spans: tuple[Span, ...]
    author: str | None
    record: Mapping[str, Any]
    """The object as it was read."""
    file: str = "corrections"
    line: int = 0
    status: Status = "obeyed"
    reason: str | None = None
    """Why it is not obeyed."""

    def __str__(self) -> str:
        """Name its place and its content."""
        return f"{self.file}, line {self.line}: {json.dumps(dict(self.record), ensure_ascii=False)}"

    def but(self, status: Status, reason: str) -> Self:
        """Return the same correction with another status."""
        return replace(self, status=status, reason=reason)


def to_correction(record: object, file: str = "corrections", line: int = 0) -> Correction:
    """Return the correction that a JSON object describes; raise DataError for an object that describes none."""
    try:
        return _checked(record, file, line)
    except DataError as error:
        raise error.at(file, line) from None


def _checked(record: object, file: str, line: int) -> Correction:
    of = record.get("mention", record.get("document")) if isinstance(record, Mapping) else None
    of = of if isinstance(of, str) else None
    kinds = [key for key in _KINDS if isinstance(record, Mapping) and key in record]
    if isinstance(record, Mapping) and len(kinds) != 1:
        found = f"the keys {' and '.join(kinds)}" if kinds else "no such key"
        raise DataError(f"a correction has one of the keys {', '.join(_KINDS)}; this one has {found}", id=of)
    kind = kinds[0] if kinds else ""
    required = ("mention",) if kind in _OF_MENTIONS else ("document", "spans") if kind in _OF_SPANS else ()
    values = fields(record, "a correction", {**_KINDS, **_MORE}, required=required, of=of)
    assert isinstance(record, Mapping)
    own = values[kind]
    for name in ("spans", "resize"):
        if kind in _OF_SPANS and name in values:
            check_spans(values[name], of=of)
    if isinstance(own, str):
        check_name(own, f"{kind!r} of a correction", of=of)
    mentions = own if kind in _OF_GROUPS else (values["mention"],) if kind in _OF_MENTIONS else ()
    if kind in _OF_GROUPS and (len(set(mentions)) < 2 or (kind == "different" and len(mentions) > 2)):
        wanted = "two different ids" if kind == "different" else "two or more different ids"
        raise DataError(f"{kind!r} needs {wanted} of mentions, not {list(mentions)!r:.80}")
    where = (values.get("document"), values.get("spans", ())) if kind in _OF_SPANS else (None, ())
    return Correction(kind, own, mentions, *where, values.get("author"), record, file, line)


@dataclass(frozen=True, slots=True)
class Corrections:
    """Corrections in the order of their lines."""

    lines: tuple[Correction, ...]

    @classmethod
    def of(cls, given: Self | PathLike | Iterable[Any]) -> Self:
        """Make corrections from a file of JSON lines, several such files, or objects; corrections are returned as is.

        Raise DataError for an object that is no correction, with its file and line.
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, Mapping):
            raise UsageError("corrections must be a file or a list of objects; put a single object into a list")
        items = [given] if isinstance(given, (str, OsPathLike)) else [*given]  # type: ignore[misc]
        lines: list[Correction] = []
        for number, item in enumerate(items, start=1):
            if isinstance(item, Correction):
                lines.append(item)
            elif isinstance(item, (str, OsPathLike)):
                lines += _read(Path(item))
            else:
                lines.append(to_correction(item, line=number))
        return cls(tuple(lines))

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        """Return the corrections of a run, whatever became of them there, from its table of corrections."""
        rows = table.select(["record", "file", "line"]).to_pylist()
        return cls(tuple(to_correction(json.loads(row["record"]), row["file"], row["line"]) for row in rows))

    def table(self) -> pa.Table:
        """Make the table ``corrections`` of a run: ``record, file, line, status, reason``."""
        records = [json.dumps(dict(one.record), ensure_ascii=False) for one in self.lines]
        own = {name: [getattr(one, name) for one in self.lines] for name in ("file", "line", "status", "reason")}
        return pa.table(
            {
                "record": pa.array(records, pa.large_string()),
                "file": pa.array(own["file"], pa.string()),
                "line": pa.array(own["line"], pa.int64()),
                "status": pa.array(own["status"], pa.string()),
                "reason": pa.array(own["reason"], pa.string()),
            }
        )

    def __len__(self) -> int:
        return len(self.lines)


def _read(file: Path) -> list[Correction]:
    found = []
    for number, line in read_lines(file):
        if line.strip():
            try:
                found.append(to_correction(parse(line), fspath(file), number))
            except DataError as error:
                raise error.at(fspath(file), number) from None
    return found
