"""Entity linking: accuracy, and the recall of the candidates."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.arrays import BoolArray, boolean_array, integer_array
from eval.gold import Gold
from eval.labels import IntArray
from eval.ratio import ratio


@dataclass(frozen=True)
class LinkingCounts:
    """What was counted over one group of mentions, and the ratios of it."""

    mentions: int
    """mentions with a gold concept, inside or outside the knowledge base (KB)"""
    in_kb: int
    """those of them with a gold id inside the KB"""
    correct: int
    """those whose predicted entity is one of their gold ids"""
    found: tuple[int, ...] = ()
    """for each of `k`: those with a gold id among the first k candidates"""
    k: tuple[int, ...] = ()

    @property
    def accuracy(self) -> float:
        """Share of the mentions with a gold concept that are linked to a gold id."""
        return ratio(self.correct, self.mentions)

    @property
    def accuracy_in_kb(self) -> float:
        """Share of the mentions with a gold id inside the KB that are linked to a gold id."""
        return ratio(self.correct, self.in_kb)

    @property
    def recall(self) -> dict[int, float]:
        """By k: share of the mentions with a gold concept that have a gold id among k candidates."""
        return {k: ratio(found, self.mentions) for k, found in zip(self.k, self.found, strict=True)}

    @property
    def recall_in_kb(self) -> dict[int, float]:
        """By k: the same share of the mentions with a gold id inside the KB."""
        return {k: ratio(found, self.in_kb) for k, found in zip(self.k, self.found, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios under their names, ready for JSON."""
        ratios = ("accuracy", "accuracy_in_kb", "recall", "recall_in_kb")
        return asdict(self) | {name: getattr(self, name) for name in ratios}

    def __str__(self) -> str:
        recall = "".join(f", recall@{k} {value:.4f}" for k, value in self.recall.items())
        return (
            f"accuracy {self.accuracy:.4f} ({self.correct}/{self.mentions}), "
            f"in KB {self.accuracy_in_kb:.4f} ({self.correct}/{self.in_kb}){recall}"
        )


@dataclass(frozen=True)
class LinkingScores:
    """What `linking_scores` returns: all mentions, their split, and how many were left out."""

    overall: LinkingCounts
    seen: LinkingCounts | None
    """mentions whose gold concept occurs in the training data, if that was said"""
    unseen: LinkingCounts | None
    no_concept: int
    """left out: annotated as NIL without an id (they count as NIL)"""
    not_annotated: int
    """left out: no annotation at all"""

    @property
    def accuracy(self) -> float:
        """Share of the mentions with a gold concept that are linked to a gold id."""
        return self.overall.accuracy

    @property
    def accuracy_in_kb(self) -> float:
        """Share of the mentions with a gold id inside the KB that are linked to a gold id."""
        return self.overall.accuracy_in_kb

    @property
    def recall(self) -> dict[int, float]:
        """By k: share of the mentions with a gold concept that have a gold id among k candidates."""
        return self.overall.recall

    def as_dict(self) -> dict[str, Any]:
        """Overall figures at the top, the split under `seen` and `unseen`, ready for JSON."""
        return {
            **self.overall.as_dict(),
            "no_concept": self.no_concept,
            "not_annotated": self.not_annotated,
            "seen": self.seen.as_dict() if self.seen else None,
            "unseen": self.unseen.as_dict() if self.unseen else None,
        }

    def __str__(self) -> str:
        groups = {"all": self.overall, "seen": self.seen, "unseen": self.unseen}
        lines = [f"{name}: {counts}" for name, counts in groups.items() if counts]
        left_out = f"left out: {self.no_concept} NIL without an id, {self.not_annotated} not annotated"
        return "\n".join([*lines, left_out])


