"""Early exit: mentions that a first stage is sure of need not be read by a reranker."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from arbo.engine import Floats, Ids
from arbo.errors import UsageError
from arbo.retrieval.candidates import Candidates, is_gold, other_origin


def check_skip_margin(margin: float | None) -> None:
    """Raise UsageError unless a margin can be meant, see `LinkerConfig.skip_margin`."""
    if margin is not None and (type(margin) not in (int, float) or not 0 <= margin < float("inf")):
        raise UsageError(f"skip_margin must be a number of at least 0 or None, not {margin!r}")


def margins(scores: Floats) -> Floats:
    """How much better the first candidate of each mention is than the second; infinite where that has no score."""
    margin = np.full(len(scores), np.inf, np.float32)
    if scores.shape[1] > 1:
        has_two = np.isfinite(scores[:, 1])
        margin[has_two] = scores[has_two, 0] - scores[has_two, 1]
    return margin


class Skipping(NamedTuple):
    """What it costs not to read the mentions that a first stage is sure of."""

    margin: float | None
    """The smallest margin that is skipped, see `rerank`; None to skip none."""
    skipped: float
    """Share of all mentions that are not read."""
    accuracy: float
    """Share of the mentions with a gold entity whose first candidate is one."""
    lost: float
    """Accuracy when all are read, minus ``accuracy``; negative where the first stage knew better."""


def skipping(retrieved: Candidates, reranked: Candidates, gold: Ids, *, most_lost: float = 0.0) -> Skipping:
    """Choose the margin from which on mentions are not read, on documents with gold annotations.

    Of the margins there are, the smallest whose loss of accuracy is not above ``most_lost``: the most is skipped. All
    are tried, exactly. Choose it on other documents than those that are reported on.

    Args:
        retrieved: candidates of a first stage.
        reranked: the same, all of them read: `rerank` without a margin.
        gold: (mentions, any) rows of the entities that are right for each, see `arbo.data.gold.Gold.entities`.
        most_lost: of the accuracy, between 0 and 1.

    Raises:
        ValueError: candidates and gold that are not of the same mentions, or ``most_lost`` is out of range.

    >>> before = Candidates([[0, 1], [0, 1], [0, 1]], [[0.9, 0.1], [0.6, 0.5], [0.8, 0.1]], "d", "kb", {})
    >>> after = Candidates([[0, 1], [1, 0], [0, 1]], [[0.9, 0.1]] * 3, "d", "kb", {})
    >>> skipping(before, after, np.array([[0], [1], [0]]))
    Skipping(margin=0.699999988079071, skipped=0.6666666666666666, accuracy=1.0, lost=0.0)

    """
    if not len(retrieved) == len(reranked) == len(gold):
        raise ValueError(f"{len(retrieved):,} mentions, but {len(reranked):,} reranked and {len(gold):,} with gold")
    if other := other_origin(reranked.origin, retrieved.origin):
        raise ValueError(f"the reranked candidates were made with {other}")
    if not 0 <= most_lost <= 1:
        raise ValueError(f"most_lost must be between 0 and 1, not {most_lost!r}")
    margin = margins(retrieved.scores)
    before, after = (np.any(is_gold(one.entities[:, :1], gold), axis=1).astype(int) for one in (retrieved, reranked))
    n_gold = max(1, int((gold >= 0).any(axis=1).sum()))
    order = np.argsort(-margin, kind="stable")
    lost = np.cumsum(np.append(0, after[order] - before[order]))
    possible = np.ones(len(order) + 1, np.bool_)
    possible[1:-1] = margin[order][1:] != margin[order][:-1]  # equal margins are skipped together
    possible[1:] &= np.isfinite(margin[order])
    n_skipped = int(np.flatnonzero(possible & (lost <= most_lost * n_gold + 1e-9))[-1])
    return Skipping(
        float(margin[order[n_skipped - 1]]) if n_skipped else None,
        n_skipped / max(1, len(margin)),
        float(after.sum() - lost[n_skipped]) / n_gold,
        float(lost[n_skipped]) / n_gold,
    )
