"""An index: the vectors of things, prepared once for any number of searches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .arrays import Floats, Ids
from .dense_search import Scan, Scanner, dense_search
from .prefix_search import FEW_ROWS, MOST_FEATURES, MOST_WITHIN, QUERIES_SHARE, Prefixes, search_prefixes
from .search import Search
from .sparse_search import GROUPS, ROWS_PER_PLACE, Bounds, Corpus, alike_together, search_bounded, sparse_search
from .vectors import Csr, Metric, Owners, Vectors, csr, lengths, offset_of, unit

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class Index:
    """The vectors of ``n`` things in ``dim`` dimensions, prepared for searches; read-only.

    Each part is made when a search first needs it, and kept. Make an index with `of`, or with `from_arrays` from arrays
    that can be mapped from files, of which a search then reads only what it needs.

    >>> index = Index.of(Vectors.of([[1.0, 0.0], [0.6, 0.8]]), "cosine")
    >>> Index.from_arrays(index.arrays(), "cosine").n
    2
    """

    metric: Metric
    n: int
    dim: int
    matrix: Csr | Floats  # (rows, dim) the vectors; for cosine of length 1, but zero vectors are kept
    owners: Owners
    _scans: dict[Scanner, Scan] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, things: Vectors, metric: Metric, *, scaled: bool = False) -> Self:
        """Prepare vectors; a dense matrix is copied only to scale it, and to leave out vectors without an owner.

        With ``scaled``, they are the `vectors` of an index with this metric, and are neither scaled nor ordered again.
        """
        used, places = np.unique(things.row, return_inverse=True)
        row: Ids = places
        matrix = things.matrix if len(used) == things.matrix.shape[0] else things.matrix[used]
        if sp.issparse(matrix) and not scaled:
            order = alike_together(csr(matrix))
            place = np.empty(len(order), np.int32)
            place[order] = np.arange(len(order))
            matrix, row = matrix[order], place[row]
        matrix = matrix if scaled else unit(matrix, metric)
        owners = Owners.of(row, things.owner, matrix.shape[0])
        rows = csr(matrix) if sp.issparse(matrix) else np.ascontiguousarray(matrix)
        return cls(metric, things.n, matrix.shape[1], _fixed(rows), _fixed(owners))

    def taken(self, things: Ids) -> Self:
        """Return the index of these things alone, renumbered in this order."""
        if len(things) == self.n and np.array_equal(things, np.arange(self.n)):
            return self
        return self.of(self.vectors.taken(things), self.metric, scaled=True)

    @property
    def vectors(self) -> Vectors:
        """The vectors and their owners; for cosine of length 1."""
        return Vectors(self._scipy(), self.owners.row, self.owners.owner, self.n)

    @property
    def is_sparse(self) -> bool:
        """Whether the vectors are sparse."""
        return isinstance(self.matrix, Csr)

    @cached_property
    def longest(self) -> float:
        """The length of the longest vector; 0 if there is none."""
        return float(lengths(self._scipy()).max(initial=0))

    @cached_property
    def postings(self) -> Csr:
        """The rows that have a feature, ascending, for each feature of sparse vectors."""
        start, row, value = csr(sp.csr_array(self._scipy().T))
        return _fixed(Csr(start, row.astype(np.int32, copy=False), value))

    @cached_property
    def bounds(self) -> Bounds:
        """Bounds of the scores of sparse vectors; empty if a value is negative."""
        matrix: Any = self.matrix
        if (matrix.data < 0).any():
            return _fixed(Bounds())
        return _fixed(Bounds.of(matrix, self.postings, self.longest))

    def search(self, k: int, scanner: Scanner, *, within: float = np.inf, n_queries: int = 1) -> Search:
        """Return the search for lists of ``k`` > 0 places, none with a limit above ``within``; there must be a vector.

        For many queries within a small limit, or of short vectors, it is prepared for this limit.
        """
        offset = offset_of(self.metric)
        if isinstance(self.matrix, Csr):
            postings, longest, n_rows = self.postings, self.longest, len(self.owners.start) - 1
            is_bounded = within < np.inf or n_rows >= ROWS_PER_PLACE * k
            bounds = self.bounds if is_bounded else _fixed(Bounds())
            corpus = Corpus(self.matrix, self.owners, postings, bounds, longest, offset)
            is_short = within <= MOST_WITHIN or len(self.matrix.data) <= MOST_FEATURES * n_rows
            is_fit = is_short and self.metric == "cosine" and len(bounds.tail) > 0
            if is_fit and QUERIES_SHARE * n_queries > n_rows >= FEW_ROWS:
                prefixes = _fixed(Prefixes.of(postings, n_rows, offset - within))
                return sparse_search(corpus, partial(search_prefixes, prefixes))
            return sparse_search(corpus, search_bounded)
        if scanner not in self._scans:
            self._scans[scanner] = scanner(self.matrix)
        return dense_search(self.matrix, self.owners, self.longest, self._scans[scanner], offset, k)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all parts as named arrays, from which `from_arrays` makes an equal index."""
        parts: dict[str, Any] = {"matrix": self.matrix, "owners": self.owners[:-1]}
        if self.is_sparse:
            parts |= {"postings": self.postings, "bounds": self.bounds}
        named = {"sizes": np.array([self.n, self.dim, self.owners.several]), "longest": np.array(self.longest)}
        for name, part in parts.items():
            arrays = part if isinstance(part, tuple) else (part,)
            named |= {f"{name}.{place}": array for place, array in enumerate(arrays)}
        return named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], metric: Metric) -> Self:
        """Make an index from the `arrays` of another index, whose metric must be ``metric``.

        The vectors are not copied. Raise KeyError if an array is missing, and ValueError if they do not fit together.
        """

        def part(name: str, n: int) -> Any:
            return (_fixed(arrays[f"{name}.{place}"]) for place in range(n))

        n, dim, several = arrays["sizes"].tolist()
        row, owner, start, by_row = part("owners", 4)
        owners = Owners(row, owner, start, by_row, bool(several))
        is_sparse = any(name in arrays for name in ("matrix.1", "postings.0"))  # dense vectors have neither
        index = cls(metric, n, dim, Csr(*part("matrix", 3)) if is_sparse else next(part("matrix", 1)), owners)
        made: dict[str, Any] = {"longest": float(arrays["longest"])}
        if is_sparse:
            made |= {"postings": Csr(*part("postings", 3)), "bounds": Bounds(*part("bounds", 3))}
        if not _fits(index, made):
            raise ValueError("the parts of the index are of other sizes or types, or a number is out of range")
        vars(index).update(made)
        return index

    def _scipy(self) -> Any:
        if not isinstance(self.matrix, Csr):
            return self.matrix
        start, feature, value = self.matrix
        if start[-1] <= np.iinfo(np.int32).max:  # scipy would copy the features as int64, as wide as the starts
            start = start.astype(np.int32)
        return sp.csr_array((value, feature, start), (len(start) - 1, self.dim))


