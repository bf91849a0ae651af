"""Confidence: the probability that a link is correct, calibrated on gold annotations.

Platt scaling makes it of a link's similarity and its lead over the most similar other candidate, by a logistic function
(Platt 1999, Probabilistic outputs for support vector machines). Without annotations, the gap decides:
`arbo.linking.config.DefaultConfidence`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy  # its modules are imported when they are used

from arbo.engine import Bools, Ids, Weights
from arbo.files import json_ready
from arbo.results.run import table_of
from arbo.settings import Finite, Settings

_FOLDS, _BINS, _FEWEST = 5, 10, 20


@dataclass(frozen=True, slots=True)
class Confidence(Settings):
    """The logistic function for the probability that a link is correct; `Linker.tune` fits it."""

    intercept: Finite = 0.0
    similarity: Finite = 0.0
    """Weight of the similarity of mention and entity."""
    lead: Finite = 0.0
    """Weight of the lead, which is this similarity minus the similarity of the most similar other candidate."""
    nil: ClassVar[float] = np.nan
    """Probability that a NIL decision is correct, which is unknown."""

    def of(self, evidence: Weights) -> Weights:
        """Return the probability that each link is correct; ``evidence`` is that of `Retrieval.evidence`."""
        return np.asarray(scipy.special.expit(self.intercept + evidence @ np.array([self.similarity, self.lead])))


class Reliability(NamedTuple):
    """Links by their confidence, in ten intervals from 0 to 1; (10,) values each, with NaN for means of no links."""

    links: Ids  # number of links
    predicted: Weights  # mean confidence
    correct: Weights  # share of correct links

    @classmethod
    def of(cls, confidence: Weights, right: Bools) -> Self:
        """Group links by their confidence; ``right`` says which of them are correct."""
        place = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
        links = np.bincount(place, minlength=_BINS)
        with np.errstate(invalid="ignore"):
            means = [np.bincount(place, values, minlength=_BINS) / links for values in (confidence, right)]
        return cls(links, *means)

    @property
    def expected_error(self) -> float:
        """Expected calibration error: the mean of |predicted - correct| over links (Naeini et al. 2015, AAAI)."""
        return float(np.nansum(np.abs(self.predicted - self.correct) * self.links) / self.links.sum())

    def as_dict(self) -> dict[str, Any]:
        """Return the curve and its expected error, ready for JSON."""
        columns = {name: column.tolist() for name, column in self._asdict().items()}
        return {"expected_error": self.expected_error, **json_ready(columns)}

    def __str__(self) -> str:
        rows = [
            {"confidence": f"{i / _BINS:.1f} to {(i + 1) / _BINS:.1f}", "links": n, "predicted": said, "correct": right}
            for i, (n, said, right) in enumerate(zip(*(column.tolist() for column in self), strict=True))
            if n
        ]
        error = f"expected calibration error {self.expected_error:.3f}"
        title = f"confidence of {self.links.sum():,} links, from fits that leave out their documents: {error}"
        return str(table_of(rows, title))


def calibrate(features: Weights, right: Bools, document: Ids) -> tuple[Confidence, Reliability] | None:
    """Fit the confidence of links, and measure its reliability by fits that leave out a fifth of the documents.

    Return None if there are fewer than 20 links, or only one document, or if the links of one of these fits are all
    correct or all wrong. ``features`` are those of `Retrieval.evidence`, (links, 2), ``right`` says which links are
    correct, and ``document`` is a code of the document of each.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold

    n_folds = min(_FOLDS, len(np.unique(document)))
    if len(right) < _FEWEST or n_folds < 2:
        return None
    parts = list(GroupKFold(n_folds).split(features, right, document))
    if any(right[train].all() or not right[train].any() for train, _ in parts):
        return None

    def fitted(links: Ids) -> Confidence:
        mean, spread = features[links].mean(axis=0), np.maximum(features[links].std(axis=0), 1e-6)
        model = LogisticRegression().fit((features[links] - mean) / spread, right[links])
        weights = model.coef_[0] / spread  # of inner products, too, which have any scale
        return Confidence(float(model.intercept_[0] - weights @ mean), *weights.tolist())

    held_out = np.empty(len(right))
    for train, test in parts:
        held_out[test] = fitted(train).of(features[test])
    return fitted(np.arange(len(right))), Reliability.of(held_out, right)
