"""Run folders: Parquet tables and a manifest with their hashes. A folder is written completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from os import SEEK_CUR
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from arbo.errors import DataError, UsageError
from arbo.files import (
    READING_HEADERS,
    Format,
    PathLike,
    check_hashes,
    check_manifest,
    check_replaceable as check_folder_replaceable,
    json_ready,
    read_manifest,
    real,
    sha256_of,
    whole_folder,
)
from arbo.results.schema import SCHEMA
from arbo.results.stored import ADVICE, Stored

MANIFEST = "manifest.json"
CORRECTIONS = "corrections"
"""The table that a run without corrections lacks."""
KEPT = "growth.npz"
"""The arrays by which a run can grow, or only its graph and the decisions if it cannot."""
FORMAT = Format(
    "arbo-run", 2, dict.fromkeys(("config", "encoder", "files", "notes", "threshold"), dict), "a run folder", ADVICE
)
GROUP = 1 << 17
"""Rows of a group in the file of a table."""
_IN_FILES = ("mentions", "links", "documents")
"""The tables that may stay in their files."""
_WRITERS = 2
"""Tables that are written at a time; each needs the memory of a group."""
_LENGTHS = 26
"""Where the header of a member of a zip archive tells how long its name is, and what follows the name."""
_VERSIONS = ("arbo", "faiss-cpu", "numba", "numpy", "pyarrow", "scipy")


def save_run(
    tables: Mapping[str, pa.Table],
    manifest: dict[str, Any],
    folder: PathLike,
    kept: Mapping[str, npt.NDArray[Any]] | None = None,
) -> None:
    """Write the tables, the manifest and the kept arrays of a run; only an earlier run folder is replaced.

    Raise UsageError if the folder cannot be written, and the errors of `check_replaceable`.
    """
    target = real(folder)
    check_replaceable(target)
    try:
        with whole_folder(target) as partial:
            with ThreadPoolExecutor(_WRITERS) as pool:
                files = {partial / f"{name}.parquet": table for name, table in tables.items()}
                [*pool.map(write_table, files, files.values())]
                hashes = dict(zip((file.name for file in files), pool.map(sha256_of, files), strict=True))
            if kept is not None:
                arrays: dict[str, Any] = {**kept}
                np.savez(partial / KEPT, **arrays)
                hashes[KEPT] = sha256_of(partial / KEPT)
            content = {**FORMAT.head(*_VERSIONS), **manifest, "files": hashes}
            (partial / MANIFEST).write_text(json.dumps(json_ready(content), indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the run folder {target}: {error.strerror or error}") from error


def write_table(file: Path, table: pa.Table) -> None:
    """Write a table, one group of rows after the other; the bytes do not depend on the chunks of its columns."""
    with pq.ParquetWriter(file, table.schema) as writer:
        for begin in range(0, max(1, len(table)), GROUP):
            writer.write_table(table.slice(begin, GROUP).combine_chunks(), GROUP)


def load_run(folder: PathLike, *, stored: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the tables, by name, and the manifest of a run folder.

    With ``stored``, the large tables stay in their files, see `Stored`. Raise DataError if it is not a run folder, a
    newer arbo wrote it, or a file is missing, truncated or changed.
    """
    path = Path(folder)
    manifest = check_manifest(_manifest(path), FORMAT, path / MANIFEST)
    names = [name for name in SCHEMA if name != CORRECTIONS or f"{name}.parquet" in manifest["files"]]
    check_hashes(path, {f"{name}.parquet": manifest["files"].get(f"{name}.parquet") for name in names}, ADVICE)
    tables: dict[str, Any] = {name: Stored(path / f"{name}.parquet") for name in names}
    for name, table in tables.items():
        if not (stored and name in _IN_FILES):
            tables[name] = table.select(table.column_names)
    threshold = {kind: float("inf") if value is None else value for kind, value in manifest["threshold"].items()}
    return tables, {**manifest, "threshold": threshold}


def load_kept(folder: PathLike, manifest: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays by which a run can grow; without texts, only its graph and the decisions.

    Raise DataError if the file is missing, truncated or changed.
    """
    file = Path(folder) / KEPT
    check_hashes(Path(folder), {KEPT: manifest["files"].get(KEPT)}, ADVICE)
    try:
        with READING_HEADERS, file.open("rb") as stream, ZipFile(stream) as archive:
            return {
                member.filename.removesuffix(".npy"): _array(stream, member.header_offset)
                for member in archive.infolist()
            }
    except (OSError, ValueError, BadZipFile) as error:
        raise DataError(f"the file cannot be read ({error}); {ADVICE}", file=str(file)) from None


def _array(stream: BinaryIO, begin: int) -> npt.NDArray[Any]:
    """Read an array that lies uncompressed in an archive, where its header begins.

    `np.load` takes ten times as long, as it reads through the archive and checks sums that the hash of the file covers.
    """
    stream.seek(begin + _LENGTHS)
    lengths = [int.from_bytes(stream.read(2), "little") for _ in ("name", "more")]
    stream.seek(sum(lengths), SEEK_CUR)
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def check_replaceable(target: Path) -> None:
    """Raise UsageError unless the folder is missing, empty or a run folder, and DataError for a foreign manifest."""

    def files_of(folder: Path) -> list[str]:
        if (folder / MANIFEST).is_file():  # another process may have moved it since
            _manifest(folder)
        return [*(f"{name}.parquet" for name in SCHEMA), KEPT]

    check_folder_replaceable(target, "run folder", MANIFEST, files_of)


def _manifest(folder: Path) -> dict[str, Any]:
    return read_manifest(folder / MANIFEST, FORMAT, "check the path, or run arbo link")
