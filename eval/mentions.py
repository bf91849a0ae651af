"""Check that lists of mention ids are a partition, and match them."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .arrays import IntArray

Clusters: TypeAlias = Iterable[Iterable[Hashable]]

_COLLECTIONS = (list, tuple, set, frozenset)


class Matched(NamedTuple):
    """The clusters of the mentions on both sides, and the sizes of all clusters.

    `row` and `column` have one entry for each shared mention: its cluster in the key and in the response.
    """

    row: IntArray
    column: IntArray
    row_size: IntArray
    column_size: IntArray


def match_mentions(key: Clusters, response: Clusters) -> Matched:
    """Find each mention on the other side; refuse repeated mentions, and leave out empty clusters.

    Raise ValueError if a mention occurs twice on a side, in one cluster or in two, or its id is NaN, and TypeError if a
    cluster is a string or not iterable, or a mention id cannot be hashed.

    >>> match_mentions([["a", "b"], [], ["c"]], [["c", "d", "a"]])
    Matched(row=array([1, 0]), column=array([0, 0]), row_size=array([2, 1]), column_size=array([3]))
    """
    number: defaultdict[Hashable, int] = defaultdict()
    number.default_factory = number.__len__  # a new mention gets the next number
    sizes, numbers = [], []
    for clusters, side in ((key, "key"), (response, "response")):
        members = _members(clusters, side)
        size = np.fromiter(map(len, members), np.int64, len(members))
        numbers.append(_numbered(members, number, int(size.sum()), side))
        sizes.append(size[size > 0])
    row, column = (np.repeat(np.arange(len(size)), size) for size in sizes)
    shared = np.flatnonzero(numbers[1] < len(row))  # mentions of the key have the first numbers, in their order
    return Matched(row[numbers[1][shared]], column[shared], *sizes)


def _numbered(
    members: list[Collection[Hashable]], number: defaultdict[Hashable, int], n_mentions: int, side: str
) -> IntArray:
    """Return the number of each mention of all clusters, and add those of new mentions."""
    n_before = len(number)
    try:
        found = np.fromiter(map(number.__getitem__, chain.from_iterable(members)), np.int64, n_mentions)
        is_sound = all(mention == mention for mention in islice(number, n_before, None))  # NaN equals nothing
    except (TypeError, ValueError):
        raise _fault(members, side) from None
    if not is_sound or np.bincount(found).max(initial=0) > 1:
        raise _fault(members, side)
    return found


def _members(clusters: Clusters, side: str) -> list[Collection[Hashable]]:
    if isinstance(clusters, Mapping):
        mend = "for clusters by document use coreference_by_document"
        raise TypeError(f"{side} is of type {type(clusters).__name__}, not a list of clusters; {mend}")
    if clusters is None or isinstance(clusters, str | bytes):
        raise TypeError(f"{side} is of type {type(clusters).__name__}, not a list of clusters")
    # Not copied if possible, since a million mentions can be in a million clusters.
    return [
        cluster if isinstance(cluster, _COLLECTIONS) else _listed(cluster, side, i)
        for i, cluster in enumerate(clusters)
    ]


def _listed(cluster: Any, side: str, i: int) -> list[Hashable]:
    if isinstance(cluster, str | bytes):
        raise TypeError(f"{side}[{i}] is {cluster!r}, a string, not a cluster: write [{cluster!r}]")
    if isinstance(cluster, np.ndarray):
        cluster = cluster.tolist()
    try:
        return list(cluster)
    except TypeError:
        raise TypeError(f"{side}[{i}] is {cluster!r}, not a cluster (an iterable of mention ids)") from None


def _fault(members: list[Collection[Hashable]], side: str) -> ValueError | TypeError:
    for i, cluster in enumerate(members):
        for mention in cluster:
            try:
                hash(mention)
            except TypeError:
                kind = type(mention).__name__
                mend = "give tuples" if kind == "list" else "give strings, numbers or tuples of these"
                return TypeError(f"{side}[{i}] holds {mention!r}, a {kind}, which cannot be hashed; {mend}")
    first: dict[Hashable, int] = {}
    for i, cluster in enumerate(members):
        for mention in cluster:
            if mention in first:
                where = f"clusters {first[mention]} and {i}" if first[mention] != i else f"cluster {i}"
                return ValueError(f"mention {mention!r} is twice in the {side}: in {where} (from 0); remove one")
            first[mention] = i
    return ValueError(f"{side} has a mention whose id is NaN, which does not equal itself; give it another id")
