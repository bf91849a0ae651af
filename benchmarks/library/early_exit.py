"""Choose the margin from which a reranker skips mentions."""

from typing import NamedTuple

import numpy as np

from arbo.engine import Ids
from arbo.retrieval.reranking import Candidates, margins
from library.union import is_gold


class Skipping(NamedTuple):
    """The share of mentions that the reranker skips, and the loss of accuracy."""

    margin: float | None
    """Mentions with at least this margin are skipped, see `rerank`; None skips no mention."""
    skipped: float
    """Share of mentions that are skipped."""
    accuracy: float
    """Share of the mentions with a gold entity whose first candidate is a gold entity."""
    lost: float
    """Accuracy of reranking all mentions, minus ``accuracy``; negative if skipping improves the accuracy."""


def skipping(retrieved: Candidates, reranked: Candidates, gold: Ids, *, most_lost: float = 0.0) -> Skipping:
    """Choose the margin from which mentions skip the reranker, on documents with gold annotations.

    The margin is the smallest in the data whose loss of accuracy is at most ``most_lost``, since it skips the most
    mentions. Report scores on documents other than those used for this choice.

    ``reranked`` are the ``retrieved`` candidates after `rerank` without a margin. ``gold`` holds the rows of the
    correct entities of each mention, (mentions, any number), padded with -1, see `arbo.data.gold.Gold.entities`.
    """
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
