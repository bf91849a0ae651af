"""Neighbour lists that follow additions and removals, equal bit by bit to those of a search from scratch.

A list holds the nearest things without a gap. If it is full, its last place proves that everything unlisted is farther;
if not, it holds everything within the limit of the search. The things keep their order when some are added or removed,
so that ties are decided as before. A new thing can enter a full list only before its last place. A full list that loses
a thing is searched again. Dissimilarities are the same in both directions, see `clustering.vectors.dot`.
"""

import numpy as np

from .arrays import Ids
from .dense_search import Scanner, faiss_scanner
from .knn import Neighbors, merged, nearest
from .progress import Progress, silent
from .vectors import Metric, Vectors


def updated(
    lists: Neighbors,
    things: Vectors,
    row: Ids,
    *,
    within: float | None = None,
    metric: Metric = "cosine",
    scanner: Scanner = faiss_scanner,
    progress: Progress = silent,
) -> Neighbors:
    """Return the nearest others of each thing, from the lists of earlier things, of which some are still there.

    The lists are those of a search from scratch, with as many places as before. The cost is that of two searches: one
    among all things, for new things and those whose full list lost a thing; and one among the new things, for the rest.

    Raise ValueError if ``row`` has another length than ``things``, does not ascend, or is beyond the lists.

    Args:
        lists: the nearest others of each earlier thing, as `nearest` or this function returned them.
        things: all things that are there now, with one vector each.
        row: (things,) the row of each thing in ``lists``, or -1 for a new thing; rows ascend.
        within: the limit of the search that made ``lists``, see `nearest`.
        metric: see `nearest`.
        scanner: see `nearest`.
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
    found = Neighbors(np.full((things.n, k), -1, np.int32), np.full((things.n, k), np.inf, np.float32))
    if not k:
        return found
    own = _without_removed(lists, row[old], old)
    was_full, is_full = lists.ids[row[old], -1] >= 0, own.ids[:, -1] >= 0
    found.ids[old], found.dissimilarity[old] = own
    searched = np.sort(np.concatenate([new, old[was_full & ~is_full]]))
    if len(searched):
        found.ids[searched], found.dissimilarity[searched] = nearest(
            things.taken(searched),
            things,
            k,
            metric=metric,
            scanner=scanner,
            self_ids=searched,
            within=within,
            progress=progress,
        )
    open_ = np.flatnonzero(was_full == is_full)
    if len(new) and len(open_):
        last = own.of(open_)
        limit = np.where(is_full[open_], last.dissimilarity[:, -1], np.float32(np.inf if within is None else within))
        entering = nearest(
            things.taken(old[open_]),
            things.taken(new),
            min(k, len(new)),
            metric=metric,
            scanner=scanner,
            within=limit,
            progress=progress,
        )
        ids = _renumbered(entering.ids, new)
        beyond = (entering.dissimilarity == limit[:, None]) & (ids > last.ids[:, -1:]) & is_full[open_, None]
        ids[beyond], entering.dissimilarity[beyond] = -1, np.inf
        changed = np.flatnonzero((ids >= 0).any(axis=1))
        both = [last.of(changed), Neighbors(ids, entering.dissimilarity).of(changed)]
        rows = old[open_[changed]]
        found.ids[rows], found.dissimilarity[rows] = merged(both, k)
    return found


def _without_removed(lists: Neighbors, rows: Ids, number: Ids) -> Neighbors:
    """Return these lists without the other things, which are renumbered and close up."""
    place = np.full(len(lists.ids), -1)
    place[rows] = number
    own = lists.of(rows)
    ids = _renumbered(own.ids, place)
    torn = np.flatnonzero(((ids < 0) & (own.ids >= 0)).any(axis=1))
    dissimilarity = np.where(ids >= 0, own.dissimilarity, np.float32(np.inf))
    order = np.argsort(ids[torn] < 0, axis=1, kind="stable")
    for array in (ids, dissimilarity):
        array[torn] = np.take_along_axis(array[torn], order, axis=1)
    return Neighbors(ids, dissimilarity)


def _renumbered(ids: Ids, number: Ids) -> Ids:
    """Return the number of each id; -1 stays."""
    return np.append(number, -1).astype(np.int32)[ids]
