"""Read files of JSON that hold one value, a list of values, or a value on each line."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from arbo.data import Marked, Records
from arbo.data.objects import parse
from arbo.errors import DataError
from arbo.formats.files import LARGEST_ARCHIVE, Piece, read_text

JSON = (".json", ".jsonl")

_LINE = re.compile(r"^.*\S.*", re.M)


def json_pieces(file: Path, records: Records[Any]) -> Iterator[Piece]:
    """Yield the values of a file; raise DataError for invalid JSON, or let ``records`` skip an invalid line.

    The name of a value is that of the file without its ending and, of several values, the number.
    """
    text, stem = read_text(file, LARGEST_ARCHIVE), file.name.partition(".")[0]
    first, second = [*islice(_LINE.finditer(text), 2), None, None][:2]
    if second and second[0].startswith("{") and first and first[0].startswith("{") and first[0].rstrip().endswith("}"):
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                with records.record(file, number):
                    yield Piece(parse(line), file, number, f"{stem}:{number}")
    elif first:
        whole = parse_whole(text, file)
        if isinstance(whole, list):
            yield from (Piece(one, f"{file}, item {n}", None, f"{stem}:{n}") for n, one in enumerate(whole, 1))
        else:
            yield Piece(whole, file, None, stem)


def parse_whole(text: str, file: Path) -> Any:
    """Return the JSON value of a file; raise DataError for invalid JSON and repeated keys."""
    try:
        return parse(text)
    except DataError as error:
        problem = f"{error.problem.partition('; write each')[0]}; correct the file, or fetch it again"
        raise DataError(problem, file=str(file), line=error.line) from None


def with_ids(document_id: str, marked: Sequence[Marked]) -> list[Marked]:
    """Return mentions with the id of the document before their own; without ids if these are not distinct."""
    ids = [one.id and f"{document_id}:{one.id}" for one in marked]
    if not all(ids) or len({*ids}) < len(ids):
        ids = [None] * len(ids)
    return [one._replace(id=id_) for one, id_ in zip(marked, ids, strict=True)]
