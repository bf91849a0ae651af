"""What two releases of a knowledge base have in common, by hashes of their entities, which a run keeps."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from arbo.data.arrow import Bools, Ints, numbers, rows_among, strings
from arbo.data.fingerprint import Hashes, hashes_of, hashes_of_rows


class Keys(NamedTuple):
    """Hashes of 64 bits of each entity, in order; both (entities,)."""

    ids: Hashes
    contents: Hashes  # of name, aliases, definition, types and domain

    @classmethod
    def of(cls, table: pa.RecordBatch) -> Self:
        """Hash the entities of a table, see `arbo.data.entity_table`."""
        columns = [hashes_of(table[name]) for name in ("name", "aliases", "definition", "types", "domain")]
        start = np.arange(len(table) + 1) * len(columns)
        return cls(hashes_of(table["id"]), hashes_of_rows(np.stack(columns, axis=1).ravel(), start))


class Exchange(NamedTuple):
    """A knowledge base that took the place of another one."""

    before: Keys
    after: Keys
    replaced: Mapping[str, str] = {}  # the ids of entities that are gone, and of those that replace them

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of entities that are new, gone or changed, and of those of the run that are replaced."""
        row, is_same = self._rows()
        n_kept = int((row >= 0).sum())
        counts = {"new": len(self.after.ids) - n_kept, "gone": len(row) - n_kept}
        replaced = _rows_of(hashes_of(strings([*self.replaced])), self.before.ids)
        counts |= {"changed": n_kept - int(is_same.sum()), "replaced": int((replaced >= 0).sum())}
        return {name: count for name, count in counts.items() if count}

    def unchanged(self) -> Ints:
        """Return the row of each earlier entity now, ascending; -1 if it is gone, changed, or not in the same order.

        An entity that moves to the end leaves nothing of what followed it, and all of that is sought again.
        """
        row, is_same = self._rows()
        row[~is_same] = -1
        row[row <= np.maximum.accumulate(np.append(-1, row[:-1]))] = -1
        return row

    def causes(self, ids: Iterable[str]) -> dict[str, str]:
        """Say what happened to entities; those that have not changed are left out."""
        named = list(dict.fromkeys(ids))
        hashes = hashes_of(strings(named))
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

    def _rows(self) -> tuple[Ints, Bools]:
        """Return the row of each earlier entity now, by its id, or -1; and whether its content is the same."""
        row = _rows_of(self.before.ids, self.after.ids)
        return row, (row >= 0) & (np.append(self.after.contents, np.uint64(0))[row] == self.before.contents)


def _rows_of(ids: Hashes, there: Hashes) -> Ints:
    return rows_among(*(pa.chunked_array([numbers(hashes)]) for hashes in (ids, there)))
