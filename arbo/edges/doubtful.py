"""Doubtful pairs of mentions: a cross-encoder reads them, and its score changes the log-odds of the trees.

A pair is doubtful if the trees give it a probability between 0.05 and 0.95. To its log-odds l is added
t (a + b l + c s), where s is the cross-encoder's score. The factor t is 1, and falls to 0 over the last unit of l
before either limit, so that the probability has no jump there. A logistic regression on pairs that neither has seen
gives a, b and c.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import expit

from arbo.data import MentionInput
from arbo.encoders.cross import PairEncoder
from arbo.engine import Bools, Ids
from arbo.progress import Announce, quiet

LogOdds = npt.NDArray[np.float64]

_LIMIT = log(0.95 / 0.05)
_RIDGE = 1e-3


def doubtful(log_odds: LogOdds) -> Ids:
    """Return the indices of the pairs that are doubtful by the log-odds of the trees, ascending."""
    return np.flatnonzero(np.abs(log_odds) < _LIMIT)


@dataclass(frozen=True, eq=False, slots=True)
class Reader:
    """A cross-encoder of mention pairs, and the factors that turn its scores into changes of log-odds."""

    encoder: PairEncoder
    factors: tuple[float, float, float]
    """a, b and c."""

    @classmethod
    def fit(cls, encoder: PairEncoder, log_odds: LogOdds, scores: npt.NDArray[np.float32], correct: Bools) -> Self:
        """Fit the factors to doubtful pairs; the arrays have a value for each pair."""
        columns = _columns(log_odds, scores)

        def loss(factors: LogOdds) -> tuple[float, LogOdds]:
            corrected = log_odds + columns @ factors
            lost = np.logaddexp(0, np.where(correct, -corrected, corrected)).sum() + _RIDGE * factors @ factors
            return float(lost), columns.T @ (expit(corrected) - correct) + 2 * _RIDGE * factors

        a, b, c = minimize(loss, np.zeros(3), jac=True).x.tolist()
        return cls(encoder, (a, b, c))

    def change(
        self, mentions: Sequence[MentionInput], first: Ids, second: Ids, log_odds: LogOdds, announce: Announce = quiet
    ) -> LogOdds:
        """Return what to add to the log-odds of pairs of mentions; 0 for pairs that are not doubtful, (pairs,)."""
        read = doubtful(log_odds)
        change = np.zeros(len(log_odds))
        scores = self.encoder.compare(mentions, first[read], second[read], announce)
        change[read] = _columns(log_odds[read], scores) @ self.factors
        return change


def _columns(log_odds: LogOdds, scores: npt.NDArray[np.float32]) -> LogOdds:
    share: LogOdds = np.clip(_LIMIT - np.abs(log_odds), 0, 1)
    return np.column_stack([share, share * log_odds, share * scores])
