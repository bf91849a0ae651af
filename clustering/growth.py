"""Neighbour lists that follow additions and removals, equal bit by bit to those of a search from scratch.

A list holds the nearest things without a gap, so its last place proves that everything unlisted is farther. The things
keep their order when some are added or removed, so that ties are decided as before. A new thing can enter a list only
before its last place; a removed one shortens it. Lists therefore need spare places: only where fewer than ``least``
are left, a new search fills the list. Dissimilarities are the same in both directions, see `clustering.vectors.dot`.
"""

import numpy as np

from .arrays import Bools, Ids
from .dense_search import Scanner, faiss_scanner
from .index import Index
from .knn import Neighbors, merged, nearest
from .progress import Progress, silent
from .vectors import Metric, Vectors


def added(
    lists: Neighbors,
    things: Vectors,
    is_new: Bools,
    *,
    metric: Metric = "cosine",
    scanner: Scanner = faiss_scanner,
    progress: Progress = silent,
) -> Neighbors:
    """Return the lists of all things, the new ones included.

    The cost is that of two searches: of the new things among all, and of the old ones among the new. Raise ValueError
    if there is not one list for each old thing.

    Args:
        lists: the nearest other old things of each old thing, as `nearest` or this module returns them.
        things: the old and the new things, with one vector each.
        is_new: (things,) whether a thing is new; the old ones are in the order of ``lists``.
        metric: see `nearest`.
        scanner: see `nearest`.
        progress: see `Progress`.

    >>> points = Vectors.of([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> is_new = np.array([False, True, False])
    >>> lists = nearest(points.taken(np.array([0, 2])), points.taken(np.array([0, 2])), 1, self_ids=np.arange(2))
    >>> added(lists, points, is_new).ids.ravel().tolist()
    [1, 0, 1]
    """
    new, old = np.flatnonzero(is_new), np.flatnonzero(~is_new)
    _check(lists, len(old))
    k = lists.ids.shape[1]
    grown = Neighbors(np.full((things.n, k), -1, np.int32), np.full((things.n, k), np.inf, np.float32))
    grown.ids[old], grown.dissimilarity[old] = _renumbered(lists.ids, old), lists.dissimilarity
    if k == 0 or not len(new):
        return grown
    others = Index.of(things, metric)
    grown.ids[new], grown.dissimilarity[new] = nearest(
        things.taken(new), others, k, metric=metric, scanner=scanner, self_ids=new, progress=progress
    )
    count = (lists.ids >= 0).sum(axis=1)
    last = np.arange(len(old)), count - 1
    within = np.where(count > 0, lists.dissimilarity[last], np.float32(-np.inf))
    within[count == len(old) - 1] = np.inf  # nothing is unlisted
    entering = nearest(
        things.taken(old),
        things.taken(new),
        min(k, len(new)),
        metric=metric,
        scanner=scanner,
        within=within,
        progress=progress,
    )
    ids = _renumbered(entering.ids, new)
    beyond = (entering.dissimilarity == within[:, None]) & (ids > grown.ids[old][last][:, None])
    ids[beyond], entering.dissimilarity[beyond] = -1, np.inf
    changed = np.flatnonzero((ids >= 0).any(axis=1))
    rows = old[changed]
    own = Neighbors(grown.ids[rows], grown.dissimilarity[rows])
    grown.ids[rows], grown.dissimilarity[rows] = merged([own, Neighbors(ids[changed], entering[1][changed])], k)
    return grown


def removed(
    lists: Neighbors,
    things: Vectors,
    is_kept: Bools,
    least: int,
    *,
    metric: Metric = "cosine",
    scanner: Scanner = faiss_scanner,
    progress: Progress = silent,
) -> Neighbors:
    """Return the lists of the things that are kept; the first ``least`` places are those of a search from scratch.

    So are the places after them, as far as a list is filled. Raise ValueError as `added` does.

    Args:
        lists: the nearest others of each thing before the removal.
        things: the things that are kept, with one vector each.
        is_kept: whether each thing of ``lists`` is kept; (lists,).
        least: number of places that each list needs.
        metric: see `nearest`.
        scanner: see `nearest`.
        progress: see `Progress`.

    """
    _check(lists, len(is_kept))
    number = np.append(np.where(is_kept, np.cumsum(is_kept) - 1, -1), -1)  # that of the empty place -1 comes last
    ids = number[lists.ids[is_kept]].astype(np.int32)
    dissimilarity = np.where(ids >= 0, lists.dissimilarity[is_kept], np.float32(np.inf))
    torn = np.flatnonzero(((ids < 0) & (lists.ids[is_kept] >= 0)).any(axis=1))
    order = np.argsort(ids[torn] < 0, axis=1, kind="stable")
    for array in (ids, dissimilarity):
        array[torn] = np.take_along_axis(array[torn], order, axis=1)
    short = np.flatnonzero((ids >= 0).sum(axis=1) < min(least, ids.shape[1], things.n - 1))
    if len(short):
        ids[short], dissimilarity[short] = nearest(
            things.taken(short),
            things,
            ids.shape[1],
            metric=metric,
            scanner=scanner,
            self_ids=short,
            progress=progress,
        )
    return Neighbors(ids, dissimilarity)


def _check(lists: Neighbors, n: int) -> None:
    if len(lists.ids) != n:
        raise ValueError(f"there are {len(lists.ids)} lists for {n} things; give one list for each")


def _renumbered(ids: Ids, number: Ids) -> Ids:
    """Return the number of each id; -1 stays."""
    return np.append(number, -1).astype(np.int32)[ids]
