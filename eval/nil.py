"""NIL: how well mentions whose concept is not in the knowledge base are recognised; and decisions by any threshold."""

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import Brief, FloatArray, IntArray, boolean_array, checked_array
from .linking import LinkingOutcomes
from .ratio import f1, ratio


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


def nil_scores(
    gold_nil: npt.ArrayLike, predicted_nil: npt.ArrayLike, *, annotated: npt.ArrayLike | None = None
) -> NilScores:
    """Compute precision, recall and F1 of the mentions predicted to be NIL.

    If ``G`` are the NIL mentions and ``P`` the mentions predicted to be NIL, precision is ``|G & P| / |P|``, recall is
    ``|G & P| / |G|``, and F1 is their harmonic mean; 0/0 is 0. All arguments are (mentions,) booleans. A mention is NIL
    if it is annotated as NIL, or if all its gold ids are outside the knowledge base. Mentions that are not annotated
    are left out, but counted; by default, all are annotated. Raise ValueError if the lengths differ, and
    TypeError if an argument does not hold booleans. Sources: van Rijsbergen 1979, Information retrieval, chapter 7;
    McNamee and Dang 2009, Overview of the TAC 2009 knowledge base population track (NIL).

    >>> nil_scores([True, True, False], [True, False, False])
    NilScores(mentions=3, gold=2, predicted=1, correct=1, not_annotated=0)
    """
    gold = boolean_array(gold_nil, name="gold_nil")
    predicted = boolean_array(predicted_nil, name="predicted_nil", length=len(gold))
    known = np.ones_like(gold) if annotated is None else boolean_array(annotated, name="annotated", length=len(gold))
    counted = (known, known & gold, known & predicted, known & gold & predicted, ~known)
    return NilScores(*(int(mentions.sum()) for mentions in counted))


class BestThreshold(NamedTuple):
    """The threshold with the highest F1."""

    threshold: float
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdCurve(Brief):
    """Counts at every threshold, from no item called positive to all, with a point for each set of decisions."""

    threshold: FloatArray  # (points,) midpoints between neighbouring scores, infinite at both ends
    predicted: IntArray  # (points,) items called positive, ascending
    correct: IntArray  # (points,) items called positive that are positive
    gold: int  # annotated items that are positive

    @property
    def precision(self) -> FloatArray:
        """(points,) share of predicted items that are correct; 0 if no items are predicted."""
        return self.correct / np.maximum(self.predicted, 1)

    @property
    def recall(self) -> FloatArray:
        """(points,) share of gold items that are predicted, ascending."""
        return self.correct / max(self.gold, 1)

    @property
    def f1(self) -> FloatArray:
        """(points,) harmonic mean of recall and precision."""
        return 2 * self.correct / np.maximum(self.predicted + self.gold, 1)

    @property
    def average_precision(self) -> float:
        """Area under the precision-recall curve: ``sum_i (recall_i - recall_(i-1)) precision_i``.

        Trapezoids instead of steps would overestimate it (Davis and Goadrich 2006, The relationship between
        precision-recall and ROC curves, ICML). It is 0 without positive items.
        """
        return ratio(float((np.diff(self.correct) * self.precision[1:]).sum()), self.gold)

    @property
    def best(self) -> BestThreshold:
        """The point with the highest F1; ties go to the point with the fewest items called positive."""
        place = int(np.argmax(self.f1))
        ratios = (self.threshold, self.precision, self.recall, self.f1)
        return BestThreshold(*(float(values[place]) for values in ratios))


def nil_curve(
    gold_nil: npt.ArrayLike, score: npt.ArrayLike, *, annotated: npt.ArrayLike | None = None
) -> ThresholdCurve:
    """Compute precision, recall and F1 at every threshold, where mentions with a lower score are called NIL.

    The ratios at ``t`` are those of `nil_scores` for the predictions ``P(t) = {m : score(m) < t}``. ``score`` holds the
    similarity of each mention's best entity, or -inf if none was found. O(n log n) time. Raise ValueError if the
    lengths differ or a score is NaN or +inf, and TypeError if scores are not numbers or the others not booleans.

    >>> curve = nil_curve([True, False, True, False], [0.1, 0.3, 0.5, 0.9])
    >>> curve.threshold, curve.recall
    (array([-inf,  0.2,  0.4,  0.7,  inf]), array([0. , 0.5, 0.5, 1. , 1. ]))
    >>> curve.best
    BestThreshold(threshold=0.7, precision=0.6666666666666666, recall=1.0, f1=0.8)
    >>> round(curve.average_precision, 4)
    0.8333
    """
    gold = boolean_array(gold_nil, name="gold_nil")
    values = checked_array(score, name="score", kinds="fiu", noun="number", length=len(gold)).astype(np.float64)
    if len(wrong := np.flatnonzero(np.isnan(values) | (values == np.inf))):
        advice = "give a finite number, or -inf for a mention without entities"
        raise ValueError(f"score has {values[wrong[0]]} at position {wrong[0]} (from 0); {advice}")
    known = np.ones_like(gold) if annotated is None else boolean_array(annotated, name="annotated", length=len(gold))
    distinct, place = np.unique(values[known], return_inverse=True)
    n_points = len(distinct) + 1
    return ThresholdCurve(
        threshold=_between(distinct),
        predicted=np.cumsum(np.bincount(place + 1, minlength=n_points)),
        correct=np.cumsum(np.bincount(place[gold[known]] + 1, minlength=n_points)),
        gold=int((known & gold).sum()),
    )


def threshold_curve(is_positive: npt.ArrayLike, score: npt.ArrayLike) -> ThresholdCurve:
    """Compute precision, recall and F1 at every threshold, where items with a higher score are called positive.

    Both arguments are (items,), and thresholds descend. The errors are those of `nil_curve`.
    """
    curve = nil_curve(boolean_array(is_positive, name="is_positive"), -np.asarray(score, np.float64))
    return replace(curve, threshold=0.0 - curve.threshold)  # 0 rather than -0


def _between(scores: FloatArray) -> FloatArray:
    """Return a threshold between neighbouring ascending scores, above the lower and at most the upper score."""
    if not len(scores):
        return np.array([-np.inf])
    low, high = scores[:-1], scores[1:]
    middle = low / 2 + high / 2  # their sum may overflow
    return np.concatenate([[-np.inf], np.where(middle > low, middle, high), [np.inf]])


def nil_as_class(outcomes: LinkingOutcomes, predicted_nil: npt.ArrayLike) -> LinkingOutcomes:
    """Return the outcomes over all classes: the entities, and NIL as a further class.

    Each annotated mention then has a concept, which is NIL if no gold id is inside the knowledge base. NIL is the link
    and the only candidate of a mention called NIL. If ``A`` are the annotated mentions, ``G`` the NIL mentions among
    them, and ``P`` the mentions called NIL, recall@k is
    ``|{m in A : m in G & P, or m not in P and one of its first k candidates is a gold id}| / |A|``: a linkable mention
    called NIL is a miss at every k, as is a NIL mention not called NIL. The errors are those of `nil_scores`. Source:
    Wiatrak et al. 2022, Proxy-based zero-shot entity linking by effective candidate retrieval, table 4, "all classes
    incl. NIL".

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
