"""Files and folders of our own: written whole or not at all, known by their hashes and manifests."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from arbo.errors import DataError, UsageError

PathLike = str | os.PathLike[str]


def write_whole(file: PathLike, write: Callable[[Path], object]) -> None:
    """Let a function write a file beside its place, then move it there: complete or not at all.

    Raises:
        UsageError: the file cannot be written, or the disk is full.

    """
    target = Path(file).resolve()
    partial = beside(target, "partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        _flush(partial)
        os.replace(partial, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def write_lines(lines: Iterable[str], path: PathLike) -> None:
    """Write lines as UTF-8, gzipped if `path` ends in `.gz`; see `write_whole`."""

    def write(partial: Path) -> None:
        encoded = (f"{line}\n".encode() for line in lines)
        with partial.open("wb") as stream:
            if os.fspath(path).endswith(".gz"):
                # No name and no time in the header: equal content gives equal bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as packed:
                    packed.writelines(encoded)
            else:
                stream.writelines(encoded)

    write_whole(path, write)


def write_json(value: dict[str, Any], file: PathLike) -> None:
    """Write a JSON file; see `write_whole`."""
    # One line a top-level key: what people edit stays in sight, what machines read stays small.
    lines = (f"  {json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in json_ready(value).items())
    write_whole(file, lambda partial: partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8"))


def json_ready(value: Any) -> Any:
    """Replace infinities and NaN by null: JSON has neither."""
    if isinstance(value, dict):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Give a folder beside its place to write to, and move it there at the end: complete or not at all.

    Whoever reads sees the whole folder, the earlier one or none; of two processes that write one folder the later wins.
    """
    partial = beside(target, "partial")
    partial.mkdir(parents=True)
    try:
        yield partial
        _move_into_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _move_into_place(partial: Path, target: Path) -> None:
    """Move a folder to its place; where that fails the earlier one is there as before."""
    for file in partial.rglob("*"):
        if file.is_file():
            _flush(file)
    aside = beside(target, "old")
    try:
        while partial.exists():
            with suppress(FileNotFoundError):  # nothing there, or another process has just moved it
                os.replace(target, aside)
            _place(partial, target)
            shutil.rmtree(aside, ignore_errors=True)
    except BaseException:
        if aside.exists() and not target.exists():
            os.replace(aside, target)
        raise


def _place(partial: Path, target: Path) -> None:
    """Move a folder to its place; leave it where another process has put one meanwhile."""
    try:
        os.replace(partial, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES):
            raise


def _flush(file: Path) -> None:
    """Let the disk have what was written."""
    with open(file, "r+b") as stream:  # a handle open for reading alone cannot be flushed on Windows
        os.fsync(stream.fileno())


def beside(target: Path, kind: str) -> Path:
    """Return a hidden path of its own in the folder of `target`: moving from there is one step."""
    return target.with_name(f".arbo-{kind}-{uuid4().hex}")


def check_writable(target: Path) -> None:
    """Raise unless something may be created in the folder above, or in the first one that exists."""
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {target}: {above} is not a folder that can be written to")


def check_replaceable(target: Path, what: str, manifest: str, files_of: Callable[[Path], Iterable[str]]) -> None:
    """Raise unless a folder may be written here: nothing there, an empty folder, or an earlier one of its kind.

    Args:
        target: the folder.
        what: the kind, for errors.
        manifest: the file that all folders of the kind have.
        files_of: names the other files of such a folder; called where the manifest is there.

    """
    check_writable(target)
    content = set(files_in(target)) if target.is_dir() else {target.name} if target.exists() else set()
    if content and manifest not in content:
        raise UsageError(f"{target} exists and is not a {what}; name another folder, or remove it first")
    foreign = sorted(content - {manifest, *(files_of(target) if content else ())})
    if foreign:
        raise UsageError(
            f"{target} is a {what} that holds other files too ({', '.join(foreign[:3])}); "
            "writing there would delete them: move them, or name another folder"
        )


def files_in(folder: Path) -> list[str]:
    """Name all files in a folder and its subfolders, relative to it, sorted."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in found)


class Format(NamedTuple):
    """What is known of a kind of file or folder: how its manifest names it, and what the manifest must hold."""

    name: str
    version: int
    keys: Mapping[str, type]
    """Keys that a manifest needs, with the types of their values."""
    what: str
    """What has the manifest, for errors."""
    mend: str
    """What to do where it is damaged, for errors."""
    oldest: int | None = None
    """The earliest version that is read; None where that is the present one."""


def check_format(values: object, format_: Format, file: PathLike) -> dict[str, Any]:
    """Return what a manifest holds; raise DataError if it is of something else."""
    if not isinstance(values, dict) or values.get("format") != format_.name:
        found = values.get("format") if isinstance(values, dict) else None
        raise DataError(
            f"this is not {format_.what}: its format is {found!r:.60}, not {format_.name!r}", file=os.fspath(file)
        )
    return values


def check_manifest(given: object, format_: Format, file: PathLike) -> dict[str, Any]:
    """Return what a manifest holds.

    Raises:
        DataError: it is of something else, was written by a newer arbo, or lacks a key.

    """
    values, path = check_format(given, format_, file), os.fspath(file)
    written_by = values.get("format_version")
    if isinstance(written_by, int) and written_by > format_.version:
        raise DataError(
            f"this was written by a newer arbo (format {written_by}, this one reads up to "
            f"{format_.version}); run: pip install --upgrade arbo",
            file=path,
        )
    wrong = [name for name, kind in format_.keys.items() if type(values.get(name)) is not kind]
    oldest = format_.version if format_.oldest is None else format_.oldest
    if type(written_by) is not int or written_by < oldest:
        wrong.insert(0, "format_version")
    if wrong:
        raise DataError(f"the manifest is incomplete: {', '.join(wrong)}; {format_.mend}", file=path)
    return values


def check_hashes(folder: Path, hashes: Mapping[str, str], mend: str) -> None:
    """Raise DataError unless the files of a folder, by name, are those that were written."""
    there = set(files_in(folder))
    for name, digest in hashes.items():
        file = folder / name
        try:
            if name not in there:  # which also keeps names such as /dev/zero from being opened
                raise DataError(f"the file is missing; {mend}", file=str(file))
            if sha256_of(file) != digest:
                raise DataError(f"the file is not the one that was written; {mend}", file=str(file))
        except OSError as error:
            raise DataError(f"the file cannot be read ({error.strerror}); {mend}", file=str(file)) from None


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def version_of(distribution: str) -> str | None:
    """Return the installed version of a package, None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
