"""Which features counted for an edge: the largest shares of its log-odds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from arbo.data.inputs import MentionInput
from arbo.edges.doubtful import LogOdds, Reader
from arbo.edges.facts import Facts
from arbo.edges.features import MENTION_FEATURES, mention_features
from arbo.edges.trees import Trees
from arbo.engine import Ids
from arbo.retrieval.retrieval import Reasons

CROSS = "cross_encoder"
"""Name of what the cross-encoder adds to the log-odds of a doubtful pair."""
_TOLD = 3
_BLOCK = 100_000


def blocks(n: int) -> Iterator[slice]:
    """Yield slices that divide ``n`` pairs into blocks; only the features of one block are in memory at a time."""
    return (slice(begin, begin + _BLOCK) for begin in range(0, n, _BLOCK))


def mention_reasons(
    trees: Trees, reader: Reader | None, mentions: Sequence[MentionInput], facts: Facts, source: Ids, target: Ids
) -> Reasons:
    """Return the features that counted most for edges between mentions; what ``reader`` adds counts as `CROSS`."""
    rank = facts.columns["rank"]
    swap = rank[source] > rank[target]
    first, second = np.where(swap, target, source), np.where(swap, source, target)

    def shares(some: slice) -> LogOdds:
        features = mention_features(facts, first[some], second[some])
        if reader is None:
            return trees.shares(features)
        change = reader.change(mentions, first[some], second[some], trees.scores(features))
        return np.column_stack([trees.shares(features), change])

    return largest_shares((*MENTION_FEATURES, CROSS), len(first), shares)


def largest_shares(names: tuple[str, ...], n: int, shares_of: Callable[[slice], LogOdds]) -> Reasons:
    """Return the features that counted most for ``n`` pairs; ``shares_of`` returns all shares of a block of pairs."""
    found = Reasons(np.empty((n, _TOLD), object), np.empty((n, _TOLD), np.float32))
    for some in blocks(n):
        shares = shares_of(some)
        largest = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :_TOLD]
        found.features[some] = np.array(names, object)[largest]
        found.log_odds[some] = np.take_along_axis(shares, largest, axis=1)
    return found
