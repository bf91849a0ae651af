"""Index folders: a knowledge base in columns, with the arrays of an encoder, all mapped into memory.

``arbo-index.json`` is the manifest: the notes and the fingerprint of the knowledge base, the settings of the encoder,
and the size and hashes of each file. ``kb`` holds the entities and their ids, ``encoder`` the fitted encoder, and
``vectors`` the vectors of the entities. A folder is written completely or not at all. Opening it checks the manifest,
and the size and the first and last bytes of each file, where all headers are; `IndexFolder.check` reads everything.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy.typing as npt
import pyarrow as pa

from arbo import files
from arbo.data.entity_table import Ids, mapped, write_table
from arbo.errors import DataError, UsageError
from arbo.files import real

Arrays = Mapping[str, npt.NDArray[Any]]

ADVICE = "build the index again with `arbo kb index`"
MANIFEST = "arbo-index.json"
_KEYS = {"kb": dict, "encoder": dict, "files": dict}
FORMAT = files.Format("arbo-index", 3, _KEYS, "an index of a knowledge base", ADVICE)
_VERSIONS = ("arbo", "numpy", "pyarrow", "scipy")
_END = 4096


class IndexFolder(NamedTuple):
    """An opened index."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, path: files.PathLike) -> Self:
        """Open an index after checking its manifest, and the size and both ends of each file.

        Raise DataError if this is no index, a newer arbo wrote it, or a file is missing, cut or damaged at its ends.
        """
        folder = Path(path)
        manifest = files.check_manifest(_manifest(folder), FORMAT, folder / MANIFEST)
        if manifest.pop("checksum", None) != files.checksum(manifest):
            raise DataError(f"the manifest was changed after it was written; {ADVICE}", file=str(folder / MANIFEST))
        for name, known in manifest["files"].items():
            file = folder / name
            try:
                size = file.stat().st_size
                if size != known["bytes"]:
                    raise DataError(f"the file has {size:,} bytes, not {known['bytes']:,}; {ADVICE}", file=str(file))
                if _ends(file) != known["ends"]:
                    raise DataError(f"the file was changed after it was written; {ADVICE}", file=str(file))
            except OSError as error:
                raise DataError(f"the file cannot be read ({error.strerror}); {ADVICE}", file=str(file)) from None
        return cls(folder, manifest)

    def ids(self) -> Ids:
        """Return the entities and the rows of all ids, mapped into memory; raise DataError if they are damaged."""
        return Ids(mapped(self.folder / "kb/entities.arrow", ADVICE), **self.arrays("kb"))

    def arrays(self, folder: str) -> dict[str, npt.NDArray[Any]]:
        """Map the arrays in the subfolder ``kb``, ``encoder`` or ``vectors``; changes are not written to the files."""
        names = (Path(name) for name in self.manifest["files"])
        own = (name for name in names if name.parent.name == folder and name.suffix == ".npy")
        return {name.stem: _mapped(self.folder / name) for name in own}

    def check(self) -> None:
        """Read all files; raise DataError if one is missing or was changed."""
        files.check_hashes(
            self.folder, {name: known["sha256"] for name, known in self.manifest["files"].items()}, ADVICE
        )


def write_index(
    path: files.PathLike,
    kb: Mapping[str, Any],
    encoder: Mapping[str, Any],
    table: pa.RecordBatch,
    arrays: Mapping[str, Arrays],
) -> None:
    """Write an index; only an earlier index is replaced.

    Raise UsageError if the folder cannot be written, or contains anything but an index.

    Args:
        path: the folder.
        kb: the part of the manifest on the knowledge base.
        encoder: the settings of the encoder.
        table: the entities.
        arrays: the arrays of the subfolders ``kb``, ``encoder`` and ``vectors``.
    """
    target = real(path)
    check_index_replaceable(target)
    try:
        with files.whole_folder(target) as partial:
            (partial / "kb").mkdir()
            write_table(table, partial / "kb/entities.arrow")
            for folder, own in arrays.items():
                for name, array in own.items():
                    (partial / folder).mkdir(exist_ok=True)
                    files.save_array(partial / folder / f"{name}.npy", array)
            manifest = {
                **FORMAT.head(*_VERSIONS),
                "kb": dict(kb),
                "encoder": files.json_ready(dict(encoder)),
                "files": {name: _described(partial / name) for name in files.files_in(partial)},
            }
            text = json.dumps(manifest | {"checksum": files.checksum(manifest)}, indent=2)
            (partial / MANIFEST).write_text(text + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the index {target}: {error.strerror or error}") from error


def check_index_replaceable(target: Path) -> None:
    """Raise UsageError unless the folder is missing, empty, or an earlier index."""

    def files_of(folder: Path) -> list[str]:
        if not (folder / MANIFEST).is_file():  # another process may have moved it away since
            return []
        try:
            return [*_manifest(folder)["files"]]
        except (DataError, KeyError, TypeError):
            raise UsageError(f"{folder} is a damaged index, or no index; remove it, or choose another folder") from None

    files.check_replaceable(target, "folder of an arbo index", MANIFEST, files_of)


def _manifest(folder: Path) -> dict[str, Any]:
    return files.read_manifest(folder / MANIFEST, FORMAT, "build one with `arbo kb index`")


def _described(file: Path) -> dict[str, Any]:
    return {"bytes": file.stat().st_size, "ends": _ends(file), "sha256": files.sha256_of(file)}


def _ends(file: Path) -> str:
    """Return the SHA-256 of the first and the last bytes of a file."""
    with file.open("rb") as stream:
        start = stream.read(_END)
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _END))
        return hashlib.sha256(start + stream.read(_END)).hexdigest()


def _mapped(file: Path) -> npt.NDArray[Any]:
    try:
        return files.map_array(file)
    except (OSError, ValueError) as error:
        raise DataError(f"the array cannot be read ({error}); {ADVICE}", file=str(file)) from None
