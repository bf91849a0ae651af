"""Run folders: Parquet tables and a manifest with their hashes. A folder is written completely or not at all."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from arbo.data.arrow import Arrays
from arbo.errors import DataError
from arbo.files import READING_HEADERS, Format, PathLike, check_hashes, real, whole_folder, writing
from arbo.results.schema import SCHEMA, problem_of

ADVICE, MANIFEST = "run the job again", "manifest.json"
CORRECTIONS = "corrections"  # the table that a run without corrections lacks
ARRAYS = "growth.npz"  # the arrays by which a run can grow, or only its graph and the decisions if it cannot
_KEYS = dict.fromkeys(("config", "encoder", "files", "notes", "threshold"), dict)
_VERSIONS = ("arbo", "faiss-cpu", "numba", "numpy", "pyarrow", "scipy")
FORMAT = Format("arbo-run", 2, _KEYS, "a run folder", ADVICE, MANIFEST, _VERSIONS)
GROUP = 1 << 17  # rows of a group in the file of a table
_WRITERS = 2  # tables that are written at a time; each needs the memory of a group
_FIRST, _INNER = 1 << 12, (".list.element", ".list.element.start", ".list.element.end")


def save_run(tables: Mapping[str, Any], manifest: dict[str, Any], folder: PathLike, arrays: Arrays) -> None:
    """Write the tables, the manifest and the arrays of a run; only an earlier run folder is replaced.

    Raise UsageError if the folder cannot be written, and the errors of `Format.check_replaceable`.
    """
    target = real(folder)
    FORMAT.check_replaceable(target)
    with writing(f"the run folder {target}"), whole_folder(target) as partial:
        with ThreadPoolExecutor(_WRITERS) as pool:
            names = sorted(tables, key="links".__ne__)  # making the rows of links takes the most memory
            files = {partial / f"{name}.parquet": tables[name] for name in names if tables[name] is not None}
            [*pool.map(write_table, files, files.values())]
        if arrays:
            np.savez(partial / ARRAYS, **dict[str, Any](arrays))
        FORMAT.write(partial, manifest)


def write_table(file: Path, table: pa.Table) -> None:
    """Write groups of rows, whatever the chunks; lists and columns of repeated values have a dictionary."""
    some, repeated = table.slice(0, min(GROUP, _FIRST)), list[str]()
    for name in some.column_names:
        if pa.types.is_nested(some[name].type) or 2 * pc.count_distinct(some[name]).as_py() <= len(some):
            repeated += [name + part for part in ("", *_INNER)]
    with pq.ParquetWriter(file, some.schema, use_dictionary=repeated) as writer:
        for begin in range(0, max(1, len(table)), GROUP):
            writer.write_table(table.slice(begin, GROUP).combine_chunks(), GROUP)


def load_run(folder: PathLike) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the tables of `SCHEMA`, None for one that is missing, and the manifest of a run folder.

    Raise DataError if it is not a run folder, a newer arbo wrote it, or a file is missing, truncated or changed.
    """
    path = Path(folder)
    manifest = FORMAT.read(path)
    names = [name for name in SCHEMA if name != CORRECTIONS or f"{name}.parquet" in manifest["files"]]
    check_hashes(path, {f"{name}.parquet": manifest["files"].get(f"{name}.parquet") for name in names}, ADVICE)
    threshold = {kind: float("inf") if value is None else value for kind, value in manifest["threshold"].items()}
    tables = {name: _table(path / f"{name}.parquet") if name in names else None for name in SCHEMA}
    return tables, {**manifest, "threshold": threshold}


def _table(file: Path) -> pa.Table:
    try:
        with pq.ParquetFile(file) as stored:  # `read_table` imports pandas
            table = stored.read()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"the file cannot be read ({error}); {ADVICE}", file=str(file)) from None
    if problem := problem_of(file.stem, table):
        raise DataError(f"{problem}; {ADVICE}", file=str(file))
    return table


def load_arrays(folder: PathLike, manifest: Mapping[str, Any]) -> Arrays:
    """Read the arrays by which a run can grow; without texts, only its graph and the decisions.

    Raise DataError if the file is missing, truncated or changed.
    """
    file = Path(folder) / ARRAYS
    check_hashes(Path(folder), {ARRAYS: manifest["files"].get(ARRAYS)}, ADVICE)
    try:
        with READING_HEADERS, np.load(file, allow_pickle=False) as archive:
            return dict(archive)
    except (OSError, ValueError, BadZipFile) as error:
        raise DataError(f"the file cannot be read ({error}); {ADVICE}", file=str(file)) from None
