"""The vectors of things: one for each mention, and one or several (one for each name) for each entity."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .arrays import Floats, Ids, Weights, pairs_of
from .kernels import kernel
from .methods import METRICS as METRICS, Metric as Metric

Matrix: TypeAlias = Floats | sp.csr_array


@dataclass(frozen=True, eq=False, slots=True)
class Vectors:
    """``n`` things (mentions or entities) and their vectors; things can share a vector.

    The vector in row ``row[i]`` of the matrix belongs to thing ``owner[i]``, in the order of owners. Make one with
    `of`, or from a matrix of distinct vectors.
    """

    matrix: Matrix  # (rows, dim) float32, dense or sparse
    row: Ids
    owner: Ids
    n: int

    def __len__(self) -> int:
        return self.n

    @classmethod
    def of(cls, matrix: Any, owner: npt.ArrayLike | None = None, *, n: int | None = None) -> Self:
        """Make vectors from a copy of a (rows, dim) array or sparse matrix; row ``i`` is that of thing ``owner[i]``.

        By default, ``owner[i]`` is ``i``. Equal rows of a dense array are stored and searched once. ``n`` is the number
        of things (default: up to the last owner); some may have no vector. Raise ValueError if the array is not
        two-dimensional or not numeric, owners are out of range, or a row contains NaN, infinity or a number too large
        for float32, or a dense one only numbers too small for it; the message names such rows.
        """
        rows, place = _sparse(matrix) if sp.issparse(matrix) else _dense(matrix)
        owners = np.arange(len(place)) if owner is None else np.asarray(owner)
        if owners.shape != place.shape:
            raise ValueError(f"owner has shape {owners.shape}; give one owner for each of the {len(place)} vectors")
        if owners.size and owners.dtype.kind not in "iu":
            raise ValueError(f"owners must be integers, not {owners.dtype}")
        n_things = n if n is not None else int(owners.max(initial=-1)) + 1
        if len(owners) and not 0 <= owners.min() <= owners.max() < n_things:
            raise ValueError(f"owners must lie in 0 .. {n_things - 1}, not {owners.min()} .. {owners.max()}")
        order = np.argsort(owners, kind="stable")
        return cls(rows, place[order].astype(np.int32), owners[order].astype(np.int32), n_things)

    def taken(self, things: Ids) -> Self:
        """Return only these things with their vectors, renumbered in this order."""
        if np.array_equal(things, np.arange(self.n)):
            return self
        pair, owner = pairs_of(self.owner, things)
        used, row = np.unique(self.row[pair], return_inverse=True)
        return type(self)(self.matrix[used], row.astype(np.int32), owner, len(things))


class Owners(NamedTuple):
    """The things to which the rows of a matrix belong."""

    row: Ids  # pair ``i`` means that ``row[i]`` belongs to ``owner[i]``; in the order of owners
    owner: Ids
    start: Ids  # ``by_row[start[r] : start[r + 1]]`` are the owners of row ``r``, in order
    by_row: Ids
    several: bool  # whether any thing has several vectors

    @classmethod
    def of(cls, row: Ids, owner: Ids, n_rows: int) -> Self:
        """Return the owners of ``n_rows`` rows from pairs in the order of owners."""
        start = np.append(0, np.cumsum(np.bincount(row, minlength=n_rows)))
        by_row = owner[np.argsort(row, kind="stable")]
        return cls(row.astype(np.int32, copy=False), owner, start, by_row, bool((owner[1:] == owner[:-1]).any()))


def unit(matrix: Matrix, metric: Metric = "cosine") -> Matrix:
    """Scale every row to length 1 for cosine, in a fixed order of summation; zero rows are kept."""
    if metric != "cosine":
        return matrix
    starts, data = _values(matrix)
    scaled = _scaled(starts, data)
    if isinstance(matrix, np.ndarray):
        return scaled.reshape(matrix.shape)
    return sp.csr_array((scaled, matrix.indices, matrix.indptr), matrix.shape)


def lengths(matrix: Matrix) -> Weights:
    """Return the length of each row; (rows,) float64."""
    return _lengths(*_values(matrix))


def _values(matrix: Matrix) -> tuple[Ids, Floats]:
    """Return where each row begins among the values, and the values."""
    if isinstance(matrix, np.ndarray):
        return np.arange(len(matrix) + 1) * matrix.shape[1], matrix.ravel()
    return matrix.indptr, matrix.data


@kernel
def dot(a: Floats, b: Floats) -> float:
    """Compute the inner product in float64, summed in the order of the dimensions.

    Products of two float32 are exact in float64, so a machine that fuses them with the sum gets the same result.
    """
    total = 0.0
    for j in range(len(a)):
        total += np.float64(a[j]) * np.float64(b[j])
    return total


@kernel
def _lengths(indptr: Ids, data: Floats) -> Weights:
    length = np.empty(len(indptr) - 1, np.float64)
    for i in range(len(length)):
        values = data[indptr[i] : indptr[i + 1]]
        length[i] = np.sqrt(dot(values, values))
    return length


@kernel
def _scaled(indptr: Ids, data: Floats) -> Floats:
    scaled, length = np.empty(len(data), np.float32), _lengths(indptr, data)
    for i in range(len(length)):
        divisor = length[i] if length[i] > 0 else 1.0
        for j in range(indptr[i], indptr[i + 1]):
            scaled[j] = np.float32(np.float64(data[j]) / divisor)
    return scaled


def _dense(matrix: Any) -> tuple[Floats, Ids]:
    """Copy distinct rows as float32 in order of first appearance; also return the place of each given row in them."""
    array, kind = np.asarray(matrix), "masked" if np.ma.is_masked(matrix) else str(np.asarray(matrix).dtype)
    if array.ndim != 2 or array.dtype.kind not in "iuf" or kind == "masked":
        raise ValueError(f"vectors must be a (rows, dim) array of numbers, not {kind} of shape {array.shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        dense = np.array(array, np.float32, order="C")
        total = dense.sum(axis=1, dtype=np.float64)  # which no finite numbers make infinite
    empty = np.flatnonzero(~dense.any(axis=1))
    _refuse(np.union1d(np.flatnonzero(~np.isfinite(total)), empty[array[empty].any(axis=1)]))
    dense += np.float32(0)  # -0 becomes 0, so that equal rows have equal bits
    number = dict[bytes, int]()
    digests = (blake2b(row.data, digest_size=16).digest() for row in dense)
    place = np.fromiter((number.setdefault(digest, len(number)) for digest in digests), np.int32, len(dense))
    return dense[np.unique(place, return_index=True)[1]] if len(number) < len(dense) else dense, place


def _sparse(matrix: Any) -> tuple[sp.csr_array, Ids]:
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        raise ValueError(f"vectors must be a (rows, dim) matrix of numbers, not {matrix.dtype} of shape {matrix.shape}")
    with np.errstate(over="ignore"):
        rows = sp.csr_array(matrix, dtype=np.float32, copy=True)
    rows.check_format(full_check=True)
    with np.errstate(over="ignore", invalid="ignore"):
        rows.sum_duplicates()
    _refuse(np.unique(np.searchsorted(rows.indptr, np.flatnonzero(~np.isfinite(rows.data)), side="right") - 1))
    return rows, np.arange(rows.shape[0])


def _refuse(rows: Ids) -> None:
    if len(rows) > 0:
        shown = ", ".join(map(str, rows[:10].tolist())) + (", ..." if len(rows) > 10 else "")
        what = "NaN, infinity or a number too large or too small for float32"
        raise ValueError(f"{what} in {len(rows)} row(s): {shown} (from 0)")


def offset_of(metric: Metric) -> float:
    """Return the value from which the product is subtracted: 1 for cosines of unit vectors, 0 for inner products."""
    return 1.0 if metric == "cosine" else 0.0


@kernel
def dissimilarity(product: float, offset: float) -> np.float32:
    """Return offset minus product; a cosine that differs from 1 only by rounding counts as 1.

    The result never increases with the product, so a bound on the product bounds the rounded dissimilarity.
    """
    w = offset - product
    return np.float32(0.0 if offset == 1.0 and abs(w) < 1e-6 else w)


@kernel
def dissimilarities(product: Weights, offset: float) -> Floats:
    """Apply `dissimilarity` to each product."""
    values = np.empty(len(product), np.float32)
    for p in range(len(product)):
        values[p] = dissimilarity(product[p], offset)
    return values


@kernel
def dense_products(a: Floats, b: Floats, rows_a: Ids, rows_b: Ids) -> Weights:
    """Return the inner products of row ``rows_a[p]`` of a and row ``rows_b[p]`` of b."""
    product = np.empty(len(rows_a), np.float64)
    for p in range(len(rows_a)):
        product[p] = dot(a[rows_a[p]], b[rows_b[p]])
    return product


class Csr(NamedTuple):
    """A sparse matrix for kernels, with sorted column indices."""

    indptr: Ids
    indices: Ids
    data: Floats


def csr(matrix: Any) -> Csr:
    """Return the arrays of a sparse matrix, without changing it."""
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return Csr(matrix.indptr.astype(np.int64, copy=False), matrix.indices, matrix.data)


@kernel
def sparse_products(a: Csr, b: Csr, rows_a: Ids, rows_b: Ids) -> Weights:
    """Return the inner products of sparse rows, as `dense_products` does; sums are in the order of the indices."""
    product = np.zeros(len(rows_a), np.float64)
    for p in range(len(rows_a)):
        i, j = a.indptr[rows_a[p]], b.indptr[rows_b[p]]
        while i < a.indptr[rows_a[p] + 1] and j < b.indptr[rows_b[p] + 1]:
            if a.indices[i] == b.indices[j]:
                product[p] += np.float64(a.data[i]) * np.float64(b.data[j])
            step = a.indices[i] - b.indices[j]
            i += step <= 0
            j += step >= 0
    return product
