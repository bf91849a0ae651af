"""Neighbour lists that follow additions and removals, equal bit by bit to those of a search from scratch.

A list holds the nearest things without a gap. If it is full, its last place proves that everything unlisted is farther;
if not, it holds everything within the limit of the search. The things keep their order when some are added or removed,
so that ties are decided as before. A new thing can enter a full list only before its last place. A full list that loses
a thing is searched again. Dissimilarities are the same in both directions, see `clustering.vectors.dot`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import Ids
from .joining import join
from .knn import Neighbors, nearest
from .progress import Progress, silent
from .vectors import Metric, Vectors

FEW, _FEW_SHARE = 4096, 16
"""Up to this number, or one for this number of things, new things are joined to the others in a pass over all."""


def updated(
    lists: Neighbors,
    things: Vectors,
    row: Ids,
    *,
    within: float | None = None,
    metric: Metric = "cosine",
    find: Callable[..., Neighbors] = nearest,
    progress: Progress = silent,
) -> Neighbors:
    """Return the nearest others of each thing, from the lists of earlier things, of which some are still there.

    The lists are those of a search from scratch, with as many places as before. The cost is that of a pass over all
    things with the new ones, see `clustering.joining`, or of a search from scratch if many are new; and of a search of
    the things whose full list lost one.

    Raise ValueError if ``row`` has another length than ``things``, does not ascend, or is beyond the lists.

    Args:
        lists: the nearest others of each earlier thing, as `nearest` or this function returned them.
        things: all things that are there now, with one vector each. If at most `FEW` are new, things that are beyond
            ``within`` from each of these, and from each whose full list lost one, may have none.
        row: (things,) the row of each thing in ``lists``, or -1 for a new thing; rows ascend.
        within: the limit of the search that made ``lists``, see `nearest`.
        metric: see `nearest`.
        find: searches as `nearest` does.
        progress: see `Progress`.

    >>> points = Vectors.of([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> some = points.taken(np.array([0, 2]))
    >>> lists = nearest(some, some, 1, self_ids=np.arange(2))
    >>> updated(lists, points, np.array([0, -1, 1])).ids.ravel().tolist()
    [1, 0, 1]
    """
    old, new = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
    if len(row) != things.n or (np.diff(row[old]) <= 0).any() or row.max(initial=-1) >= len(lists.ids):
        n = len(lists.ids)
        raise ValueError(f"row must have an ascending row below {n}, or -1 if new, for each of {things.n} things")
    k = lists.ids.shape[1]
    found = Neighbors.empty(things.n, k)
    if not k:
        return found
    place = np.full(len(lists.ids), -1)
    place[row[old]] = old
    how: Any = {"metric": metric, "within": within, "progress": progress}
    if len(new) > max(FEW, things.n // _FEW_SHARE):
        return find(things, things, k, **how, self_ids=np.arange(things.n))
    earlier = renumbered(lists.of(row[old]), place)
    torn = old[(lists.ids[row[old], -1] >= 0) & (earlier.ids[:, -1] < 0)]
    found.ids[old], found.dissimilarity[old] = earlier
    if len(new):
        join(found, things, new, np.inf if within is None else within, metric, progress)
    if len(torn):
        found.ids[torn], found.dissimilarity[torn] = find(things.taken(torn), things, k, **how, self_ids=torn)
    return found


def renumbered(lists: Neighbors, number: Ids) -> Neighbors:
    """Return lists with the number of each thing instead of its id, in the same order; -1 leaves a thing out."""
    ids = np.append(number, -1).astype(np.int32)[lists.ids]  # -1 stays
    torn = np.flatnonzero(((ids < 0) & (lists.ids >= 0)).any(axis=1))
    dissimilarity = np.where(ids >= 0, lists.dissimilarity, np.float32(np.inf))
    order = np.argsort(ids[torn] < 0, axis=1, kind="stable")
    for array in (ids, dissimilarity):
        array[torn] = np.take_along_axis(array[torn], order, axis=1)
    return Neighbors(ids, dissimilarity)