def _fits(index: Index, made: Mapping[str, Any]) -> bool:
    """Return whether the parts have the types and the sizes that kernels expect; values are not read."""
    matrix, (row, owner, start, by_row, _) = index.matrix, index.owners
    n_rows = len(start) - 1
    ids = ((row, n_rows), (owner, index.n), (by_row, index.n))
    is_owned = all(one.ndim == 1 and one.dtype.kind == "i" and is_below(one, most) for one, most in ids)
    if not is_owned or len(row) != len(owner) or not is_start(start, n_rows, len(by_row)):
        return False
    if not isinstance(matrix, Csr):
        return matrix.dtype.kind == "f" and matrix.shape == (n_rows, index.dim)
    for (first, indices, data), n, most in ((matrix, n_rows, index.dim), (made["postings"], index.dim, n_rows)):
        kinds = [(one.ndim, one.dtype.kind) for one in (indices, data)]
        if kinds != [(1, "i"), (1, "f")] or len(indices) != len(data) or not is_start(first, n, len(indices)):
            return False
        if not is_below(indices, most):
            return False
    level, tail, sketch = made["bounds"]
    if not len(tail):
        return True
    sizes = (level.shape, tail.shape[1:], sketch.shape, tail.dtype, sketch.dtype, level.dtype.kind)
    expected = ((index.dim,), (n_rows,), (n_rows, GROUPS), np.uint8, np.uint8, "i")
    return sizes == expected and is_below(level, len(tail))


def is_below(ids: Ids, most: int) -> bool:
    """Return whether all ids are at least 0 and below ``most``."""
    return not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < most)


def is_start(start: Ids, n: int, end: int) -> bool:
    """Return whether ``start`` divides so many items into ``n`` parts."""
    is_sized = start.ndim == 1 and start.dtype.kind == "i" and len(start) == n + 1
    return is_sized and start[0] == 0 and start[-1] == end and not (np.diff(start) < 0).any()


def _fixed(part: Part) -> Part:
    """Return an array, or a tuple with its arrays, as read-only views, for which kernels are compiled only once."""
    value: Any = part
    if isinstance(value, tuple):
        value = type(value)(*map(_fixed, value))
    elif isinstance(value, np.ndarray):
        value = np.asarray(value).view()
        value.flags.writeable = False
    fixed: Part = value
    return fixed
