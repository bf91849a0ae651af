"""Documents that many processes read, in pieces of files of JSON lines.

A piece ends with a line, and its part is named after its bytes. Whatever is not as usual, a compressed file, an error,
or a document that is there twice, is left to the reader that reads all as a whole, and tells files and lines.
"""

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.documents import Document
from arbo.data.records import Records
from arbo.data.tables import Tables
from arbo.errors import DataError
from arbo.formats.files import STANDARD_INPUT, decode_line
from arbo.formats.jsonl import document_of
from arbo.scale.parts import Part, Task

PIECE = 1 << 24
"""Bytes of a piece, and a line."""


class Piece(NamedTuple):
    """Some lines of a file."""

    file: Path
    begin: int
    size: int
    digest: str
    """SHA-256 of their bytes."""

    def content(self) -> bytes:
        """Read the piece; raise DataError if it is not there, or has changed."""
        try:
            with self.file.open("rb") as stream:
                stream.seek(self.begin)
                raw = stream.read(self.size)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", file=str(self.file)) from error
        if hashlib.sha256(raw).hexdigest() != self.digest:
            raise DataError("the file has changed while it was read; run the job again", file=str(self.file))
        return raw


def pieces_of(files: Sequence[Path]) -> list[Piece]:
    """Cut files into pieces.

    Return none if all of them fit in one, if they are many small ones, or if one does not begin with an object.
    """
    if any(file == STANDARD_INPUT or not file.is_file() for file in files):
        return []
    if (size := sum(map(os.path.getsize, files))) <= PIECE or size < len(files) * PIECE // 16:
        return []
    pieces = []
    for file in files:
        with file.open("rb") as stream:
            begin = 0
            while raw := stream.read(PIECE):
                if begin == 0 and not raw.lstrip().startswith(b"{"):
                    return []
                raw += stream.readline()
                pieces.append(Piece(file.resolve(), begin, len(raw), hashlib.sha256(raw).hexdigest()))
                begin += len(raw)
    return pieces


def tasks_of(work: Path, pieces: Sequence[Piece]) -> list[Task]:
    """Plan the reading of pieces."""
    return [Task(Part.of(work, "documents", content=own.digest), partial(_call, own)) for own in pieces]


def _call(piece: Piece) -> tuple[Any, ...]:
    return read, piece


def read(piece: Piece) -> dict[str, npt.NDArray[Any]]:
    """Return the tables of the documents in a piece as streams of Arrow.

    The ``sizes`` of the documents follow the number of equal documents that were dropped.
    """
    records: Records[Document] = Records("documents")
    for raw in piece.content().removesuffix(b"\n").split(b"\n"):
        if (line := decode_line(raw, piece.file, number=0)).strip():  # a byte order mark begins no piece
            records.add(document_of(line), piece.file)
    tables = Tables.of([*records])
    streams = {"documents": _stream(tables.documents), "mentions": _stream(tables.mentions)}
    return {**streams, "sizes": np.append(records.notes.total(), tables.sizes)}


def joined(parts: Sequence[Part]) -> tuple[Tables, dict[str, int]] | None:
    """Return the tables and notes of parts, in order; None if they share a document."""
    sizes = [np.load(part.seen() / "sizes.npy") for part in parts]
    tables = Tables.joined(
        Tables(_table(part, "documents"), _table(part, "mentions"), own[1:])
        for part, own in zip(parts, sizes, strict=True)
    )
    ids = tables.documents["document_id"]
    if pc.count_distinct(ids).as_py() < len(ids):
        return None
    dropped = sum(int(own[0]) for own in sizes)
    return tables, {"duplicate documents dropped": dropped} if dropped else {}


def _stream(table: pa.Table) -> npt.NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _table(part: Part, name: str) -> pa.Table:
    with pa.memory_map(str(part.folder / f"{name}.npy")) as file:  # unlike an array that is mapped, keeps none open
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        return pa.ipc.open_stream(file).read_all()
