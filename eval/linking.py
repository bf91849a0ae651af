"""Entity linking: the outcome of each mention, accuracy, and recall of the candidates."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, Brief, IntArray, Labels, boolean_array, integer_array
from .ratio import ratio

_CELLS = 1 << 20  # number of candidates to compare at once, which bounds the memory


@dataclass(frozen=True)
class LinkingCounts:
    """Counts of a group of mentions, and their ratios."""

    mentions: int  # mentions with a gold concept, that is, a gold id inside or outside the knowledge base (KB)
    in_kb: int  # mentions with a gold id inside the KB
    correct: int  # mentions whose predicted entity is one of their gold ids
    found: tuple[int, ...] = ()  # mentions with a gold id among the first k candidates, for each k
    k: tuple[int, ...] = ()  # each k, in the order of ``found``
    retrieved: int | None = None  # mentions with a gold id among their candidates; None without candidates
    correct_retrieved: int | None = None  # retrieved mentions that are linked to a gold id

    @property
    def accuracy(self) -> float:
        """Share of the mentions with a gold concept that are linked to a gold id."""
        return ratio(self.correct, self.mentions)

    @property
    def accuracy_in_kb(self) -> float:
        """Share of the mentions with a gold id inside the KB that are linked to a gold id."""
        return ratio(self.correct, self.in_kb)

    @property
    def accuracy_normalized(self) -> float | None:
        """Share of the mentions with a gold candidate that are linked to a gold id; None without candidates."""
        return None if self.retrieved is None else ratio(self.correct_retrieved or 0, self.retrieved)

    @property
    def recall(self) -> dict[int, float]:
        """For each k, share of the mentions with a gold concept that have a gold id among their first k candidates."""
        return {k: ratio(found, self.mentions) for k, found in zip(self.k, self.found, strict=True)}

    @property
    def recall_in_kb(self) -> dict[int, float]:
        """For each k, share of the mentions with a gold id inside the KB that have one among the first k candidates."""
        return {k: ratio(found, self.in_kb) for k, found in zip(self.k, self.found, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios by name, ready for JSON."""
        ratios = ("accuracy", "accuracy_in_kb", "accuracy_normalized", "recall", "recall_in_kb")
        return asdict(self) | {name: getattr(self, name) for name in ratios}

    def __str__(self) -> str:
        normalized = ""
        if self.retrieved is not None:
            normalized = f", normalised {self.accuracy_normalized:.4f} ({self.correct_retrieved}/{self.retrieved})"
        return (
            f"accuracy {self.accuracy:.4f} ({self.correct}/{self.mentions}), "
            f"in KB {self.accuracy_in_kb:.4f} ({self.correct}/{self.in_kb}){normalized}{_recall_text(self.recall)}"
        )


@dataclass(frozen=True)
class MacroScores:
    """Unweighted means over groups of mentions, such as types or domains.

    A group counts in a mean if the denominator of its ratio is not 0; a mean of no groups is 0.
    """

    accuracy: float
    accuracy_normalized: float | None  # None without candidates
    recall: dict[int, float]  # mean recall by k
    groups: dict[Any, LinkingCounts]  # by label, as the labels first occur; groups without a concept are in no mean

    def as_dict(self) -> dict[str, Any]:
        """Return the means and the counts of each group; ready for JSON where the labels are strings or numbers."""
        return asdict(self) | {"groups": {label: counts.as_dict() for label, counts in self.groups.items()}}

    def __str__(self) -> str:
        normalized = "" if self.accuracy_normalized is None else f", normalised {self.accuracy_normalized:.4f}"
        n_groups = sum(counts.mentions > 0 for counts in self.groups.values())
        return f"accuracy {self.accuracy:.4f}{normalized}{_recall_text(self.recall)} ({n_groups} groups)"


def _recall_text(recall: Mapping[int, float]) -> str:
    return "".join(f", recall@{k} {value:.4f}" for k, value in recall.items())


