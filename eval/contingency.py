"""The contingency table of two clusterings: how many mentions their clusters share.

Every clustering and coreference metric is a function of this sparse table.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Self, TypeAlias

import numpy as np

from .arrays import BoolArray, Brief, IntArray, Labels, encode_labels

Clusters: TypeAlias = Iterable[Iterable[Hashable]]

_COLLECTIONS = (list, tuple, set, frozenset)


@dataclass(frozen=True, eq=False, repr=False)
class Contingency(Brief):
    """The cells ``|K_i & R_j| > 0`` of two clusterings ``K`` (rows) and ``R`` (columns), and their sizes.

    A size counts every mention of its cluster, including mentions that are missing on the other side, so the sum of a
    row's cells is at most its size. Only nonzero cells are stored, never a clusters x clusters matrix.

    The tables of many samples of one collection are one table, see `of_samples`: its counts and sizes have the shapes
    (samples, cells) and (samples, clusters), and may be zero. Metrics then have an array of counts for each count.
    """

    row: IntArray  # (cells,) cluster of ``K``
    column: IntArray  # (cells,) cluster of ``R``
    count: IntArray  # (cells,) number of shared mentions; no cell is repeated or zero, and their order does not matter
    row_size: IntArray  # (clusters of ``K``,) mentions in each, at least 1
    column_size: IntArray  # (clusters of ``R``,) mentions in each, at least 1

    @classmethod
    def from_labels(cls, labels_true: Labels, labels_pred: Labels) -> Self:
        """Count two labellings of the same items, one label per item on each side; O(n log n).

        Raise ValueError if the lengths differ, and the errors of `encode_labels`.

        >>> table = Contingency.from_labels([0, 0, 1], ["x", "y", "y"])
        >>> table.row, table.column, table.count
        (array([0, 0, 1]), array([0, 1, 1]), array([1, 1, 1]))
        """
        true, pred = encode_labels(labels_true, name="labels_true"), encode_labels(labels_pred, name="labels_pred")
        if len(true) != len(pred):
            lengths = f"labels_true has length {len(true)}, but labels_pred has {len(pred)}"
            raise ValueError(f"{lengths}; give both for each item")
        sizes = np.bincount(true), np.bincount(pred)
        return cls(*_count_cells(true, pred, len(sizes[1])), *sizes)

    @classmethod
    def from_codes(cls, true: IntArray, pred: IntArray) -> Self:
        """Count two labellings of the same items by codes from 0; -1 means that the item is on the other side only.

        >>> table = Contingency.from_codes(np.array([0, 0, -1]), np.array([5, -1, 5]))
        >>> table.count, table.row_size, table.column_size
        (array([1]), array([2]), array([2]))
        """
        size = [np.bincount(codes + 1)[1:] for codes in (true, pred)]
        number = [np.append(np.cumsum(sizes > 0) - 1, -1) for sizes in size]  # code -1 has the last place
        row, column = number[0][true], number[1][pred]
        both = (row >= 0) & (column >= 0)
        row_size, column_size = (sizes[sizes > 0] for sizes in size)
        return cls(*_count_cells(row[both], column[both], len(column_size)), row_size=row_size, column_size=column_size)

    @classmethod
    def of_samples(cls, true: IntArray, pred: IntArray, document: IntArray) -> Callable[[BoolArray], Self]:
        """Return what counts samples of the documents, a mask of shape (samples, documents); codes as in `from_codes`.

        >>> labels, halves = np.array([0, 0, 1]), np.array([[True, False], [False, True]])
        >>> Contingency.of_samples(labels, labels, np.array([0, 1, 1]))(halves).count
        array([[1, 0],
               [1, 1]])
        """
        n, width = int(document.max(initial=-1)) + 1, max(int(pred.max(initial=-1)) + 1, 1)

        def sizes(of: IntArray) -> tuple[IntArray, Callable[[BoolArray], IntArray]]:
            """Return the distinct codes but -1, and what counts the drawn mentions of each."""
            there = of >= 0
            places, times = np.unique(of[there] * np.int64(n) + document[there], return_counts=True)
            codes, first = np.unique(places // n, return_index=True)
            return codes, lambda drawn: np.add.reduceat(drawn[:, places % n] * times, first, axis=1)

        cells, count = sizes(np.where((true >= 0) & (pred >= 0), true * np.int64(width) + pred, -1))
        (rows, row_size), (columns, column_size) = sizes(true), sizes(pred)
        ends = np.searchsorted(rows, cells // width), np.searchsorted(columns, cells % width)
        return lambda drawn: cls(*ends, count(drawn), row_size(drawn), column_size(drawn))

    @classmethod
    def from_clusters(cls, key: Clusters, response: Clusters) -> Self:
        """Count two lists of clusters, whose mentions may differ; empty clusters are left out.

        Raise ValueError if a mention occurs twice on a side, in one cluster or in two, or its id is NaN, and TypeError
        if a cluster is a string or not iterable, or a mention id cannot be hashed.

        >>> table = Contingency.from_clusters([["a", "b", "c"]], [["b", "c"], ["d"]])
        >>> table.count, table.row_size, table.column_size
        (array([2]), array([3]), array([2, 1]))
        """
        number: defaultdict[Hashable, int] = defaultdict()
        number.default_factory = number.__len__  # a new mention gets the next number
        sizes, numbers = [], []
        for clusters, side in ((key, "key"), (response, "response")):
            members = _members(clusters, side)
            size = np.fromiter(map(len, members), np.int64, len(members))
            n_before = len(number)
            of_side = np.fromiter(map(number.__getitem__, chain.from_iterable(members)), np.int64, int(size.sum()))
            is_sound = all(mention == mention for mention in islice(number, n_before, None))  # NaN equals nothing
            if not is_sound or np.bincount(of_side).max(initial=0) > 1:
                raise _fault(members, side)
            numbers.append(of_side)
            sizes.append(size[size > 0])
        row, column = (np.repeat(np.arange(len(size)), size) for size in sizes)
        shared = np.flatnonzero(numbers[1] < len(row))  # mentions of the key have the first numbers, in their order
        cells = _count_cells(row[numbers[1][shared]], column[shared], len(sizes[1]))
        return cls(*cells, row_size=sizes[0], column_size=sizes[1])

    @property
    def transposed(self) -> "Contingency":
        """The same table with the sides exchanged; its recall is the precision of this table."""
        return Contingency(self.column, self.row, self.count, self.column_size, self.row_size)

    @property
    def n_shared(self) -> int:
        """Number of mentions on both sides."""
        return total(self.count)  # type: ignore[no-any-return]


def _count_cells(row: IntArray, column: IntArray, n_columns: int) -> tuple[IntArray, IntArray, IntArray]:
    code, count = np.unique(row * np.int64(n_columns) + column, return_counts=True)
    cell_row = code // max(n_columns, 1)
    return cell_row, code - cell_row * n_columns, count


def total(values: Any) -> Any:
    """Return the sum over cells or clusters: a number or, of many samples, an array."""
    sums = values.sum(axis=-1)
    return sums if sums.ndim else sums.item()


def n_pairs(sizes: IntArray) -> int:
    """Return the exact number of unordered pairs inside clusters of these sizes."""
    return total(sizes * (sizes - 1) // 2)  # type: ignore[no-any-return]


def _members(clusters: Clusters, side: str) -> list[Collection[Hashable]]:
    if clusters is None or isinstance(clusters, str | bytes | Mapping):
        raise TypeError(f"{side} is of type {type(clusters).__name__}, not a list of clusters")
    members: list[Collection[Hashable]] = []
    for i, cluster in enumerate(clusters):
        if isinstance(cluster, str | bytes) or not isinstance(cluster, Iterable):
            raise TypeError(f"{side}[{i}] is {cluster!r}, not a cluster: give a list of mention ids")
        # Not copied if possible, since a million mentions can be in a million clusters.
        members.append(cluster if isinstance(cluster, _COLLECTIONS) else list(cluster))
    return members


def _fault(members: list[Collection[Hashable]], side: str) -> ValueError:
    """Return the error that names the first repeated mention of a side; without one, a mention is NaN."""
    first: dict[Hashable, int] = {}
    for i, cluster in enumerate(members):
        for mention in cluster:
            if mention in first:
                where = f"clusters {first[mention]} and {i}" if first[mention] != i else f"cluster {i}"
                return ValueError(f"mention {mention!r} is twice in the {side}: in {where} (from 0); remove one")
            first[mention] = i
    return ValueError(f"{side} has a mention whose id is NaN, which does not equal itself; give it another id")