def linking_scores(
    gold_indptr: npt.ArrayLike,
    gold_indices: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    annotated: npt.ArrayLike | None = None,
    candidates: npt.ArrayLike | None = None,
    k: Sequence[int] = (),
    seen: npt.ArrayLike | None = None,
) -> LinkingScores:
    """Return how many mentions are linked to one of their gold ids, and how many could have been.

    Accuracy is ``|{m in C : predicted(m) in gold(m)}| / |C|`` with ``C`` the mentions that have a gold
    concept. A gold id outside the knowledge base (KB) cannot be predicted and so counts as wrong; the
    accuracy over the mentions with a gold id inside the KB stands beside it. Recall@k puts "one of the
    first k candidates" in the place of "predicted", over the same mentions.

    Parameters
    ----------
    gold_indptr, gold_indices
        Shapes (mentions + 1,) and (gold ids,): mention i accepts the entities
        ``gold_indices[gold_indptr[i] : gold_indptr[i + 1]]``, -1 standing for an id outside the KB.
    predicted
        Shape (mentions,): entity, or -1 for NIL.
    annotated
        Shape (mentions,), boolean. A mention with an empty row is NIL without an id if annotated, else
        unknown; neither has a concept, both are left out and counted. Default: unknown.
    candidates
        Shape (mentions, width): entities, best first, padded with -1.
    k
        The k of recall@k, each from 1 to the width of the candidates.
    seen
        Shape (mentions,), boolean: whether the gold concept occurs in the training data. Figures are
        then given for either group too.

    Raises
    ------
    ValueError
        Lengths that differ, rows that do not fit, a k without that many candidates.
    TypeError
        Entities that are no integers, flags that are no booleans.

    Notes
    -----
    O(gold ids x max(k)) time, O(gold ids) memory beyond the input.

    Examples
    --------
    Four mentions: gold 7; gold 4 or 5; gold outside the KB; not annotated.

    >>> scores = linking_scores([0, 1, 3, 4, 4], [7, 4, 5, -1], [7, 3, 2, 1],
    ...                         candidates=[[7, 1], [3, 5], [2, -1], [1, 0]], k=[1, 2])
    >>> print(scores)
    all: accuracy 0.3333 (1/3), in KB 0.5000 (1/2), recall@1 0.3333, recall@2 0.6667
    left out: 0 NIL without an id, 1 not annotated

    """
    gold = Gold.from_arrays(gold_indptr, gold_indices, annotated=annotated)
    entity = integer_array(predicted, name="predicted", low=-1)
    if len(entity) != len(gold):
        raise ValueError(f"predicted has {len(entity)} mentions, gold_indptr describes {len(gold)}")
    ks = tuple(map(int, k))
    rank = _gold_rank(gold, candidates, ks)
    concept, in_kb, correct = gold.has_concept, gold.in_kb, gold.accepts(entity)

    def count(group: BoolArray) -> LinkingCounts:
        return LinkingCounts(
            mentions=int(group.sum()),
            in_kb=int((group & in_kb).sum()),
            correct=int((group & correct).sum()),
            found=tuple(int((group & (rank < k)).sum()) for k in ks),
            k=ks,
        )

    was_seen = None if seen is None else boolean_array(seen, name="seen", length=len(gold))
    return LinkingScores(
        overall=count(concept),
        seen=None if was_seen is None else count(concept & was_seen),
        unseen=None if was_seen is None else count(concept & ~was_seen),
        no_concept=int((gold.annotated & ~concept).sum()),
        not_annotated=int((~gold.annotated).sum()),
    )


def _gold_rank(gold: Gold, candidates: npt.ArrayLike | None, ks: tuple[int, ...]) -> IntArray:
    """Position of the first candidate that is a gold id, counted from 0; a large number if none is."""
    rank = np.full(len(gold), np.iinfo(np.int64).max)
    if not ks:
        return rank
    if candidates is None:
        raise ValueError(f"recall at k={list(ks)} needs candidates")
    table = integer_array(candidates, name="candidates", n_axes=2, low=-1)
    if len(table) != len(gold):
        raise ValueError(f"candidates has {len(table)} rows, gold_indptr describes {len(gold)} mentions")
    if min(ks) < 1 or max(ks) > table.shape[1]:
        raise ValueError(f"k={list(ks)} must lie in 1..{table.shape[1]}, the number of candidates a mention")
    for position in reversed(range(max(ks))):
        rank[gold.accepts(table[:, position])] = position
    return rank
