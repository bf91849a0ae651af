"""The memory of a reranker: which pairs it scored, so that a run that grows scores only new pairs.

A transformer repeats scores only to rounding, since they depend a little on the other pairs of a batch. Remembered
scores are therefore the only ones that equal those of an earlier run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.data import KnowledgeBase, MentionInput
from arbo.engine import Floats, Ids
from arbo.progress import Announce, quiet
from arbo.retrieval.reranking import Reranker, scores_of
from arbo.retrieval.retrieval import PairScores


@dataclass(eq=False, slots=True)
class ScoreMemory:
    """Scores pairs like a reranker, but asks it only about pairs that are unknown.

    A reranker that is ``whole`` is asked about all pairs of a mention if one of them is unknown.
    """

    reranker: Reranker
    known: PairScores | None = None
    scored: PairScores | None = None
    """All pairs that were asked for, with their scores."""

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Return the scores of pairs, see `Reranker`; the reranker gets only the mentions of unknown pairs."""
        scores, is_new = np.empty(len(mention), np.float32), np.ones(len(mention), np.bool_)
        if self.known is not None and len(self.known.scores):
            scores, is_new = _looked_up(self.known, mention, entity)
            if getattr(self.reranker, "whole", False):
                is_new = np.isin(mention, mention[is_new])
        used, place = np.unique(mention[is_new], return_inverse=True)
        if len(used):
            few = [mentions[row] for row in used.tolist()]
            with np.errstate(over="ignore"):  # infinity is reported later
                scores[is_new] = scores_of(self.reranker.score, few, kb, place, entity[is_new], announce)
        self.scored = PairScores(np.column_stack([mention, entity]).astype(np.int32), scores)
        return scores

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the pairs that were asked for, for `known_scores`."""
        if self.scored is None:
            return {}
        return {"scored.entities": self.scored.pairs, "score.entities": self.scored.scores.astype(np.float32)}


def known_scores(arrays: Mapping[str, npt.NDArray[Any]], row: Ids, entity: Ids) -> PairScores | None:
    """Return the scores in the arrays of `ScoreMemory.arrays`, of pairs that are still there; None without them.

    ``row`` is the earlier number of each mention, or -1 for a new one; ``entity`` the row of each earlier entity now,
    or -1.
    """
    if "scored.entities" not in arrays:
        return None
    number = np.full(row.max(initial=-1) + 2, -1, np.int32)  # the last is that of mentions that are gone
    number[row[row >= 0]] = np.flatnonzero(row >= 0)
    earlier, other = arrays["scored.entities"].T
    mention, other = number[np.minimum(earlier, len(number) - 1)], entity[other]
    is_left = (mention >= 0) & (other >= 0)
    return PairScores(np.column_stack([mention, other])[is_left], arrays["score.entities"][is_left])


def _looked_up(known: PairScores, mention: Ids, other: Ids) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the known scores of pairs, and which of the pairs are unknown; both (pairs,)."""
    n = max(int(known.pairs[:, 1].max()), int(other.max(initial=0))) + 1
    keys = known.pairs[:, 0].astype(np.int64) * n + known.pairs[:, 1]
    order = np.argsort(keys)
    numbers = mention.astype(np.int64) * n + other
    place = order[np.minimum(np.searchsorted(keys, numbers, sorter=order), len(order) - 1)]
    return known.scores[place], keys[place] != numbers
