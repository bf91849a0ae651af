"""Run folders: Parquet tables and a manifest with their hashes, complete or absent."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from arbo.errors import DataError, UsageError

if TYPE_CHECKING:
    from arbo.result import Result

FORMAT = "arbo-run"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
TABLES = ("mentions", "links", "clusters")
_VERSIONS = ("arbo", "faiss-cpu", "numba", "numpy", "pyarrow", "scipy")


def save_run(result: Result, folder: str | PathLike[str]) -> None:
    """Write a result beside its place, then move it there in one step.

    Whoever reads sees the whole run or none; of two processes that write one folder the later wins. A folder that
    is not a run is never replaced.
    """
    target = Path(folder).resolve()
    check_replaceable(target)
    partial = beside(target, "partial")
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise UsageError(f"cannot write the run folder {target}: {error.strerror}") from error
    try:
        tables = (result.mention_table, result.link_table, result.cluster_table)
        hashes = {}
        for name, table in zip(TABLES, tables, strict=True):
            file = partial / f"{name}.parquet"
            pq.write_table(table, file)
            hashes[file.name] = sha256_of(file)
        manifest = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "versions": {name: version_of(name) for name in _VERSIONS} | {"python": platform.python_version()},
            **result.manifest,
            "files": hashes,
        }
        (partial / MANIFEST).write_text(json.dumps(json_ready(manifest), indent=2) + "\n", "utf-8")
        move_into_place(partial, target)
    except OSError as error:
        raise UsageError(f"cannot write the run folder {target}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load_run(folder: str | PathLike[str]) -> tuple[pa.Table, pa.Table, pa.Table, dict[str, Any]]:
    """Read the tables and the manifest of a run folder.

    Raises:
        DataError: no run folder, a manifest of a newer version, a file that is missing, truncated or changed.

    """
    path = Path(folder)
    manifest = _read_manifest(path)
    tables = []
    for name in TABLES:
        file = path / f"{name}.parquet"
        try:
            if sha256_of(file) != manifest["files"].get(file.name):
                raise DataError("the file is not the one that was written; run the job again", file=str(file))
            tables.append(pq.read_table(file, partitioning=None))
        except (OSError, pa.ArrowException) as error:
            raise DataError(
                f"the file is missing or cannot be read ({error}); run the job again", file=str(file)
            ) from None
    threshold = {kind: float("inf") if value is None else value for kind, value in manifest["threshold"].items()}
    return tables[0], tables[1], tables[2], {**manifest, "threshold": threshold}


def check_replaceable(target: Path) -> None:
    """Raise unless a run may be written here: nothing there, an empty folder, or an earlier run."""
    check_writable(target)
    try:
        content = set(os.listdir(target))
    except FileNotFoundError:
        return
    except NotADirectoryError:
        content = {target.name}
    if MANIFEST not in content and content:
        raise UsageError(f"{target} exists and is not a run folder; name another, or remove it first")
    if (target / MANIFEST).is_file():  # another process may have moved it away since
        _read_format(target)
    foreign = sorted(content - {MANIFEST, *(f"{name}.parquet" for name in TABLES)})
    if foreign:
        raise UsageError(
            f"{target} is a run folder that holds other files too ({', '.join(foreign[:3])}); "
            "writing a run would delete them: move them, or name another folder"
        )


def check_writable(target: Path) -> None:
    """Raise unless something may be created in the folder above, or in the first one that exists."""
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {target}: {above} is not a folder that can be written to")


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest of a run, and check what loading relies on."""
    manifest = _read_format(path)
    written_by = manifest.get("format_version")
    if isinstance(written_by, int) and written_by > FORMAT_VERSION:
        raise DataError(
            f"the run was written by a newer arbo (format {written_by}, this one reads up to {FORMAT_VERSION}); "
            "run: pip install --upgrade arbo",
            file=str(path / MANIFEST),
        )
    if written_by != FORMAT_VERSION or any(
        not isinstance(manifest.get(part), dict) for part in ("files", "threshold", "notes")
    ):
        raise DataError("the manifest is incomplete; run the job again", file=str(path / MANIFEST))
    return manifest


def _read_format(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.is_file():
        raise DataError(
            f"no run folder: it has no {MANIFEST}; a run is written by arbo link or discover", file=str(path)
        )
    try:
        manifest = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"the manifest is not JSON: {error}", file=str(file)) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DataError(f"this is not the manifest of a run ({FORMAT!r})", file=str(file))
    return manifest


def move_into_place(partial: Path, target: Path) -> None:
    """Move a folder to its place; where that fails the earlier one is there as before.

    Of two processes that do so the later wins.
    """
    for file in partial.rglob("*"):
        if file.is_file():
            with open(file, "r+b") as stream:  # a handle open for reading alone cannot be flushed on Windows
                os.fsync(stream.fileno())
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


def beside(target: Path, kind: str) -> Path:
    """Return a hidden path of its own in the folder of `target`: moving from there is one step."""
    return target.with_name(f".arbo-{kind}-{uuid4().hex}")


def version_of(distribution: str) -> str | None:
    """Return the installed version of a package, None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_json(value: dict[str, Any], file: str | PathLike[str]) -> None:
    """Write a JSON file, complete or not at all."""
    # One line a top-level key: what people edit stays in sight, what machines read stays small.
    lines = (f"  {json.dumps(key)}: {json.dumps(item, ensure_ascii=False)}" for key, item in json_ready(value).items())
    write_whole(file, lambda partial: partial.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8"))


def write_whole(file: str | PathLike[str], write: Callable[[Path], object]) -> None:
    """Let a function write a file beside its place, then move it there: complete or not at all."""
    target = Path(file).resolve()
    partial = beside(target, "partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        os.replace(partial, target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def same_model(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compare settings of two models, wherever they were loaded from: the weights say what a model is."""
    return _without_place(one) == _without_place(other)


def _without_place(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: json_ready(value) for name, value in settings.items() if name != "model"}


def json_ready(value: Any) -> Any:
    """Replace infinities and NaN by null: JSON has neither."""
    if isinstance(value, dict):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
