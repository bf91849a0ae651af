"""Parts of all searches, dense and sparse.

A shortlist contains the nearest things offered so far, without repetition, sorted by (dissimilarity, id). It consists
of two arrays of the same length; empty places have -1 and infinity. The order of the offers does not matter.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .arrays import Floats, Ids
from .kernels import kernel
from .vectors import Owners, dissimilarity, dot


class Lists(NamedTuple):
    """The shortlists of queries."""

    ids: Ids  # (queries, k)
    dissimilarity: Floats  # (queries, k)
    limit: Floats  # (queries,) the largest dissimilarity to list; a search may skip things beyond it


class Search(NamedTuple):
    """A function that fills the shortlists of a chunk of queries, and the sizes of chunks."""

    fill: Callable[[Any, Lists], None]  # ``fill(vectors, lists)``; the lists are empty
    chunk: int  # number of queries in a chunk
    workers: int  # number of chunks at the same time


@kernel
def score_found(vectors: Floats, matrix: Floats, found: Ids, owners: Owners, offset: float, lists: Lists) -> None:
    """Offer each query the owners of its found rows (distinct, or -1)."""
    for q in range(len(vectors)):
        ids, values = lists.ids[q], lists.dissimilarity[q]
        for row in found[q]:
            if row >= 0:
                offer_all(ids, values, owners, row, dissimilarity(dot(vectors[q], matrix[row]), offset), owners.several)


@kernel
def refuses(ids: Ids, dissimilarity: Floats, thing: int, value: np.float32) -> bool:
    """Return whether the list is full of nearer things, or of equally near things with smaller ids."""
    return bool(dissimilarity[-1] < value or (dissimilarity[-1] == value and ids[-1] <= thing))


@kernel
def offer(ids: Ids, dissimilarity: Floats, thing: int, value: np.float32, several: bool) -> None:
    """Insert a thing into a list if it is near enough; with ``several``, the nearest of its offers counts."""
    if refuses(ids, dissimilarity, thing, value):
        return
    place = len(ids) - 1
    if several:
        for i in range(len(ids)):
            if ids[i] == thing:
                if dissimilarity[i] <= value:
                    return
                place = i
                break
    while place > 0 and (dissimilarity[place - 1], ids[place - 1]) > (value, thing):
        ids[place], dissimilarity[place] = ids[place - 1], dissimilarity[place - 1]
        place -= 1
    ids[place], dissimilarity[place] = thing, value


@kernel
def offer_all(ids: Ids, dissimilarity: Floats, owners: Owners, row: int, value: np.float32, several: bool) -> None:
    """Offer the owners of a row in order, at the same dissimilarity, until no more can be taken."""
    for i in range(owners.start[row], owners.start[row + 1]):
        if refuses(ids, dissimilarity, owners.by_row[i], value):
            break
        offer(ids, dissimilarity, owners.by_row[i], value, several)
