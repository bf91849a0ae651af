"""Write files and folders completely or not at all, and check their manifests and hashes."""

import ctypes
import errno
import gzip
import hashlib
import json
import os
import platform
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import uuid4

from arbo.errors import DataError, UsageError

PathLike = str | os.PathLike[str]
READING_HEADERS = threading.Lock()
"""Held by what reads headers of `.npy`, as Python 3.11 may fail to parse them in two threads (gh-106905)."""
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def real(path: PathLike) -> Path:
    """Follow links, as `Path.resolve` does, which fails at a loop of links in Python 3.11."""
    return Path(os.path.realpath(path))


def write_whole(file: PathLike, write: Callable[[Path], object]) -> None:
    """Write a file completely or not at all: ``write(path)`` writes a temporary file, which then moves to ``file``.

    Raise UsageError if the file cannot be written, for example because the disk is full or ``file`` is a device.
    """
    target = real(file)
    partial = beside(target, "partial")
    try:
        with writing(target):
            check_writable(Path(file))  # unresolved, since /dev/stdout resolves to a path that does not exist
            target.parent.mkdir(parents=True, exist_ok=True)
            write(partial)
            _flush(partial)
            os.replace(partial, target)
    finally:
        discard(partial)


@contextmanager
def writing(what: object, remedy: str = "") -> Iterator[None]:
    """Raise UsageError for an OSError of the block, since ``what`` cannot be written; ``remedy`` follows the reason."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {what}: {error.strerror or error}{remedy}") from error


def save_arrays(folder: Path, arrays: Mapping[str, Any]) -> None:
    """Write each array as `.npy` to a folder that is there; raise OSError, with the reason, if that fails."""
    import numpy as np

    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as stream:
            # NumPy writes to a real file without Python, and then does not say that a disk is full.
            wrapped: Any = SimpleNamespace(write=stream.write)
            np.save(wrapped, array, allow_pickle=False)


def map_array(file: Path) -> Any:
    """Map the array of a `.npy` into memory alone; raise OSError or ValueError if it cannot be read."""
    import numpy as np

    with READING_HEADERS:
        return np.asarray(np.load(file, mmap_mode="c", allow_pickle=False))


def write_lines(lines: Iterable[str], path: PathLike) -> None:
    """Write lines as UTF-8, gzipped if `path` ends in `.gz`; see `write_whole`."""

    def write(partial: Path) -> None:
        with ExitStack() as stack:
            stream: Any = stack.enter_context(partial.open("wb"))
            if os.fspath(path).endswith(".gz"):
                # The header has no name and no time, so that equal content gives equal bytes.
                stream = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0))
            stream.writelines(f"{line}\n".encode() for line in lines)

    write_whole(path, write)


def write_json(value: dict[str, Any], file: PathLike) -> None:
    """Write a JSON file; see `write_whole`."""
    # One line for each top-level key: the settings stay readable, and long lists stay on one line.
    lines = (f"  {json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in json_ready(value).items())
    write_whole(file, lambda partial: partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8"))


def json_ready(value: Any) -> Any:
    """Return a copy for JSON: infinity and NaN become None, keys strings, tuples lists, and named tuples objects."""
    value = value._asdict() if hasattr(value, "_asdict") else value
    if isinstance(value, dict):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    return None if isinstance(value, float) and value - value != 0 else value


def json_text(value: object) -> str:
    """Return JSON on one line; infinity and NaN become null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(json_ready(value), ensure_ascii=False)


@contextmanager
def whole_folder(target: Path, stays: Callable[[], bool] = lambda: False, *, flush: bool = True) -> Iterator[Path]:
    """Write a folder completely or not at all: yield a temporary folder, and move it to `target` at the end.

    A reader sees the complete new folder or the previous one, also if the process is killed; where the system cannot
    exchange folders, for a moment none. A file or a link that is there is replaced as a folder is. If several processes
    write the folder, the last one to finish wins, unless ``stays()`` says that what another has written stays.
    Without ``flush``, a power failure may leave incomplete files in `target`.
    """
    partial = beside(target, "partial")
    partial.mkdir(parents=True)
    try:
        yield partial
        for file in partial.rglob("*") if flush else ():
            if file.is_file():
                _flush(file)
        _move_into_place(partial, target, stays)
    finally:
        discard(partial)


def discard(path: Path) -> None:
    """Remove a folder, file or link as far as possible; what a link leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _move_into_place(partial: Path, target: Path, stays: Callable[[], bool]) -> None:
    """Move a folder to its place unless what is there ``stays``; if that fails, restore the previous one."""
    aside = beside(target, "old")
    while partial.exists() and not stays() and not _exchange(partial, target):
        with suppress(FileNotFoundError):  # there is nothing, or another process has just moved it
            os.replace(target, aside)
        try:
            os.replace(partial, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EACCES):
                if aside.exists():
                    os.replace(aside, target)
                raise  # otherwise, another process has just put something there
        discard(aside)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; return False, and do nothing, where the system or the disk cannot do so."""
    if sys.platform != "linux":
        return False
    rename: Any = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


def _flush(file: Path) -> None:
    with open(file, "r+b") as stream:  # a handle open for reading alone cannot be flushed on Windows
        os.fsync(stream.fileno())


def beside(target: Path, kind: str) -> Path:
    """Return a new hidden path in the folder of `target`, from which a file can be moved to `target` in one step."""
    return target.with_name(f".arbo-{kind}-{uuid4().hex}")


