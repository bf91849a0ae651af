"""What two releases of a knowledge base have in common, by hashes of their entities, which a run keeps."""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]


class Keys(NamedTuple):
    """Hashes of 64 bits of each entity, in order; both (entities,)."""

    ids: Hashes
    contents: Hashes
    """Of name, aliases, definition, types and domain."""

    @classmethod
    def of(cls, ids: bytes, contents: bytes) -> Self:
        """Make keys from the joined results of `digest_of`."""
        return cls(np.frombuffer(ids, "<u8"), np.frombuffer(contents, "<u8"))


class Exchange(NamedTuple):
    """A knowledge base that took the place of another one."""

    before: Keys
    after: Keys
    replaced: Mapping[str, str] = {}
    """The ids of entities that are gone, and of those that replace them."""

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of entities that are new, gone or changed, and of those of the run that are replaced."""
        row, is_same = self._rows()
        n_kept = int((row >= 0).sum())
        counts = {"new": len(self.after.ids) - n_kept, "gone": len(row) - n_kept}
        replaced = _rows_of(np.array([hash_of(id_) for id_ in self.replaced], np.uint64), self.before.ids)
        counts |= {"changed": n_kept - int(is_same.sum()), "replaced": int((replaced >= 0).sum())}
        return {name: count for name, count in counts.items() if count}

    def unchanged(self) -> Rows:
        """Return the row of each earlier entity now, ascending; -1 if it is gone, changed, or not in the same order.

        An entity is out of order if it comes before any that precedes it in the earlier knowledge base. So an entity
        that moves to the end leaves nothing of what followed it, and all of that is sought again.
        """
        row, is_same = self._rows()
        row[~is_same] = -1
        row[row <= np.maximum.accumulate(np.append(-1, row[:-1]))] = -1
        return row

    def causes(self, ids: Iterable[str]) -> dict[str, str]:
        """Say what happened to entities; those that have not changed are left out."""
        named = list(dict.fromkeys(ids))
        hashes = np.array([hash_of(id_) for id_ in named], np.uint64)
        was, now = (_rows_of(hashes, keys.ids) for keys in self[:2])
        causes = {}
        for id_, one, other in zip(named, was.tolist(), now.tolist(), strict=True):
            if one >= 0 and other < 0:
                causes[id_] = f"{id_} is gone" if id_ not in self.replaced else f"{self.replaced[id_]} replaces {id_}"
            elif one < 0 <= other:
                causes[id_] = f"{id_} is new"
            elif one >= 0 and self.before.contents[one] != self.after.contents[other]:
                causes[id_] = f"{id_} has changed"
        return causes

    def _rows(self) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """Return the row of each earlier entity now, by its id, or -1; and whether its content is the same."""
        row = _rows_of(self.before.ids, self.after.ids)
        return row, (row >= 0) & (np.append(self.after.contents, np.uint64(0))[row] == self.before.contents)


def digest_of(text: str) -> bytes:
    """Return 8 bytes of the BLAKE2 hash of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def hash_of(text: str) -> np.uint64:
    """Return `digest_of` as a number."""
    return np.uint64(int.from_bytes(digest_of(text), "little"))


def _rows_of(ids: Hashes, there: Hashes) -> Rows:
    """Return the row of each id among those that are there, or -1."""
    order = np.argsort(there, kind="stable")
    row = np.append(order, -1)[np.searchsorted(there, ids, sorter=order)]
    row[np.append(there, np.uint64(0))[row] != ids] = -1
    return row
