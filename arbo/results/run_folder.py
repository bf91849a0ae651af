"""Run folders: Parquet tables and a manifest with their hashes. A folder is written completely or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import SEEK_CUR
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from arbo.data.fields import fields
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
from arbo.results.run_checks import (
    OF_MANIFEST,
    REQUIRED,
    needed_columns,
    wrong_arrays,
    wrong_columns,
    wrong_ids,
    wrong_tables,
)
from arbo.results.stored import Stored

MANIFEST = "manifest.json"
TABLES = ("mentions", "links", "clusters")
LATER = ("documents", "entities", "corrections")
"""Tables that may be missing: an earlier arbo did not write them, or there are no corrections."""
KEPT = "growth.npz"
"""The arrays by which a run can grow, or only its graph and the decisions if it cannot."""
FORMAT = Format(
    "arbo-run", 2, {"files": dict, "threshold": dict, "notes": dict}, "a run folder", "run the job again", oldest=1
)
GROUP = 1 << 17
"""Rows of a group in the file of a table."""
_COMPARED = {
    "mentions": {"mention_id", "document_id"},
    "links": {"mention_id", "entity_id", "cluster_id", "parent", "parent_is_mention", "step"},
    "documents": {"document_id"},
}
"""Tables that may stay in their files, and the columns by which runs are compared."""
_WRITERS = 2
"""Tables that are written at a time; each needs the memory of a group."""
_LENGTHS = 26
"""Where the header of a member of a zip archive tells how long its name is, and what follows the name."""
_UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    ArithmeticError,
    MemoryError,
    SyntaxError,
    NotImplementedError,
    TokenError,
    BadZipFile,
)
"""What a damaged archive of arrays may raise."""
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

    ``stored`` tables stay in their files, see `Stored`; of these, what runs are compared by is checked now, and all
    else if it is read. Raise DataError if it is not a run folder, a newer arbo wrote it, a file is missing, truncated
    or changed, or the tables contradict each other.
    """
    path = Path(folder)
    manifest = check_manifest(_manifest(path), FORMAT, path / MANIFEST)
    names = [*TABLES, *(name for name in LATER if f"{name}.parquet" in manifest["files"])]
    hashes = {f"{name}.parquet": str(manifest["files"].get(f"{name}.parquet")) for name in names}
    check_hashes(path, hashes, FORMAT.mend)
    files = {name: _stored(path, name) for name in names}
    tables: dict[str, Any] = {}
    for name, file in files.items():
        wanted = _COMPARED.get(name, set()) if stored else set()
        tables[name] = file.select([own for own in file.column_names if own in wanted or not wanted])
        if wrong := wrong_ids(name, tables[name], is_whole=not wanted):
            raise DataError(f"{wrong}; {FORMAT.mend}", file=str(path / f"{name}.parquet"))
    for name, wrong in wrong_tables(tables):
        raise DataError(f"{wrong}; {FORMAT.mend}", file=str(path / f"{name}.parquet"))
    for name in {"mentions", "documents"} & tables.keys():
        if "domain" not in tables[name].column_names:
            tables[name] = tables[name].append_column("domain", pa.nulls(len(tables[name]), pa.string()))
    if stored:
        tables |= {name: files[name] for name in _COMPARED.keys() & files.keys()}
    try:
        fields(manifest, "the manifest", OF_MANIFEST, required=REQUIRED)
    except DataError as error:
        raise DataError(f"{error.problem}; {FORMAT.mend}", file=str(path / MANIFEST)) from None
    threshold = {kind: float("inf") if value is None else value for kind, value in manifest["threshold"].items()}
    return tables, {**manifest, "threshold": threshold}


def _stored(folder: Path, name: str) -> Stored:
    long = {"metadata", *["text"] * (name == "documents")}
    how: Any = {"long": long, "needed": needed_columns(name), "wrong": partial(wrong_columns, name)}
    return Stored(folder / f"{name}.parquet", FORMAT.mend, **how)


def load_kept(folder: PathLike, manifest: Mapping[str, Any], n: int) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays by which a run of ``n`` mentions can grow; without texts, only its graph and the decisions.

    Raise DataError if the file is missing, truncated or changed, or its arrays do not fit the run.
    """
    file = Path(folder) / KEPT
    check_hashes(Path(folder), {KEPT: str(manifest["files"].get(KEPT))}, FORMAT.mend)
    try:
        with READING_HEADERS, file.open("rb") as stream, ZipFile(stream) as archive:
            members = archive.infolist()
            stream.seek(0)
            arrays = {member.filename.removesuffix(".npy"): _array(stream, member.header_offset) for member in members}
    except _UNREADABLE as error:
        raise DataError(f"the file cannot be read ({error}); {FORMAT.mend}", file=str(file)) from None
    if wrong := wrong_arrays(arrays, n, (manifest["knowledge_base"] or {"entities": 0})["entities"]):
        raise DataError(f"{wrong}; {FORMAT.mend}", file=str(file))
    return arrays


def _array(stream: BinaryIO, begin: int) -> npt.NDArray[Any]:
    """Read an array that lies uncompressed in an archive, behind those that were read, where its header begins.

    `np.load` takes ten times as long, as it reads through the archive and checks sums that the hash of the file covers.
    """
    if begin < stream.tell():
        raise ValueError("its arrays overlap")  # many could be made of the same bytes
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
        return [*(f"{name}.parquet" for name in (*TABLES, *LATER)), KEPT]

    check_folder_replaceable(target, "run folder", MANIFEST, files_of)


def _manifest(folder: Path) -> dict[str, Any]:
    return read_manifest(folder / MANIFEST, FORMAT, "check the path, or run arbo link")