def check_writable(target: Path) -> None:
    """Raise UsageError for a device, a pipe or `-`, or if the nearest existing folder above is not writable."""
    try:
        mode = target.stat().st_mode  # read once, as another process may move the target
    except OSError:
        mode = None
    if os.fspath(target) == "-" or not (mode is None or S_ISREG(mode) or S_ISDIR(mode)):
        raise UsageError(f"cannot write {target}: it is a device, a pipe or `-`; choose another path")
    above = next((folder for folder in target.absolute().parents if folder.exists()), target)  # "/" has none above
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {target}: {above} is not a writable folder; choose another path")


def files_in(folder: Path) -> list[str]:
    """Return the sorted relative paths of all files in a folder and its subfolders."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


class Format(NamedTuple):
    """A kind of file or folder: what its manifest says, and what errors say of it."""

    name: str
    version: int
    keys: Mapping[str, type]  # required keys of a manifest, with the types of their values
    what: str  # noun for errors, such as "a run folder"
    advice: str  # how to repair a damaged file or folder, for errors
    manifest: str = ""  # the name of the manifest of a folder
    packages: tuple[str, ...] = ()  # the packages whose versions the manifest of a folder names

    @property
    def head(self) -> dict[str, Any]:
        """The first keys of a manifest."""
        return {"format": self.name, "format_version": self.version}

    def checked(self, content: object, file: PathLike) -> dict[str, Any]:
        """Return the content of a manifest; raise DataError for another format or version, or an invalid key."""
        path, values = os.fspath(file), content if isinstance(content, dict) else {}
        if (kind := values.get("format")) != self.name:
            wrong = f"this is not {self.what}: its format is {kind!r:.60}, not {self.name!r}"
            raise DataError(f"{wrong}; check the path", file=path)
        written_by = values.get("format_version")
        if isinstance(written_by, int) and written_by > self.version:
            newer = f"a newer arbo wrote this (format {written_by}; the installed one reads up to {self.version})"
            raise DataError(f"{newer}; run: pip install --upgrade arbo", file=path)
        invalid = [name for name, type_ in self.keys.items() if type(values.get(name)) is not type_]
        if invalid := ["format_version"] * (written_by != self.version) + invalid:
            raise DataError(f"the manifest has no valid {', '.join(invalid)}; {self.advice}", file=path)
        return values

    def write(self, folder: Path, values: Mapping[str, Any]) -> None:
        """Write the manifest of a folder: values, versions, the hashes of all files there, and its own checksum."""
        from importlib.metadata import distributions

        versions = {name: next((one.version for one in distributions(name=name)), None) for name in self.packages}
        names = files_in(folder)
        with ThreadPoolExecutor() as pool:
            hashes = dict(zip(names, pool.map(sha256_of, (folder / name for name in names)), strict=True))
        more = {"versions": {**versions, "python": platform.python_version()}, **values, "files": hashes}
        manifest = json_ready(self.head | more)
        content = json.dumps({**manifest, "checksum": checksum(manifest)}, indent=2) + "\n"
        (folder / self.manifest).write_text(content, "utf-8")

    def read(self, folder: Path) -> dict[str, Any]:
        """Read the manifest of a folder; raise DataError if it cannot be read or was changed, and as `checked` does."""
        file = folder / self.manifest
        try:
            values = json.loads(file.read_bytes())
        except OSError as error:
            problem = f"not {self.what}: {file.name} cannot be read ({error.strerror})"
            raise DataError(f"{problem}; check the path, or {self.advice}", file=str(folder)) from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"the manifest is not JSON: {error}; {self.advice}", file=str(file)) from None
        manifest = self.checked(values, file)
        if manifest.pop("checksum", None) != checksum(manifest):
            raise DataError(f"the manifest was changed after it was written; {self.advice}", file=str(file))
        return manifest

    def check_replaceable(self, target: Path, *others: str) -> None:
        """Raise UsageError unless a folder can be written: missing, empty, or of this format or one of ``others``.

        A folder of a format has its manifest and the ``files`` in it, but no others.
        """
        check_writable(target)
        if not (os.listdir(target) if target.is_dir() else target.exists()):
            return
        try:  # before a look at all that is below, for `/`
            values = json.loads((target / self.manifest).read_bytes())
            names = {self.manifest, *values["files"]} if values["format"] in (self.name, *others) else None
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            names = None
        if names is None:
            raise UsageError(f"{target} exists and is not {self.what}, or is damaged; choose another, or remove it")
        folders = {parent.as_posix() for name in names for parent in Path(name).parents}
        there = {path.relative_to(target).as_posix() for path in target.rglob("*")}
        if foreign := ", ".join(sorted(there - names - folders)[:3]):
            wrong = f"{target} is {self.what}, but also has files that would be deleted, such as {foreign}"
            raise UsageError(f"{wrong}; move them, or choose another folder")


def checksum(manifest: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest; the order of its keys does not matter."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def check_hashes(folder: Path, hashes: Mapping[str, str], remedy: str) -> None:
    """Raise DataError, which ends with ``remedy``, if a file of `hashes` is missing, unreadable, or has another one."""
    there = set(files_in(folder))
    for name, digest in hashes.items():
        file = folder / name
        try:
            if name not in there or not file.is_file():  # no path such as /dev/zero, nor a link to it, is opened
                raise DataError(f"the file is missing; {remedy}", file=str(file))
            if sha256_of(file) != digest:
                raise DataError(f"the file was changed after it was written; {remedy}", file=str(file))
        except OSError as error:
            raise DataError(f"the file cannot be read ({error.strerror}); {remedy}", file=str(file)) from None


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
