"""Run folders: Parquet tables and a manifest with their hashes, written completely or not at all."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from arbo.errors import DataError, UsageError
from arbo.files import (
    Format,
    PathLike,
    check_format,
    check_hashes,
    check_manifest,
    check_replaceable as check_folder_replaceable,
    json_ready,
    sha256_of,
    version_of,
    whole_folder,
)

MANIFEST = "manifest.json"
TABLES = ("mentions", "links", "clusters")
LATER = ("documents", "entities")
"""Tables that a run can lack: an earlier arbo did not write them."""
FORMAT = Format(
    "arbo-run", 2, {"files": dict, "threshold": dict, "notes": dict}, "a run", "run the job again", oldest=1
)
_VERSIONS = ("arbo", "faiss-cpu", "numba", "numpy", "pyarrow", "scipy")


def save_run(tables: Mapping[str, pa.Table], manifest: dict[str, Any], folder: PathLike) -> None:
    """Write the tables and the manifest of a run; only an earlier run folder is replaced.

    Raises:
        UsageError: the folder cannot be written, or has other content than a run.

    """
    target = Path(folder).resolve()
    check_replaceable(target)
    try:
        with whole_folder(target) as partial:
            hashes = {}
            for name, table in tables.items():
                file = partial / f"{name}.parquet"
                pq.write_table(table, file)
                hashes[file.name] = sha256_of(file)
            content = {
                "format": FORMAT.name,
                "format_version": FORMAT.version,
                "versions": {name: version_of(name) for name in _VERSIONS} | {"python": platform.python_version()},
                **manifest,
                "files": hashes,
            }
            (partial / MANIFEST).write_text(json.dumps(json_ready(content), indent=2) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the run folder {target}: {error.strerror or error}") from error


def load_run(folder: PathLike) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Read the tables, by name, and the manifest of a run folder.

    Raises:
        DataError: the folder is not a run folder, a newer arbo wrote it, or a file is missing, truncated or changed.

    """
    path = Path(folder)
    try:
        manifest = check_manifest(_read_manifest(path), FORMAT, path / MANIFEST)
    except OSError as error:
        raise DataError(
            f"not a run folder: {MANIFEST} cannot be read ({error.strerror}); run arbo link or arbo discover",
            file=str(folder),
        ) from None
    names = [*TABLES, *(name for name in LATER if f"{name}.parquet" in manifest["files"])]
    hashes = {f"{name}.parquet": str(manifest["files"].get(f"{name}.parquet")) for name in names}
    check_hashes(path, hashes, FORMAT.mend)
    tables = {}
    for name in names:
        file = path / f"{name}.parquet"
        try:
            tables[name] = pq.read_table(file, partitioning=None)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"the file cannot be read ({error}); {FORMAT.mend}", file=str(file)) from None
    threshold = {kind: float("inf") if value is None else value for kind, value in manifest["threshold"].items()}
    return tables, {**manifest, "threshold": threshold}


def check_replaceable(target: Path) -> None:
    """Raise UsageError unless the folder is missing, empty, or an earlier run folder."""

    def files_of(folder: Path) -> list[str]:
        with suppress(FileNotFoundError):  # another process may have moved it away since
            check_format(_read_manifest(folder), FORMAT, folder / MANIFEST)
        return [f"{name}.parquet" for name in (*TABLES, *LATER)]

    check_folder_replaceable(target, "run folder", MANIFEST, files_of)


def _read_manifest(folder: Path) -> object:
    """Read a manifest; raise FileNotFoundError if it is missing."""
    file = folder / MANIFEST
    try:
        return json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"the manifest is not JSON: {error}", file=str(file)) from None
