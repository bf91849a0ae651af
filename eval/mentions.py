"""Clusters given as lists of mention ids, checked to be a partition."""

import operator
from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from eval.labels import IntArray

Clusters: TypeAlias = Iterable[Iterable[Hashable]]


class Side(NamedTuple):
    """The mentions of one side, each once, and the cluster that holds each."""

    mentions: list[Hashable]
    cluster: IntArray
    sizes: IntArray


def flatten(clusters: Clusters, *, side: str = "clusters") -> Side:
    """List the mentions of all clusters, refusing a mention that is held twice.

    An empty cluster holds no mention and is left out.

    Parameters
    ----------
    clusters
        Any iterable of iterables of hashable mention ids.
    side
        What to call the clusters in an error.

    Raises
    ------
    ValueError
        A mention occurs twice, in one cluster or in two, or its id is NaN.
    TypeError
        A cluster is a string or no iterable, or a mention id cannot be hashed.

    Examples
    --------
    >>> flatten([["a", "b"], [], ["c"]])
    Side(mentions=['a', 'b', 'c'], cluster=array([0, 0, 1]), sizes=array([2, 1]))
    >>> flatten([["a", "b"], ["c", "a"]], side="key")
    Traceback (most recent call last):
    ValueError: mention 'a' is twice in the key: in clusters 0 and 1

    """
    if isinstance(clusters, str | bytes | Mapping):
        raise TypeError(f"{side} is a {type(clusters).__name__}, not a list of clusters")
    members = [_members(cluster, side, i) for i, cluster in enumerate(clusters)]
    mentions = list(chain.from_iterable(members))
    try:
        n_distinct = len(set(mentions))
    except TypeError:
        raise _unhashable(members, side) from None
    if n_distinct < len(mentions):
        raise _repeated(members, side)
    if any(map(operator.ne, mentions, mentions)):
        raise ValueError(f"{side} has a mention whose id is NaN, which equals nothing, not even itself")
    sizes = np.array([len(cluster) for cluster in members if cluster], np.int64)
    return Side(mentions, np.repeat(np.arange(len(sizes)), sizes), sizes)


def _members(cluster: Any, side: str, i: int) -> Collection[Hashable]:
    if isinstance(cluster, list | tuple | set | frozenset):
        return cluster  # uncopied: a million mentions can be in as many clusters
    if isinstance(cluster, str | bytes):
        raise TypeError(f"{side}[{i}] is {cluster!r}, a string, not a cluster: write [{cluster!r}]")
    if isinstance(cluster, np.ndarray):
        cluster = cluster.tolist()
    try:
        return list(cluster)
    except TypeError:
        raise TypeError(f"{side}[{i}] is {cluster!r}, not a cluster (an iterable of mention ids)") from None


def _repeated(members: list[Collection[Hashable]], side: str) -> ValueError:
    first: dict[Hashable, int] = {}
    for i, cluster in enumerate(members):
        for mention in cluster:
            if mention in first:
                return ValueError(f"mention {mention!r} is twice in the {side}: in clusters {first[mention]} and {i}")
            first[mention] = i
    raise AssertionError("no mention is repeated")


def _unhashable(members: list[Collection[Hashable]], side: str) -> TypeError:
    for i, cluster in enumerate(members):
        for mention in cluster:
            try:
                hash(mention)
            except TypeError:
                kind = type(mention).__name__
                return TypeError(f"{side}[{i}] holds {mention!r}, a {kind}, which cannot be hashed")
    raise AssertionError("no mention is unhashable")
