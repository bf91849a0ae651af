"""Files: what an invalid one gets told, and files that are written completely or not at all."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

PathLike: TypeAlias = str | os.PathLike[str]


class FileFormatError(ValueError):
    """An invalid file: the problem, and its line and column.

    `line` and `column` count from 1, columns in characters; None if the problem has no place.

    >>> print(FileFormatError("chain 3 does not end", line=7, column=12))
    line 7, column 12: chain 3 does not end
    """

    def __init__(self, problem: str, *, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem if line is None else f"line {line}, column {column}: {problem}")
        self.problem = problem
        self.line = line
        self.column = column


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
