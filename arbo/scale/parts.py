"""Parts of a work folder: arrays in a subfolder that is written whole, named after all that they depend on.

``part.json`` holds the hash of each file. A finished part is made again only if its files were damaged.
"""

import hashlib
import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from arbo.errors import DataError, UsageError
from arbo.files import check_hashes, checksum, files_in, map_array, save_arrays, sha256_of, whole_folder, writing

Arrays = dict[str, npt.NDArray[Any]]

MANIFEST = "part.json"
_ROOMS = "clustering", "arbo/data", "arbo/encoders", "arbo/formats", "arbo/retrieval", "arbo/scale", "arbo/text"
_SOURCES = *(f"{room}/*.py" for room in _ROOMS), "arbo/engine.py"  # the sources on which arrays depend
_LIBRARIES = "numpy", "scipy", "numba", "faiss-cpu", "torch"
_SEEN = 60  # seconds within which a network disk shows all machines what one has written


class Part(NamedTuple):
    """The place of a part; it may be there or not."""

    folder: Path

    @classmethod
    def of(cls, work: Path, stage: str, **depends: Any) -> Self:
        """Return the part of a stage with these settings and names of parts; see `code` for what counts too."""
        known = {"stage": stage, "code": code(), **depends}
        return cls(work / f"{stage}-{checksum(known)[:32]}")

    @classmethod
    def with_arrays(cls, work: Path, stage: str, arrays: Arrays) -> Self:
        """Write arrays that no task makes, unless they are there, and return their part."""
        digest = hashlib.sha256()
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        part = cls.of(work, stage, content=digest.hexdigest())
        part.make(lambda: arrays)
        return part

    def is_finished(self) -> bool:
        """Return whether the part is there and undamaged; its files are read."""
        try:
            check_hashes(self.folder, json.loads((self.folder / MANIFEST).read_text("utf-8")), "make the part again")
        except (OSError, ValueError, DataError):
            return False
        return True

    def make(self, call: Callable[..., Arrays], *args: Any) -> None:
        """Call a function, and write its arrays, unless another process has done so; raise UsageError if that fails."""
        if self.is_finished():
            return
        arrays = call(*args)
        self.written(lambda folder: save_arrays(folder, arrays))

    def written(self, write: Callable[[Path], object]) -> None:
        """Have a function write files to a folder unless the part is finished; of several writers, the first wins."""
        if self.is_finished():
            return
        remedy = "; make room or change the rights, and the same command goes on, or choose another work folder"
        whole = whole_folder(self.folder, self.is_finished, flush=False)  # `is_finished` reads all
        with writing(self.folder, remedy), whole as partial:
            write(partial)
            files = {name: sha256_of(partial / name) for name in files_in(partial)}
            (partial / MANIFEST).write_text(json.dumps(files, indent=2) + "\n", "utf-8")

    def arrays(self) -> Arrays:
        """Map the arrays of a finished part into memory; what is written to them stays in memory.

        Wait until this machine sees the folder; raise UsageError if it stays absent.
        """
        until = time.monotonic() + _SEEN
        while not self.folder.exists():
            if time.monotonic() > until or not self.folder.parent.exists():
                remedy = "give each command its own (--set work=FOLDER), and on a cluster one on a disk of all nodes"
                raise UsageError(f"{socket.gethostname()} does not see {self.folder}, which was finished; {remedy}")
            time.sleep(0.5)
            os.scandir(self.folder.parent).close()  # a network disk then asks again for what was absent
        return {file.stem: map_array(file) for file in self.folder.iterdir() if file.suffix == ".npy"}


Task = tuple[Part, Callable[[], tuple[Any, ...]]]
"""A part to make, and what returns a function of a module and its arguments, by which any process can make it."""


@cache
def code() -> str:
    """Return a hash of what else arrays depend on: sources of arbo, and versions of libraries, of any build."""
    digest, root = hashlib.sha256(), Path(__file__).resolve().parents[2]
    for file in sorted(file for pattern in _SOURCES for file in root.glob(pattern)):
        digest.update(file.read_bytes())
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            digest.update(f"{library} {version(library).partition('+')[0]}\n".encode())
    return digest.hexdigest()
