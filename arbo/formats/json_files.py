"""Read files of JSON that hold one value, a list of values, or a value on each line; make documents of annotations."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from arbo.data import Document, Mention, Records
from arbo.data.documents import mention_ids, text_of
from arbo.data.objects import parse
from arbo.data.records import Item
from arbo.errors import DataError
from arbo.files import PathLike
from arbo.formats.files import LARGEST_ARCHIVE, data_files, read_text
from arbo.text.checks import Span

SUFFIXES = (".json", ".jsonl")

_LINE = re.compile(r"^.*\S.*", re.M)


class Value(NamedTuple):
    """A value of a file, such as an item of a list, and its place for errors."""

    value: Any
    place: str
    line: int | None
    name: str
    """An id for a value without one: the name of the file without its ending and, of several values, the number."""


class Draft(NamedTuple):
    """A mention whose id may be missing."""

    name: str | None
    spans: tuple[Span, ...]
    type: str | None
    gold: tuple[str, ...] | None
    metadata: dict[str, Any]


def read_values(
    path: PathLike,
    suffixes: tuple[str, ...],
    build: Callable[[Value], Iterable[Item]],
    records: Records[Item],
    values: Callable[[Path, Records[Any]], Iterable[Value]] | None = None,
) -> Records[Item]:
    """Add the items of each value of a file, or of the files of a folder, to ``records``."""
    for file in data_files(path, suffixes):
        for value in (values or json_values)(file, records):
            with records.record(value.place, value.line):
                for item in build(value):
                    records.add(item, value.place, value.line)
    return records


def json_values(file: Path, records: Records[Any]) -> Iterator[Value]:
    """Yield the values of a file; raise DataError for invalid JSON, or let ``records`` skip an invalid line."""
    text, stem = read_text(file, LARGEST_ARCHIVE), file.name.partition(".")[0]
    first, second = [*islice(_LINE.finditer(text), 2), None, None][:2]
    if second and second[0].startswith("{") and first and first[0].startswith("{") and first[0].rstrip().endswith("}"):
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                with records.record(file, number):
                    yield Value(parse(line), str(file), number, f"{stem}:{number}")
    elif first:
        whole = parse_whole(text, file)
        if isinstance(whole, list):
            yield from (Value(one, f"{file}, item {n}", None, f"{stem}:{n}") for n, one in enumerate(whole, 1))
        else:
            yield Value(whole, str(file), None, stem)


def parse_whole(text: str, file: Path) -> Any:
    """Return the JSON value of a file; raise DataError for invalid JSON and repeated keys."""
    try:
        return parse(text)
    except DataError as error:
        problem = f"{error.problem.partition('; write each')[0]}; correct the file, or fetch it again"
        raise DataError(problem, file=str(file), line=error.line) from None


def annotated(document_id: str, text: str, drafts: list[Draft], metadata: dict[str, Any]) -> Document:
    """Return a document; if its mentions have no ids of their own, or not distinct ones, `mention_ids` makes them."""
    names = [f"{document_id}:{draft.name}" for draft in drafts if draft.name]
    if len(set(names)) < len(drafts):
        names = mention_ids(document_id, [draft.spans for draft in drafts])
    mentions = (
        Mention(name, document_id, spans, text_of(spans, text), kind, gold, metadata=further)
        for name, (_, spans, kind, gold, further) in zip(names, drafts, strict=True)
    )
    return Document(document_id, text, tuple(mentions), metadata=metadata)
