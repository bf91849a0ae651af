"""A store of embeddings on disk, whose keys are hashes of texts and of the model.

Each model with its configuration has a folder; each file holds some embeddings and their keys. A file is written
completely, and its name is the hash of its content. So an interruption leaves only complete files, and two processes
can write at the same time. A process that is killed while writing leaves a hidden `.arbo-partial-*` file, which is
never read and can be deleted.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from arbo.engine import Floats
from arbo.errors import UsageError
from arbo.files import write_whole

Keys = npt.NDArray[np.bytes_]

KEY_BYTES = 16

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EmbeddingStore:
    """The embeddings of one model and configuration, in one folder."""

    folder: Path

    @classmethod
    def open(cls, folder: str | PathLike[str], model: str) -> EmbeddingStore:
        """Open or create the folder of a ``model``, a hash of all but the text; raise UsageError if that fails."""
        path = Path(os.path.expanduser(folder)) / model
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path, error.strerror) from error
        return cls(path)

    def find(self, keys: Keys, into: Floats) -> npt.NDArray[np.bool_]:
        """Return whether each key is in the store, (keys,), and copy its vector to its row of ``into``, (keys, dim)."""
        known = np.zeros(len(keys), np.bool_)
        if not len(keys):
            return known
        order = np.argsort(keys)
        ordered = keys[order]
        for stored, vectors in self._files():
            place = np.searchsorted(ordered, stored)
            place[place == len(ordered)] = 0
            here = ordered[place] == stored
            rows = order[place[here]]
            into[rows] = vectors[here]
            known[rows] = True
        return known

    def add(self, keys: Keys, vectors: Floats) -> None:
        """Write embeddings to a new file, completely or not at all; raise UsageError if that fails."""
        from safetensors.numpy import save

        content = save(
            {
                "keys": np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), KEY_BYTES),
                "vectors": np.ascontiguousarray(vectors, np.float32),
            }
        )
        target = self.folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
        try:
            write_whole(target, lambda partial: partial.write_bytes(content))
        except UsageError as error:
            raise _unwritable(self.folder, error) from error

    def _files(self) -> Iterator[tuple[Keys, Floats]]:
        """Read all files; the embeddings of a file that cannot be read are computed again."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        for file in sorted(self.folder.glob("*.safetensors")):
            try:
                tensors = load_file(file)
                keys, vectors = tensors["keys"], tensors["vectors"]
            except (OSError, KeyError, SafetensorError) as error:
                logger.warning("%s is ignored (%s); delete it: its embeddings are computed again", file, error)
                continue
            yield np.ascontiguousarray(keys).view(f"S{KEY_BYTES}").ravel(), vectors


def key_of(texts: Sequence[str]) -> bytes:
    """Return the key of an input, a hash of its texts."""
    digest = hashlib.blake2b(digest_size=KEY_BYTES)
    for text in texts:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def _unwritable(folder: Path, reason: object) -> UsageError:
    return UsageError(f"cannot keep embeddings in {folder}: {reason}; free some space, or choose another (--cache)")
