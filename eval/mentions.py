"""Check that lists of mention ids are a partition, and match them."""

from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import chain, compress, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .arrays import IntArray

Clusters: TypeAlias = Iterable[Iterable[Hashable]]

_COLLECTIONS = (list, tuple, set, frozenset)
# A dict with only strings does not store their hashes: it visits all strings again each time it grows.
_NO_STRING = object()


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
    rows = _members(key, "key")
    position = _positions(rows, "key")
    columns = _members(response, "response")
    found = _found(columns, position, "response")
    shared = np.flatnonzero(found >= 0)
    row_size, column_size = _sizes(rows), _sizes(columns)
    row, column = (np.repeat(np.arange(len(sizes)), sizes) for sizes in (row_size, column_size))
    return Matched(row[found[shared]], column[shared], row_size, column_size)


def _positions(members: list[Collection[Hashable]], side: str) -> dict[Hashable, int]:
    """Assign indices to mentions in the order of the clusters."""
    mentions = chain((_NO_STRING,), chain.from_iterable(members))
    try:
        # NaN equals nothing and is left out, so the dict is too small, as if a mention occurred twice.
        position = {mention: i for i, mention in enumerate(mentions, -1) if mention == mention}
    except (TypeError, ValueError):
        raise _fault(members, side) from None
    if len(position) <= _n_mentions(members):
        raise _fault(members, side)
    return position


def _found(members: list[Collection[Hashable]], position: dict[Hashable, int], side: str) -> IntArray:
    """Return the position of each mention of all clusters; -1 for a missing one."""
    n_mentions = _n_mentions(members)
    try:
        found = np.fromiter(map(position.get, chain.from_iterable(members), repeat(-1)), np.int64, n_mentions)
        is_new = found < 0
        new = compress(chain.from_iterable(members), is_new.tolist()) if is_new.any() else ()
        n_distinct = np.count_nonzero(np.bincount(found + 1)[1:]) + len({m for m in new if m == m})
    except (TypeError, ValueError):
        raise _fault(members, side) from None
    if n_distinct < n_mentions:
        raise _fault(members, side)
    return found


def _members(clusters: Clusters, side: str) -> list[Collection[Hashable]]:
    if isinstance(clusters, Mapping):
        raise TypeError(
            f"{side} is of type {type(clusters).__name__}, not a list of clusters; for clusters by document use "
            "coreference_by_document"
        )
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


def _n_mentions(members: list[Collection[Hashable]]) -> int:
    return sum(map(len, members))


def _sizes(members: list[Collection[Hashable]]) -> IntArray:
    sizes = np.fromiter(map(len, members), np.int64, len(members))
    return sizes[sizes > 0]


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