@dataclass(frozen=True, eq=False, repr=False)
class LinkingOutcomes(Brief):
    """The outcome of each mention, from which all counts and ratios of linking are computed.

    ``correct`` implies ``in_kb``, which implies ``concept``, which implies ``annotated``.
    """

    annotated: BoolArray  # (mentions,) whether it is annotated; otherwise it is left out
    concept: BoolArray  # (mentions,) whether it has a gold concept, that is, a gold id
    in_kb: BoolArray  # (mentions,) whether it has a gold id inside the knowledge base (KB)
    correct: BoolArray  # (mentions,) whether it is linked to a gold id
    rank: IntArray | None = None  # (mentions,) position of the first gold candidate, from 0; `width` if there is none
    width: int = 0  # number of candidates of a mention; 0 without candidates

    def __len__(self) -> int:
        return len(self.concept)

    def count(self, chosen: npt.ArrayLike | None = None, *, k: Sequence[int] = ()) -> LinkingCounts:
        """Count the mentions with a concept; a boolean array can select some of them; errors are those of `macro`."""
        flags = self.concept if chosen is None else boolean_array(chosen, name="chosen", length=len(self))
        (counts,) = self._count(np.where(flags, 0, -1), 1, k)
        return counts

    def macro(self, labels: Labels, *, k: Sequence[int] = (), name: str = "labels") -> MacroScores:
        """Count the mentions with a concept by group, and return the means over groups; the label None means no group.

        Every label has counts, even if none of its mentions has a concept; errors call the labels ``name``. O(mentions)
        time for each count. Raise ValueError if the number of labels is wrong, or a k is not from 1 to the number of
        candidates, and TypeError if the labels are unordered or cannot be hashed.

        >>> outcomes = linking_outcomes([0, 1, 2, 3], [7, 4, 3], [7, 5, 3])
        >>> {label: counts.accuracy for label, counts in outcomes.macro(["a", "a", None]).groups.items()}
        {'a': 0.5}
        """
        if isinstance(labels, str | bytes | Set | Mapping | None):
            raise TypeError(f"{name} is of type {type(labels).__name__}, not an array or a list of labels")
        named = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        if len(named) != len(self):
            raise ValueError(f"{name} has length {len(named)}, not {len(self)}; give one label for each mention")
        number = {label: i for i, label in enumerate(dict.fromkeys(label for label in named if label is not None))}
        group = np.array([number.get(label, -1) for label in named], np.int64)
        groups = dict(zip(number, self._count(group, len(number), k), strict=True))
        with_concept = [counts for counts in groups.values() if counts.mentions]
        normalized = [counts.accuracy_normalized or 0.0 for counts in with_concept if counts.retrieved]
        recall = [counts.recall for counts in with_concept]
        return MacroScores(
            accuracy=fmean([counts.accuracy for counts in with_concept] or [0.0]),
            accuracy_normalized=None if self.rank is None else fmean(normalized or [0.0]),
            recall={at: fmean([of_group[at] for of_group in recall] or [0.0]) for at in self._checked(k)},
            groups=groups,
        )

    def _count(self, group: IntArray, n_groups: int, k: Sequence[int]) -> list[LinkingCounts]:
        """Count each group; a mention of group -1 is left out."""
        ks = self._checked(k)
        flags = [self.concept, self.in_kb, self.correct]
        if self.rank is not None:
            in_list = self.rank < self.width
            flags += [in_list, in_list & self.correct, *(self.rank < at for at in ks)]
        place = group + 1  # place 0 is discarded
        rows = zip(*(np.bincount(place[flag], minlength=n_groups + 1)[1:].tolist() for flag in flags), strict=True)
        values = ((*row[:3], tuple(row[5:]), ks, *row[3:5]) for row in rows)
        return [LinkingCounts(*of_group) for of_group in values]

    def _checked(self, k: Sequence[int]) -> tuple[int, ...]:
        ks = tuple(integer_array(k, name="k", low=1).tolist())
        if ks and self.rank is None:
            raise ValueError(f"recall at k={list(ks)} needs candidates; give candidates, or leave k out")
        if max(ks, default=0) > self.width:
            raise ValueError(f"k={list(ks)} has {max(ks)}, but a mention has {self.width} candidates; give a smaller k")
        return ks


