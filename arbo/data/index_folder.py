"""Index folders: a knowledge base in columns, with the arrays of an encoder, all mapped into memory.

``arbo-index.json`` is the manifest: the notes and the fingerprint of the knowledge base, the settings of the encoder,
and the hash of each file. ``kb`` holds the entities and their ids, ``encoder`` the fitted encoder, and ``vectors`` the
vectors of the entities. A folder is written completely or not at all. Opening it checks the manifest, and mapping a
file its header and its size; `arbo.encoders.index.check_index` reads everything.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa

from arbo import files
from arbo.data.arrow import Arrays
from arbo.data.entity_table import SCHEMA
from arbo.errors import DataError

ADVICE, MANIFEST = "build the index again with `arbo kb index`", "arbo-index.json"
_KEYS = {"kb": dict, "encoder": dict, "files": dict}
_VERSIONS = ("arbo", "numpy", "pyarrow", "scipy")
FORMAT = files.Format("arbo-index", 4, _KEYS, "an index of a knowledge base", ADVICE, MANIFEST, _VERSIONS)


class IndexFolder(NamedTuple):
    """An opened index."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, path: files.PathLike) -> Self:
        """Open an index after checking its manifest; raise DataError if it is no index, or of a newer arbo."""
        return cls(Path(path), FORMAT.read(Path(path)))

    def table(self) -> pa.RecordBatch:
        """Return the entities, mapped into memory; raise DataError if they are damaged."""
        file = self.folder / "kb/entities.arrow"
        try:
            table = pa.ipc.open_file(pa.memory_map(str(file))).get_batch(0)
            table.validate()
            if table.schema != SCHEMA:
                raise ValueError("other columns")
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(f"the file cannot be read ({error}); {ADVICE}", file=str(file)) from None
        return table

    def arrays(self, folder: str) -> Arrays:
        """Map the arrays in the subfolder ``kb``, ``encoder`` or ``vectors``; changes are not written to the files.

        Raise DataError if a file is missing, cut or damaged at its beginning.
        """
        names = (Path(name) for name in self.manifest["files"])
        paths = (self.folder / name for name in names if name.parent.name == folder and name.suffix == ".npy")
        arrays = {}
        for file in paths:
            try:
                arrays[file.stem] = files.map_array(file)
            except Exception as error:  # a damaged header lets any error of its parsers through
                raise DataError(f"the array cannot be read ({error}); {ADVICE}", file=str(file)) from None
        return arrays


def write_index(
    path: files.PathLike,
    kb: Mapping[str, Any],
    encoder: Mapping[str, Any],
    table: pa.RecordBatch,
    arrays: Mapping[str, Arrays],
) -> None:
    """Write an index in place of what is there, see `FORMAT.check_replaceable`; raise UsageError if that fails.

    ``kb`` and ``encoder`` are parts of the manifest, ``arrays`` those of each subfolder.
    """
    target = files.real(path)
    with files.writing(f"the index {target}"), files.whole_folder(target) as partial:
        (partial / "kb").mkdir()
        with pa.OSFile(str(partial / "kb/entities.arrow"), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
            writer.write_batch(table)
        for folder, parts in arrays.items():
            if parts:
                (partial / folder).mkdir(exist_ok=True)
                files.save_arrays(partial / folder, parts)
        FORMAT.write(partial, {"kb": dict(kb), "encoder": dict(encoder)})
