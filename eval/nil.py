"""NIL: finding the mentions whose concept the knowledge base does not hold."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy.typing as npt

from eval.arrays import BoolArray, boolean_array
from eval.gold import Gold
from eval.ratio import f1, ratio


@dataclass(frozen=True)
class NilScores:
    """What `nil_scores` returns: counts of mentions, and the ratios of them."""

    mentions: int
    """mentions that are annotated"""
    gold: int
    """those of them that are NIL in truth"""
    predicted: int
    """those that are predicted to be NIL"""
    correct: int
    """those that are both"""
    not_annotated: int = 0
    """left out"""

    @property
    def precision(self) -> float:
        """Share of the mentions predicted NIL that are NIL."""
        return ratio(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """Share of the NIL mentions that are predicted NIL."""
        return ratio(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of recall and precision."""
        return f1(self.recall, self.precision)

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios under their names, ready for JSON."""
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
    """Return precision, recall and F1 of the mentions predicted to be NIL.

    With ``G`` the NIL mentions and ``P`` those predicted NIL: precision ``|G & P| / |P|``, recall
    ``|G & P| / |G|``; 0/0 is 0.

    Parameters
    ----------
    gold_nil
        Shape (mentions,), boolean: annotated as NIL, or all gold ids outside the knowledge base
        (`gold_is_nil`).
    predicted_nil
        Shape (mentions,), boolean.
    annotated
        Shape (mentions,), boolean: the others are left out and counted. Default: all are annotated.

    Raises
    ------
    ValueError
        Lengths that differ.
    TypeError
        Flags that are no booleans.

    Examples
    --------
    >>> print(nil_scores([True, True, False], [True, False, False]))
    NIL: precision 1.0000 (1/1), recall 0.5000 (1/2), F1 0.6667; left out: 0 not annotated

    """
    gold = boolean_array(gold_nil, name="gold_nil")
    predicted = boolean_array(predicted_nil, name="predicted_nil", length=len(gold))
    known = gold | True if annotated is None else boolean_array(annotated, name="annotated", length=len(gold))
    return NilScores(
        mentions=int(known.sum()),
        gold=int((known & gold).sum()),
        predicted=int((known & predicted).sum()),
        correct=int((known & gold & predicted).sum()),
        not_annotated=int((~known).sum()),
    )


def gold_is_nil(
    gold_indptr: npt.ArrayLike, gold_indices: npt.ArrayLike, *, annotated: npt.ArrayLike | None = None
) -> BoolArray:
    """Return which mentions are NIL in truth: annotated, and with no gold id inside the knowledge base.

    The parameters are those of `linking_scores`.

    Gold 7; gold outside the KB; annotated without an id; not annotated:

    >>> gold_is_nil([0, 1, 2, 2, 2], [7, -1], annotated=[True, True, True, False])
    array([False,  True,  True, False])
    """
    gold = Gold.from_arrays(gold_indptr, gold_indices, annotated=annotated)
    return gold.annotated & ~gold.in_kb