@dataclass(frozen=True)
class LinkingScores(LinkingCounts):
    """The result of `linking_scores`: counts of all mentions and of groups, and the numbers of mentions left out."""

    seen: LinkingCounts | None = None  # mentions whose gold concept occurs in the training data; None if unknown
    unseen: LinkingCounts | None = None  # mentions whose gold concept does not; None if unknown
    no_concept: int = 0  # left out: mentions annotated as NIL without a gold id
    not_annotated: int = 0  # left out: mentions without an annotation
    macro: dict[str, MacroScores] = field(default_factory=dict)  # the means over groups, by the name of the grouping

    @classmethod
    def of(
        cls,
        outcomes: LinkingOutcomes,
        *,
        k: Sequence[int] = (),
        seen: npt.ArrayLike | None = None,
        groups: Mapping[str, Labels] | None = None,
    ) -> Self:
        """Compute the scores of outcomes; see `linking_scores` for the parameters."""
        was_seen = None if seen is None else boolean_array(seen, name="seen", length=len(outcomes))
        named = (groups or {}).items()
        return cls(
            **vars(outcomes.count(k=k)),
            seen=None if was_seen is None else outcomes.count(was_seen, k=k),
            unseen=None if was_seen is None else outcomes.count(~was_seen, k=k),
            no_concept=int((outcomes.annotated & ~outcomes.concept).sum()),
            not_annotated=int((~outcomes.annotated).sum()),
            macro={name: outcomes.macro(labels, k=k, name=f"groups[{name!r}]") for name, labels in named},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures of all mentions, and of groups under `seen`, `unseen` and `macro`, ready for JSON."""
        return {
            **super().as_dict(),
            "seen": self.seen.as_dict() if self.seen else None,
            "unseen": self.unseen.as_dict() if self.unseen else None,
            "macro": {name: scores.as_dict() for name, scores in self.macro.items()},
        }

    def __str__(self) -> str:
        groups = {"seen": self.seen, "unseen": self.unseen}
        lines = [f"all: {super().__str__()}", *(f"{name}: {of}" for name, of in groups.items() if of and of.mentions)]
        counted = {name: any(of.mentions for of in scores.groups.values()) for name, scores in self.macro.items()}
        means = [f"mean by {name}: {scores}" for name, scores in self.macro.items() if counted[name]]
        left_out = f"left out: {self.no_concept} NIL without an id, {self.not_annotated} not annotated"
        return "\n".join([*lines, *means, left_out])


def linking_scores(
    gold_indptr: npt.ArrayLike,
    gold_indices: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    annotated: npt.ArrayLike | None = None,
    candidates: npt.ArrayLike | None = None,
    k: Sequence[int] = (),
    seen: npt.ArrayLike | None = None,
    groups: Mapping[str, Labels] | None = None,
) -> LinkingScores:
    """Compute the accuracy of links to gold ids, and the recall of candidates.

    Accuracy is ``|{m in C : predicted(m) in gold(m)}| / |C|``, where ``C`` are the mentions with a gold concept. A gold
    id outside the knowledge base (KB) cannot be predicted, so such a mention counts as wrong. Two further accuracies
    are over the mentions with a gold id inside the KB and, normalised, over the mentions with a gold id among their
    candidates, which measures only ranking. Recall@k is the same with "one of the first k candidates", over ``C``.

    Sources: Logeswaran et al. 2019, Zero-shot entity linking by reading entity descriptions,
    https://aclanthology.org/P19-1335 (normalised accuracy, means over domains); Wu et al. 2020, Scalable zero-shot
    entity linking with dense entity retrieval, https://aclanthology.org/2020.emnlp-main.519 (unnormalised accuracy).
    O(gold ids x candidates per mention + mentions x (k + groupings)) time.

    ``k`` lists the k of recall@k, each from 1 to the width of the candidates. ``seen`` says whether each mention's gold
    concept occurs in the training data; it adds scores for seen and for unseen mentions. ``groups`` maps the name of
    each grouping to the labels of the mentions, or None, such as ``{"type": types, "domain": domains}``; it adds means
    over the groups. The other arguments are those of `linking_outcomes`. The errors are those of `linking_outcomes` and
    `LinkingOutcomes.macro`; raise TypeError also if ``seen`` does not hold booleans.

    Four mentions: gold 7; gold 4 or 5; gold outside the KB; not annotated.

    >>> scores = linking_scores([0, 1, 3, 4, 4], [7, 4, 5, -1], [7, 3, 2, 1], k=[2],
    ...                         candidates=[[7, 1], [3, 5], [2, -1], [1, 0]], groups={"type": [*"aabb"]})
    >>> print(scores)
    all: accuracy 0.3333 (1/3), in KB 0.5000 (1/2), normalised 0.5000 (1/2), recall@2 0.6667
    mean by type: accuracy 0.2500, normalised 0.5000, recall@2 0.5000 (2 groups)
    left out: 0 NIL without an id, 1 not annotated
    """
    outcomes = linking_outcomes(gold_indptr, gold_indices, predicted, annotated=annotated, candidates=candidates)
    return LinkingScores.of(outcomes, k=k, seen=seen, groups=groups)


def linking_outcomes(
    gold_indptr: npt.ArrayLike,
    gold_indices: npt.ArrayLike,
    predicted: npt.ArrayLike,
    *,
    annotated: npt.ArrayLike | None = None,
    candidates: npt.ArrayLike | None = None,
) -> LinkingOutcomes:
    """Return whether each mention is linked to one of its gold ids, and the position of its first gold candidate.

    Positions count from 0; the width of ``candidates`` means that none is gold. Without ``candidates``, `rank` is None.
    Any of a mention's gold ids is correct. Four cases follow for the knowledge base (KB):

    ============================  ==============================================
    some id is in the KB          it has a concept, and can be linked
    all ids are outside           it has a concept, and is NIL
    no id, but annotated          it has no concept, and is NIL
    no id, and not annotated      it is unknown, and is left out everywhere
    ============================  ==============================================

    Args:
        gold_indptr: (mentions + 1,) mention i accepts ``gold_indices[gold_indptr[i] : gold_indptr[i + 1]]``.
        gold_indices: (gold ids,) entities; -1 means an id outside the knowledge base.
        predicted: (mentions,) entity, or -1 for NIL.
        annotated: (mentions,) booleans; by default, a mention is annotated if it has a gold id. A mention without gold
            ids counts as NIL if it is annotated; otherwise it is unknown, and is left out.
        candidates: (mentions, width) entities, best first, padded with -1.

    Raises:
        ValueError: lengths differ, ``gold_indptr`` does not fit ``gold_indices``, an entity is below -1, or a mention
            with gold ids is not annotated.
        TypeError: entities are not integers, or ``annotated`` does not hold booleans.

    >>> outcomes = linking_outcomes([0, 1, 3], [7, 4, 5], [7, 3], candidates=[[1, 7], [3, 2]])
    >>> outcomes.correct, outcomes.rank
    (array([ True, False]), array([1, 2]))
    """
    pointers = integer_array(gold_indptr, name="gold_indptr")
    ids = integer_array(gold_indices, name="gold_indices", low=-1)
    if not len(pointers) or pointers[0] != 0 or pointers[-1] != len(ids):
        problem = f"goes from {pointers[0]} to {pointers[-1]}" if len(pointers) else "is empty"
        raise ValueError(f"gold_indptr must go from 0 to {len(ids)}, the number of gold ids, but {problem}")
    if ((lengths := np.diff(pointers)) < 0).any():
        raise ValueError(f"gold_indptr decreases after position {np.argmax(lengths < 0)} (from 0), but must not")
    n, concept = len(lengths), lengths > 0
    flags = concept if annotated is None else boolean_array(annotated, name="annotated", length=n)
    if len(odd := np.flatnonzero(~flags & concept)):
        problem = f"annotated is False for mention {odd[0]} (from 0), which has gold ids"
        raise ValueError(f"{problem} (such mentions: {len(odd)}); set it to True, or remove the ids")
    entity = integer_array(predicted, name="predicted", low=-1, length=n)
    inside = ids >= 0
    mention, gold = np.repeat(np.arange(n), lengths)[inside], ids[inside]
    in_kb, correct = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    in_kb[mention] = True
    correct[mention[entity[mention] == gold]] = True
    if candidates is None:
        return LinkingOutcomes(flags, concept, in_kb, correct)
    table = integer_array(candidates, name="candidates", n_axes=2, low=-1, length=n)
    width = table.shape[1]
    rank, step = np.full(n, width), max(1, _CELLS // max(1, width))
    for start in range(0, len(gold), step):
        block = slice(start, start + step)
        row, column = np.nonzero(table[mention[block]] == gold[block, None])
        np.minimum.at(rank, mention[block][row], column)
    return LinkingOutcomes(flags, concept, in_kb, correct, rank, width)
