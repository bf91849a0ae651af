"""Which features counted for an edge: the largest shares of its log-odds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from arbo.edges.facts import Facts
from arbo.edges.features import MENTION_FEATURES, Matrix, mention_features
from arbo.edges.trees import Trees
from arbo.engine import Ids
from arbo.retrieval.retrieval import Reasons

_TOLD = 3
_BLOCK = 100_000


def blocks(n: int) -> Iterator[slice]:
    """Divide ``n`` pairs into blocks whose features are in memory together."""
    return (slice(begin, begin + _BLOCK) for begin in range(0, n, _BLOCK))


def mention_reasons(trees: Trees, facts: Facts, source: Ids, target: Ids) -> Reasons:
    """Return the features that counted most for edges from mentions to mentions."""
    rank = facts.columns["rank"]
    swap = rank[source] > rank[target]
    first, second = np.where(swap, target, source), np.where(swap, source, target)
    return reasons(trees, MENTION_FEATURES, len(first), lambda some: mention_features(facts, first[some], second[some]))


def reasons(trees: Trees, names: tuple[str, ...], n: int, features: Callable[[slice], Matrix]) -> Reasons:
    """Return the features that counted most for ``n`` pairs; ``features`` returns all features of a block of pairs."""
    found = Reasons(np.empty((n, _TOLD), object), np.empty((n, _TOLD), np.float32))
    for some in blocks(n):
        shares = trees.shares(features(some))
        largest = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :_TOLD]
        found.features[some] = np.array(names, object)[largest]
        found.log_odds[some] = np.take_along_axis(shares, largest, axis=1)
    return found
