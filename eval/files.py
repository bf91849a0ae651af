"""Read lines of text files, gzipped if the name ends in ``.gz``, and write files completely or not at all."""

import gzip
import os
import zlib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

PathLike: TypeAlias = str | os.PathLike[str]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SIGNATURES = {b"\x1f\x8b": "gzip; let its name end in .gz", b"PAR1": "Parquet", b"PK\x03\x04": "a zip archive"}


class FileFormatError(ValueError):
    """An invalid file: the problem, and its line and column.

    `line` and `column` count from 1, columns in characters; None if the problem has no place.

    >>> print(FileFormatError("chain 3 does not end", path="key.conll", line=7, column=12))
    key.conll, line 7, column 12: chain 3 does not end
    """

    def __init__(self, problem: str, *, path: PathLike, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = os.fspath(path)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        places = {"line": self.line, "column": self.column}
        place = "".join(f", {name} {number}" for name, number in places.items() if number is not None)
        return f"{self.path}{place}: {self.problem}"


def read_lines(path: PathLike) -> list[str]:
    r"""Return the lines of a text file without their ends, ``\n`` or ``\r\n``; no other character ends a line.

    Raise FileFormatError if it is empty, is not UTF-8, has a NUL, ends lines with only ``\r``, is damaged gzip, or is
    in another format that is not text, and OSError if it cannot be read.
    """
    data = _read_bytes(path).removeprefix(_BYTE_ORDER_MARK)
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            raise FileFormatError(f"expected a text file; this is {kind}", path=path, line=1, column=1)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place(data[: error.start].decode("utf-8"))
        advice = "save the file as UTF-8: from Latin-1, `iconv -f LATIN1 -t UTF-8` does it"
        problem = f"not UTF-8: byte 0x{data[error.start]:02x}; {advice}"
        raise FileFormatError(problem, path=path, line=line, column=column) from None
    if (nul := text.find("\0")) >= 0:
        line, column = _place(text[:nul])
        raise FileFormatError("a NUL byte; check that this is text in UTF-8", path=path, line=line, column=column)
    if not text or text.isspace():
        raise FileFormatError("the file is empty", path=path)
    if "\n" not in text and "\r" in text.rstrip():
        problem = "lines end with only a carriage return; `tr '\\r' '\\n'` converts them to line feeds"
        raise FileFormatError(problem, path=path, line=1, column=text.index("\r") + 1)
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _read_bytes(path: PathLike) -> bytes:
    if not os.fspath(path).lower().endswith(".gz"):
        return Path(path).read_bytes()
    try:
        with gzip.open(path, "rb") as stream:
            return stream.read()
    except EOFError:
        raise FileFormatError("the compressed file is incomplete; download it again", path=path) from None
    except (gzip.BadGzipFile, zlib.error):
        problem = "not a valid gzip file; download it again, or remove .gz from its name if it is plain text"
        raise FileFormatError(problem, path=path) from None


def _place(before: str) -> tuple[int, int]:
    """Return the line and column, from 1, of the character after a text."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def suffix_of(path: PathLike, known: Collection[str]) -> str:
    """Return the suffix of a path in lower case; raise ValueError for an unknown suffix.

    >>> suffix_of("table.MD", [".md", ".tex"])
    '.md'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise ValueError(f"path={os.fspath(path)!r} must end in one of {', '.join(known)}")
    return suffix


def write_whole(path: PathLike, content: bytes) -> None:
    """Write a file completely or not at all, replacing an existing file; an OSError names the file."""
    target = Path(path).resolve()
    partial = target.with_name(f".{uuid4().hex}.partial")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        with suppress(OSError):
            partial.unlink()
