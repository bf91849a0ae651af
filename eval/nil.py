"""NIL: how well mentions whose concept is not in the knowledge base are recognised."""

from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, boolean_array
from .gold import Gold
from .linking import LinkingOutcomes
from .ratio import f1, ratio
from .threshold_curve import ThresholdCurve, score_array


@dataclass(frozen=True)
class NilScores:
    """The result of `nil_scores`: counts of mentions, and their ratios."""

    mentions: int  # annotated mentions
    gold: int  # annotated mentions that are NIL
    predicted: int  # annotated mentions that are predicted to be NIL
    correct: int  # annotated mentions that are NIL and predicted to be NIL
    not_annotated: int = 0  # mentions left out

    @property
    def precision(self) -> float:
        """Share of NIL mentions among the mentions predicted to be NIL."""
        return ratio(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """Share of NIL mentions that are predicted to be NIL."""
        return ratio(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision."""
        return f1(self.recall, self.precision)

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios by name, ready for JSON."""
        return asdict(self) | {"precision": self.precision, "recall": self.recall, "f1": self.f1}

    def __str__(self) -> str:
        return (
            f"NIL: precision {self.precision:.4f} ({self.correct}/{self.predicted}), "
            f"recall {self.recall:.4f} ({self.correct}/{self.gold}), F1 {self.f1:.4f}; "
            f"left out: {self.not_annotated} not annotated"
        )


def nil_scores(
    gold_nil: npt.ArrayLike, predicted_nil: npt.ArrayLike, *, annotated: npt.ArrayLike | None = None
) -> NilScores:
    """Compute precision, recall and F1 of the mentions predicted to be NIL.

    If ``G`` are the NIL mentions and ``P`` the mentions predicted to be NIL, precision is ``|G & P| / |P|``, recall is
    ``|G & P| / |G|``, and F1 is their harmonic mean; 0/0 is 0. All arguments are (mentions,) booleans. A mention is NIL
    if it is annotated as NIL, or if all its gold ids are outside the knowledge base (`gold_is_nil`). Mentions that are
    not annotated are left out, but counted; by default, all are annotated. Raise ValueError if the lengths differ, and
    TypeError if an argument does not hold booleans. Sources: van Rijsbergen 1979, Information retrieval, chapter 7;
    McNamee and Dang 2009, Overview of the TAC 2009 knowledge base population track (NIL).

    >>> print(nil_scores([True, True, False], [True, False, False]))
    NIL: precision 1.0000 (1/1), recall 0.5000 (1/2), F1 0.6667; left out: 0 not annotated
    """
    gold = boolean_array(gold_nil, name="gold_nil")
    predicted = boolean_array(predicted_nil, name="predicted_nil", length=len(gold))
    known = _annotated(annotated, len(gold))
    return NilScores(
        mentions=int(known.sum()),
        gold=int((known & gold).sum()),
        predicted=int((known & predicted).sum()),
        correct=int((known & gold & predicted).sum()),
        not_annotated=int((~known).sum()),
    )


NilCurve: TypeAlias = ThresholdCurve
"""The result of `nil_curve`, in which NIL mentions are positive and thresholds ascend."""


def nil_curve(gold_nil: npt.ArrayLike, score: npt.ArrayLike, *, annotated: npt.ArrayLike | None = None) -> NilCurve:
    """Compute precision, recall and F1 at every threshold, where mentions with a lower score are called NIL.

    The ratios at ``t`` are those of `nil_scores` for the predictions ``P(t) = {m : score(m) < t}``. The area under the
    precision-recall curve is `ThresholdCurve.average_precision`; the threshold that maximises F1 is
    `ThresholdCurve.best`. O(n log n) time. ``score`` holds the similarity of each mention's best entity, or -inf if
    none was found. Mentions with equal scores are called NIL together. Raise ValueError if the lengths differ or a
    score is NaN or +inf, and TypeError if the scores are not numbers or another argument does not hold booleans.

    >>> curve = nil_curve([True, False, True, False], [0.1, 0.3, 0.5, 0.9])
    >>> curve.threshold, curve.recall
    (array([-inf,  0.2,  0.4,  0.7,  inf]), array([0. , 0.5, 0.5, 1. , 1. ]))
    >>> curve.best
    BestThreshold(threshold=0.7, precision=0.6666666666666666, recall=1.0, f1=0.8)
    >>> round(curve.average_precision, 4)
    0.8333
    """
    gold = boolean_array(gold_nil, name="gold_nil")
    values = score_array(score, len(gold))
    odd = np.isnan(values) | (values == np.inf)
    if odd.any():
        where = int(np.argmax(odd))
        mend = "give a finite number, or -inf for a mention without entities"
        raise ValueError(f"score has {values[where]} at position {where} (from 0); {mend}")
    return ThresholdCurve.below(gold, values, _annotated(annotated, len(gold)))


def _annotated(annotated: npt.ArrayLike | None, n_mentions: int) -> BoolArray:
    if annotated is None:
        return np.ones(n_mentions, np.bool_)
    return boolean_array(annotated, name="annotated", length=n_mentions)


def gold_is_nil(
    gold_indptr: npt.ArrayLike, gold_indices: npt.ArrayLike, *, annotated: npt.ArrayLike | None = None
) -> BoolArray:
    """Return which mentions are annotated, but have no gold id inside the knowledge base.

    The arguments and errors are those of `linking_outcomes`. The example has four mentions: gold 7; gold outside the
    knowledge base; annotated without an id; not annotated.

    >>> gold_is_nil([0, 1, 2, 2, 2], [7, -1], annotated=[True, True, True, False])
    array([False,  True,  True, False])
    """
    gold = Gold.from_arrays(gold_indptr, gold_indices, annotated=annotated)
    return gold.annotated & ~gold.in_kb


def nil_as_class(outcomes: LinkingOutcomes, predicted_nil: npt.ArrayLike) -> LinkingOutcomes:
    """Return the outcomes over all classes: the entities, and NIL as a further class.

    Each annotated mention then has a concept, which is NIL if no gold id is inside the knowledge base. NIL is the link
    and the only candidate of a mention called NIL; other mentions keep their links and candidates. If ``A`` are the
    annotated mentions, ``G`` the NIL mentions among them, and ``P`` the mentions called NIL, recall@k is
    ``|{m in A : m in G & P, or m not in P and one of its first k candidates is a gold id}| / |A|``: a linkable mention
    called NIL is a miss at every k, as is a NIL mention not called NIL. The accuracy covers links and NIL decisions
    together. Mentions annotated as NIL without an id must be marked as `annotated` in the outcomes. The errors are
    those of `nil_scores`. Source: Wiatrak et al. 2022, Proxy-based zero-shot entity linking by effective candidate
    retrieval, table 4, "all classes incl. NIL".

    Gold 7, found second; gold 4, called NIL; gold outside the KB, called NIL:

    >>> from eval import linking_outcomes
    >>> outcomes = linking_outcomes([0, 1, 2, 3], [7, 4, -1], [1, -1, -1], candidates=[[1, 7], [4, 2], [2, 4]])
    >>> nil_as_class(outcomes, [False, True, True]).count(k=[1, 2]).recall
    {1: 0.3333333333333333, 2: 0.6666666666666666}
    """
    called = boolean_array(predicted_nil, name="predicted_nil", length=len(outcomes))
    right = outcomes.annotated & ~outcomes.in_kb & called
    rank = None if outcomes.rank is None else np.where(right, 0, np.where(called, outcomes.width, outcomes.rank))
    correct = right | (outcomes.correct & ~called)
    return replace(outcomes, concept=outcomes.annotated, in_kb=outcomes.annotated, correct=correct, rank=rank)
