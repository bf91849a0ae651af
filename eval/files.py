"""Write files completely or not at all."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def suffix_of(path: str | os.PathLike[str], known: Collection[str]) -> str:
    """Return the suffix of a path in lower case; raise ValueError for an unknown suffix.

    >>> suffix_of("table.MD", [".md", ".tex"])
    '.md'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise ValueError(f"path={os.fspath(path)!r} must end in one of {', '.join(known)}")
    return suffix


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
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
