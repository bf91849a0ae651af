"""The array types of the engine."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.signedinteger[Any]]  # node or edge ids: int32 if they fit, otherwise int64

Weights: TypeAlias = npt.NDArray[np.floating[Any]]  # dissimilarities, float32 or float64; smaller is closer

Floats: TypeAlias = npt.NDArray[np.float32]  # vectors and their scores

Bools: TypeAlias = npt.NDArray[np.bool_]

Threshold: TypeAlias = float | tuple[float, float] | None
"""Largest dissimilarity to keep: of all edges, or a pair (entity edges, mention edges); None keeps all."""


class Edges(NamedTuple):
    """Edges as three arrays of the same length."""

    source: Ids
    target: Ids
    weight: Weights

    def take(self, which: Ids | Bools | slice) -> "Edges":
        """Return the edges at these indices or in this mask."""
        return Edges(self.source[which], self.target[which], self.weight[which])


def concatenated(parts: Sequence[Edges]) -> Edges:
    """Join lists of edges into one."""
    return Edges(*map(np.concatenate, zip(*parts, strict=True)))


def ranges(begin: Ids, count: Ids) -> Ids:
    """Concatenate the ranges ``begin[i] .. begin[i] + count[i] - 1``.

    >>> ranges(np.array([7, 0, 3]), np.array([2, 0, 3])).tolist()
    [7, 8, 3, 4, 5]
    """
    return np.asarray(np.arange(count.sum()) + np.repeat(begin - (np.cumsum(count) - count), count))


def sorted_unique(numbers: Ids) -> Ids:
    """Return the different numbers in ascending order; `np.unique` hashes integers, which takes seven times as long."""
    ascending: Ids = np.sort(numbers)
    return np.asarray(ascending[np.diff(ascending, prepend=ascending[:1] - 1) != 0])


def pairs_of(owner: Ids, things: Ids) -> tuple[Ids, Ids]:
    """Return the places of all ``things`` in the ascending ``owner``, and the index in ``things`` of each place.

    >>> [array.tolist() for array in pairs_of(np.array([0, 0, 2, 2, 5]), np.array([2, 1, 0]))]
    [[2, 3, 0, 1], [0, 0, 2, 2]]
    """
    begin, end = (np.searchsorted(owner, things, side) for side in ("left", "right"))
    return ranges(begin, end - begin), np.repeat(np.arange(len(things), dtype=np.int32), end - begin)


def id_dtype(largest: int) -> type[np.signedinteger[Any]]:
    """Return the smallest id type that can hold ``largest``."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64
