"""Corrections: what people decided about mentions, one JSON object a line.

    {"mention": "d1-0", "entity": "D004414"}        the right entity, by an id of the knowledge base
    {"mention": "d1-4", "entity": ["D1", "D2"]}     several entities: "breast and ovarian cancers"
    {"mention": "d1-1", "entity": null}             not in the knowledge base
    {"mention": "d1-2", "new": "marsh fever"}       a new entity, which several mentions may name
    {"mention": "d1-3", "not": "D004414"}           not this entity; the right one is unknown
    {"same": ["d1-1", "d2-5", "d4-0"]}              one entity, whichever it is
    {"different": ["d1-2", "d3-1"]}                 two entities

    {"document": "d1", "spans": [[0, 4]], "drop": true}             no mention
    {"document": "d1", "spans": [[9, 14]], "add": true}             a missing mention, with a "type" if you like
    {"document": "d1", "spans": [[0, 4]], "resize": [[0, 11]]}      the same mention at other spans
    {"document": "d1", "spans": [[0, 18]], "split": [[[0, 6]], [[11, 18]]]}    this mention, and further ones

``author``, ``date``, ``note`` and further keys are kept. A later line of the same author replaces the lines that it
contradicts; lines without an author have one author. A mention is known by its id in the documents.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike as OsPathLike, fspath
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa

from arbo.corrections.sheets import records_of
from arbo.data.objects import Convert, a_kind, fields, parse, spans, string, strings
from arbo.errors import DataError, UsageError
from arbo.formats import TABLES
from arbo.formats.files import ending, read_lines
from arbo.results.schema import SCHEMA
from arbo.text.checks import Span, check_metadata, check_name, check_spans

Status = Literal["obeyed", "replaced", "waiting", "conflict"]
"""What became of a correction: obeyed; replaced by a later line of its author; waiting for a mention, a document or an
entity that is missing; or in conflict with other lines, so that it is not obeyed."""


def _ids(value: object) -> str | tuple[str, ...] | None:
    if isinstance(value, list):
        if len(ids := tuple(dict.fromkeys(strings(value)))) < 2:
            raise TypeError("one id, a list of two or more, or null")
        return ids
    return None if value is None else str(string(value))


def _parts(value: object) -> tuple[tuple[Span, ...], ...]:
    if not isinstance(value, list) or len(value) < 2:
        raise TypeError("a list of the spans of two or more mentions")
    return tuple(map(spans, value))


_OF_MENTIONS: Mapping[str, Convert] = {"entity": _ids, "new": string, "not": string}
_OF_GROUPS: Mapping[str, Convert] = {"same": strings, "different": strings}
_YES = a_kind("true", lambda value: value is True)
_OF_SPANS: Mapping[str, Convert] = {"drop": _YES, "add": _YES, "resize": spans, "split": _parts}
_KINDS = {**_OF_MENTIONS, **_OF_GROUPS, **_OF_SPANS}
_TEXTS = dict.fromkeys(("mention", "document", "author", "date", "note", "type"), string)
_KEYS: Mapping[str, Convert] = {**_KINDS, **_TEXTS, "spans": spans}


@dataclass(frozen=True, slots=True)
class Correction:
    """One line of corrections."""

    kind: str  # the key that says what was decided, such as ``entity``
    value: Any
    mentions: tuple[str, ...]  # ids of its mentions; none if it is about spans of a document
    document: str | None
    spans: tuple[Span, ...]
    author: str | None
    record: Mapping[str, Any]
    file: str
    line: int
    status: Status = "obeyed"
    reason: str | None = None  # why it is not obeyed

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {json.dumps(self.record, ensure_ascii=False)}"

    def but(self, status: Status, reason: str) -> Self:
        """Return the same correction with this status, and with the reason for it."""
        return replace(self, status=status, reason=reason)


def corrections_of(source: str | OsPathLike[str] | Iterable[Any]) -> tuple[Correction, ...]:
    """Return the corrections in a file of JSON lines or a spreadsheet, or those that objects describe.

    Raise DataError, with the file and the line, for an object that is no correction, or if the file cannot be read; and
    UsageError for a single object instead of a list.
    """
    if isinstance(source, Mapping) or hasattr(source, "columns"):
        advice = "put a single object into a list, and write a frame to a file"
        raise UsageError(f"corrections must be a file or a list of objects; {advice}")
    file = "corrections"
    if isinstance(source, (str, OsPathLike)):
        file, read = fspath(source), records_of if ending(Path(source)) in TABLES else read_lines
        source = read(Path(source))
    else:
        source = enumerate(source, start=1)
    corrections = []
    for number, item in source:
        if not isinstance(item, str) or item.strip():
            try:
                corrections.append(_correction(parse(item) if isinstance(item, str) else item, file, number))
            except DataError as error:
                raise error.at(file, number) from None
    return tuple(corrections)


def continued(table: pa.Table | None, more: Sequence[Correction]) -> list[Correction]:
    """Return the corrections in the table of a run, and then more; of a line that comes again, only the later one."""
    records = [(json.loads(row["record"]), row) for row in ([] if table is None else table.to_pylist())]
    again = {json.dumps(line.record, sort_keys=True) for line in more}
    left = (one for one in records if json.dumps(one[0], sort_keys=True) not in again)
    return [*(_correction(record, row["file"], row["line"]) for record, row in left), *more]


def correction_table(lines: Iterable[Correction]) -> pa.Table:
    """Make the table ``corrections`` of a run: ``record`` (JSON), ``file, line, status, reason``."""
    columns = SCHEMA["corrections"]
    rows = [{name: getattr(one, name) for name in columns} | {"record": json.dumps(one.record)} for one in lines]
    return pa.Table.from_pylist(rows, pa.schema([(name, column.type) for name, column in columns.items()]))


def _correction(record: Any, file: str, line: int) -> Correction:
    check_metadata(record, "a correction")
    kinds, of = [key for key in _KINDS if key in record], record.get("mention", record.get("document"))
    of = of if isinstance(of, str) else None
    if len(kinds) != 1:
        present = f"the keys {' and '.join(kinds)}" if kinds else "none of them"
        raise DataError(f"a correction has exactly one of the keys {', '.join(_KINDS)}; this one has {present}", id=of)
    (kind,) = kinds
    required = ("mention",) if kind in _OF_MENTIONS else ("document", "spans") if kind in _OF_SPANS else ()
    values = fields(record, "a correction", _KEYS, required=(*required, kind), of=of)
    value, of_spans = values[kind], kind in _OF_SPANS
    parts = value if kind == "split" else (value,) if kind == "resize" else ()
    for part in (values["spans"], *parts) if of_spans else ():
        check_spans(part, of=of)
    for name in (value,) if isinstance(value, str) else value if kind == "entity" and value else ():
        check_name(name, f"{kind!r} of a correction", of=of)
    mentions = value if kind in _OF_GROUPS else (values["mention"],) if kind in _OF_MENTIONS else ()
    if kind in _OF_GROUPS and (len(set(mentions)) < 2 or (kind == "different" and len(mentions) > 2)):
        needed = "two different ids" if kind == "different" else "two or more different ids"
        raise DataError(f"{kind!r} needs {needed} of mentions, not {list(mentions)!r:.80}")
    document, where = (values["document"], values["spans"]) if of_spans else (None, ())
    return Correction(kind, value, mentions, document, where, values.get("author"), dict(record), file, line)
