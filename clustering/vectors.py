"""The vectors of things: mentions with one vector each, entities with one or several (one a name)."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from clustering.arrays import Ids

Metric = Literal["cosine", "dot"]
"""Dissimilarity ``1 - cosine``, or minus the inner product."""

Matrix = npt.NDArray[np.float32] | sp.csr_array


@dataclass(frozen=True, eq=False, slots=True)
class Vectors:
    """``n`` things and their vectors; things that share a vector share its row.

    Pair ``i`` says that the vector in row ``row[i]`` of the matrix belongs to thing ``owner[i]``. Pairs are in the
    order of their owners. Make one with `of`, or from a matrix of distinct vectors.
    """

    matrix: Matrix
    """(rows, dim) float32, dense or sparse."""
    row: Ids
    owner: Ids
    n: int

    def __len__(self) -> int:
        return self.n

    @classmethod
    def of(cls, matrix: Any, owner: npt.ArrayLike | None = None, *, n: int | None = None) -> Self:
        """Take a (rows, dim) array or sparse matrix; row ``i`` belongs to thing ``owner[i]`` (default: ``i``).

        Equal rows of a dense array are stored once: the search then scores them alike, whatever its batches.

        Raises:
            ValueError: not two-dimensional, not numeric, or NaN or infinity in some rows, which are named.

        """
        if sp.issparse(matrix):
            rows = sp.csr_array(matrix, dtype=np.float32)
            rows.sum_duplicates()
            _check_finite(rows.data, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)))
            place = np.arange(rows.shape[0])
        else:
            given = np.asarray(matrix)
            if given.ndim != 2 or given.dtype.kind not in "iuf":
                raise ValueError(f"vectors must be a (rows, dim) array of numbers, not {given.dtype} {given.shape}")
            with np.errstate(over="ignore"):
                dense = np.ascontiguousarray(given, np.float32)
            _check_finite(dense, None)
            rows, place = _distinct(dense + np.float32(0))
        owners = np.arange(len(place)) if owner is None else np.asarray(owner)
        if owners.shape != (len(place),):
            raise ValueError(f"{len(place)} vectors, but owners of shape {owners.shape}")
        order = np.argsort(owners, kind="stable")
        n_things = n if n is not None else int(owners.max(initial=-1)) + 1
        return cls(rows, place[order].astype(np.int32), owners[order].astype(np.int32), n_things)

    def slice(self, begin: int, end: int) -> Self:
        """Things ``begin .. end - 1`` alone, counted from 0; the matrix is shared."""
        low, high = np.searchsorted(self.owner, [begin, end])
        return type(self)(self.matrix, self.row[low:high], self.owner[low:high] - begin, end - begin)

    def normalized(self) -> Self:
        """Scale every vector to length 1; a vector of zeros stays, so that its cosine with any other is 0."""
        if isinstance(self.matrix, np.ndarray):
            lengths = np.sqrt(np.einsum("ij,ij->i", self.matrix, self.matrix, dtype=np.float64))
            scale = 1 / np.where(lengths > 0, lengths, 1)
            return type(self)((self.matrix * scale[:, None]).astype(np.float32), self.row, self.owner, self.n)
        squares = self.matrix.astype(np.float64).power(2).sum(axis=1)
        scale = 1 / np.sqrt(np.where(squares > 0, squares, 1))
        matrix = self.matrix.copy()
        matrix.data = (matrix.data * np.repeat(scale, np.diff(matrix.indptr))).astype(np.float32)
        return type(self)(matrix, self.row, self.owner, self.n)


def _distinct(dense: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], Ids]:
    """Return the distinct rows in order of first appearance, and the place of each given row among them."""
    if dense.shape[1] == 0 or len(dense) < 2:
        return dense, np.arange(len(dense))
    as_bytes = dense.view(np.dtype((np.void, dense.shape[1] * dense.itemsize))).ravel()
    _, first, inverse = np.unique(as_bytes, return_index=True, return_inverse=True)
    if len(first) == len(dense):
        return dense, np.arange(len(dense))
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return dense[np.sort(first)], rank[inverse]


def _check_finite(values: npt.NDArray[np.float32], row: Ids | None) -> None:
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    rows = np.unique(row[bad]) if row is not None else np.flatnonzero(bad.any(axis=1))
    shown = ", ".join(map(str, rows[:10].tolist())) + (", ..." if len(rows) > 10 else "")
    raise ValueError(f"NaN or infinity in {len(rows)} vector(s): row {shown}")
