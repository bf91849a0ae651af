"""The search as a grid of cells: shards of distinct query vectors by shards of things.

A cell is a search by `clustering.knn.nearest`. The lists of a query's cells are merged by (dissimilarity, id), and a
thing is in one shard only, so that the result is that of a single search.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from arbo.engine import Ids, Index, Limit, Metric, Neighbors, Vectors, lists_of, merged, nearest, renumbered
from arbo.retrieval.domains import Wanted
from arbo.scale.parts import Part

_QUERIES = 1 << 14
"""Most queries of a cell."""


class Cell(NamedTuple):
    """The search of the queries ``begin`` to ``end - 1``, counted in all shards, in one shard of things."""

    part: Part
    call: tuple[Any, ...]
    """A function of this module, and its arguments."""
    begin: int
    end: int
    things: Ids
    """The ids of the things of the shard, ascending."""


class Grid(NamedTuple):
    """The cells of one search."""

    cells: list[Cell]
    row: Ids
    """(queries,) the row of each query."""
    k: int
    n_things: int
    self_ids: Ids | None
    within: Limit

    @classmethod
    def of(
        cls,
        work: Path,
        wanted: Wanted,
        k: int,
        *,
        metric: Metric,
        within: Limit,
        size: int,
    ) -> Self:
        """Write the vectors in shards of ``size`` distinct vectors, and plan the search; see `nearest`."""
        queries: Any
        things: Any
        queries, things, self_ids = wanted
        scaled = isinstance(things, Index) and metric == "cosine"
        others = things.vectors if isinstance(things, Index) else things
        rows, places = np.unique(queries.row), _shards(others, size)
        width = min(k, others.n) + (self_ids is not None)
        asked = [
            (begin, Part.given(work, "vectors", _arrays(queries.matrix, rows[begin : begin + size])))
            for begin in range(0, len(rows), size)
        ]
        limit = None if within is None else float(np.max(within, initial=-np.inf))  # lists are cut when they are merged
        how = {"k": width, "metric": metric, "within": limit}
        cells = []
        for shard in places:
            shared = Part.given(work, "things", _things(others.taken(shard)))
            for first, part in asked:
                n = min(size, len(rows) - first)
                for begin in range(0, n, _QUERIES):
                    span = [begin, min(begin + _QUERIES, n)]
                    made = Part.of(work, "search", queries=[part.name, *span], things=[shared.name, scaled], **how)
                    call = (search, part.folder, span, shared.folder, scaled, how)
                    cells.append(Cell(made, call, first + span[0], first + span[1], shard))
        return cls(cells, queries.row, k, others.n, self_ids, within)

    def merged(self) -> Neighbors:
        """Return the lists of all queries, once every part is finished."""

        def fill(rows: Ids, lists: Any) -> None:
            by_span: dict[tuple[int, int], list[Cell]] = {}
            for cell in self.cells:
                by_span.setdefault((cell.begin, cell.end), []).append(cell)
            for (begin, end), cells in by_span.items():
                parts = [renumbered(Neighbors(**cell.part.arrays()), cell.things) for cell in cells]
                lists.ids[begin:end], lists.dissimilarity[begin:end] = merged(parts, lists.ids.shape[1])

        return lists_of(self.row, self.k, self.n_things, self.self_ids, self.within, fill)


def search(
    queries: Path, span: list[int], things: Path, scaled: bool, how: dict[str, Any]
) -> dict[str, npt.NDArray[Any]]:
    """Return the lists of some queries in a shard of things; the arguments are the folders of parts."""
    matrix = _matrix(Part(queries, {}).arrays())[slice(*span)]
    rows = np.arange(matrix.shape[0], dtype=np.int32)
    found = nearest(Vectors(matrix, rows, rows, len(rows)), _index(things, how["metric"], scaled), **how)
    return found._asdict()


@lru_cache(1)  # cells with the same things follow each other
def _index(things: Path, metric: Metric, scaled: bool) -> Index:
    arrays = Part(things, {}).arrays()
    row, owner, n = (arrays[name] for name in ("row", "owner", "n"))
    return Index.of(Vectors(_matrix(arrays), row, owner, int(n)), metric, scaled=scaled)


def forget() -> None:
    """Free the memory of the last shard of things."""
    _index.cache_clear()


def _shards(things: Vectors, size: int) -> list[Ids]:
    """Divide things, by their first vectors, into shards of about ``size`` vectors.

    Equal first vectors count once, and are in one shard, which may exceed ``size`` by those of a thing. Ids ascend in
    each shard; things without a vector are left out.
    """
    owner, first, n = np.unique(things.owner, return_index=True, return_counts=True)
    group = np.unique(things.row[first], return_inverse=True)[1]
    vectors = 1 + np.bincount(group, n - 1)  # of the things that have a first vector
    shard = ((np.cumsum(vectors) - 1) // size).astype(np.int64)[group]
    order = np.argsort(shard, kind="stable")
    bounds = np.flatnonzero(np.diff(shard[order])) + 1
    return [own for own in np.split(owner[order], bounds) if len(own)]


def _arrays(matrix: Any, rows: Ids | None = None) -> dict[str, npt.NDArray[Any]]:
    own = matrix if rows is None or len(rows) == matrix.shape[0] else matrix[rows]
    if not sp.issparse(own):
        return {"matrix": np.ascontiguousarray(own)}
    return {"start": own.indptr, "feature": own.indices, "value": own.data, "width": np.array(own.shape[1])}


def _things(things: Vectors) -> dict[str, npt.NDArray[Any]]:
    return _arrays(things.matrix) | {"row": things.row, "owner": things.owner, "n": np.array(things.n)}


def _matrix(arrays: dict[str, npt.NDArray[Any]]) -> Any:
    if "matrix" in arrays:
        return arrays["matrix"]
    start = arrays["start"]
    return sp.csr_array((arrays["value"], arrays["feature"], start), (len(start) - 1, int(arrays["width"])))
