"""Neighbour lists that follow additions and removals, equal bit by bit to those of a search from scratch.

A list holds the nearest things without a gap. If it is full, its last place proves that everything unlisted is farther;
if not, it holds everything within the limit of the search. The things keep their order when some are added or removed,
so that ties are decided as before. A new thing can enter a full list only before its last place. A full list that loses
a thing is searched again. Dissimilarities are the same in both directions, see `clustering.vectors.dot`.

Few new things join the others in one pass: each thing is scored with every new one, for the lists of both. This takes
less than an index of all things, and one product of vectors instead of two. Sparse scores are exact, and dense ones
bound those that are computed exactly.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .arrays import Bools, Floats, Ids, Weights
from .dense_search import product_rounding
from .index import Index
from .kernels import kernel
from .knn import Neighbors, merged, nearest
from .progress import Progress, in_parallel, silent
from .search import offer
from .vectors import Csr, Metric, Owners, Vectors, csr, dissimilarity, dot, lengths, offset_of, unit

FEW, _FEW_SHARE = 4096, 16
"""Up to this number, or one for this number of things, new things are joined to the others in a pass over all."""
_SCORES = 1 << 20  # scores in memory at once, of each worker
_ROUNDING = 2e-6  # more than what counts as 1 in `clustering.vectors.dissimilarity`, and than float32 changes a limit


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

    The lists are those of a search from scratch, with as many places as before. It takes a pass over all things with
    the new ones, or a search from scratch if many are new; and a search of the things whose full list lost one.

    ``lists`` come from `nearest` or this function, with the same limit ``within`` and ``metric``; ``find`` searches as
    `nearest` does. ``things`` are all that are there now, with one vector each. If at most `FEW` are new, things that
    are beyond ``within`` from each of these, and from each whose full list lost one, may have none. ``row`` is the row
    of each thing in ``lists``, (things,), or -1 for a new thing; rows ascend.

    >>> points = Vectors.of([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> some = points.taken(np.array([0, 2]))
    >>> lists = nearest(some, some, 1, self_ids=np.arange(2))
    >>> updated(lists, points, np.array([0, -1, 1])).ids.ravel().tolist()
    [1, 0, 1]
    """
    old, new = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
    k = lists.ids.shape[1]
    result = Neighbors.empty(things.n, k)
    if not k:
        return result
    place = np.full(len(lists.ids), -1)
    place[row[old]] = old
    how: Any = {"metric": metric, "within": within, "progress": progress}
    if len(new) > max(FEW, things.n // _FEW_SHARE):
        return find(things, things, k, **how, self_ids=np.arange(things.n))
    earlier = renumbered(lists.of(row[old]), place)
    torn = old[(lists.ids[row[old], -1] >= 0) & (earlier.ids[:, -1] < 0)]
    result.ids[old], result.dissimilarity[old] = earlier
    if len(new):
        _join(result, things, new, np.inf if within is None else within, metric, progress)
    if len(torn):
        result.ids[torn], result.dissimilarity[torn] = find(things.taken(torn), things, k, **how, self_ids=torn)
    return result


def renumbered(lists: Neighbors, number: Ids) -> Neighbors:
    """Return lists with the number of each thing instead of its id, in the same order; -1 leaves a thing out."""
    ids = np.append(number, -1).astype(np.int32)[lists.ids]  # -1 stays
    torn = np.flatnonzero(((ids < 0) & (lists.ids >= 0)).any(axis=1))
    dissimilarity = np.where(ids >= 0, lists.dissimilarity, np.float32(np.inf))
    order = np.argsort(ids[torn] < 0, axis=1, kind="stable")
    for array in (ids, dissimilarity):
        array[torn] = np.take_along_axis(array[torn], order, axis=1)
    return Neighbors(ids, dissimilarity)


def _join(lists: Neighbors, things: Vectors, new: Ids, within: float, metric: Metric, progress: Progress) -> None:
    """Enter the ``new`` things, ascending ids, into the lists of all, and fill their own empty lists, in place."""
    used, row = np.unique(things.row, return_inverse=True)
    owners = Owners.of(row, things.owner, len(used))
    index = Index.of(things.taken(new), metric)
    none = np.empty((0, 0), np.float32)
    nothing = Csr(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
    new_rows = none if isinstance(index.matrix, Csr) else index.matrix
    is_new = np.zeros(things.n, np.bool_)
    is_new[new] = True
    n_rows = len(index.owners.start) - 1
    step = max(1, _SCORES // max(1, n_rows))
    workers = min(os.cpu_count() or 1, -(-len(used) // step))

    def search(worker: int) -> Neighbors:
        new_lists, reach = lists.of(new), np.full(n_rows, np.float32(np.inf))
        for begin in range(worker * step, len(used), workers * step):
            rows: Any = unit(things.matrix[used[begin : begin + step]], metric)
            slack = 4e-7 * lengths(rows) * index.longest + _ROUNDING
            if sp.issparse(rows):
                scored = np.zeros((1, n_rows)), none, csr(rows), index.postings
            else:
                slack += product_rounding(rows, index.longest)
                scored = rows @ new_rows.T, rows, nothing, nothing
            how = np.float32(within), offset_of(metric)
            _enter(*scored, slack, begin, new_rows, new, index.owners, owners, is_new, lists, new_lists, reach, *how)
        return new_lists

    parts = in_parallel(search, range(workers), progress=progress)
    lists.ids[new], lists.dissimilarity[new] = merged(parts, lists.ids.shape[1])


@kernel
def _enter(
    scores: Any,
    dense: Floats,
    sparse: Csr,
    postings: Csr,
    slack: Weights,
    first: int,
    new_rows: Floats,
    new: Ids,
    new_owners: Owners,
    owners: Owners,
    is_new: Bools,
    lists: Neighbors,
    new_lists: Neighbors,
    reach: Floats,
    within: np.float32,
    offset: float,
) -> None:
    """Offer the things of rows from ``first`` on to the new things, and the new things to those that are not new.

    ``scores`` are those of dense rows; those of sparse ones are summed here, in the order of the features.
    ``new_rows`` are the dense vectors of the new things, ``new`` their ids, ``new_owners`` their places. ``reach`` is
    the largest dissimilarity in the lists of a new row's things.
    """
    every, near = np.arange(scores.shape[1]), np.arange(scores.shape[1])
    seen, n_near, row = np.full(len(near), -1), len(near), 0
    far = np.flatnonzero(np.minimum(reach, within) + slack.max() >= offset)  # may be near without a common feature
    for r in range(len(slack)):
        things = owners.by_row[owners.start[first + r] : owners.start[first + r + 1]]
        farthest = -np.float32(np.inf)
        for thing in things:
            if not is_new[thing]:
                farthest = max(farthest, lists.dissimilarity[thing, -1])
        if len(dense):
            row = r
        else:
            n_near = 0
            for i in range(sparse.indptr[r], sparse.indptr[r + 1]):
                feature, weight = sparse.indices[i], np.float64(sparse.data[i])
                for p in range(postings.indptr[feature], postings.indptr[feature + 1]):
                    j = postings.indices[p]
                    if seen[j] != r:
                        near[n_near], seen[j], scores[0, j] = j, r, 0
                        n_near += 1
                    scores[0, j] += weight * np.float64(postings.data[p])
            for j in every if min(farthest, within) + slack[r] >= offset else far:
                if seen[j] != r:
                    near[n_near], scores[0, j] = j, 0
                    n_near += 1
        for j in near[:n_near]:
            limit = min(max(farthest, reach[j]), within)
            if scores[row, j] + slack[r] < offset - limit:
                continue
            score = np.float64(scores[row, j]) if len(dense) == 0 else dot(dense[r], new_rows[j])
            value = dissimilarity(score, offset)
            if value > limit:
                continue
            reach[j] = -np.float32(np.inf)
            for place in new_owners.by_row[new_owners.start[j] : new_owners.start[j + 1]]:
                other = new[place]
                for thing in things:
                    if thing != other:
                        offer(new_lists.ids[place], new_lists.dissimilarity[place], thing, value, False)
                        if not is_new[thing]:
                            offer(lists.ids[thing], lists.dissimilarity[thing], other, value, False)
                reach[j] = max(reach[j], new_lists.dissimilarity[place, -1])
