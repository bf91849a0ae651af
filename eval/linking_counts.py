"""Counts of linked mentions by group: accuracy, recall of the candidates, and means over groups."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .ratio import ratio


@dataclass(frozen=True)
class LinkingCounts:
    """Counts of a group of mentions, and their ratios."""

    mentions: int
    """mentions with a gold concept, inside or outside the knowledge base (KB)"""
    in_kb: int
    """mentions with a gold id inside the KB"""
    correct: int
    """mentions whose predicted entity is one of their gold ids"""
    found: tuple[int, ...] = ()
    """mentions with a gold id among the first k candidates, for each k"""
    k: tuple[int, ...] = ()
    retrieved: int | None = None
    """mentions with a gold id among all the candidates; None without candidates"""
    correct_retrieved: int | None = None
    """retrieved mentions whose predicted entity is one of their gold ids"""

    @property
    def accuracy(self) -> float:
        """Share of mentions linked to a gold id, of the mentions with a gold concept."""
        return ratio(self.correct, self.mentions)

    @property
    def accuracy_in_kb(self) -> float:
        """Share of mentions linked to a gold id, of the mentions with a gold id inside the KB."""
        return ratio(self.correct, self.in_kb)

    @property
    def accuracy_normalized(self) -> float | None:
        """Share of mentions linked to a gold id, of the mentions with a gold id among their candidates."""
        if self.retrieved is None or self.correct_retrieved is None:
            return None
        return ratio(self.correct_retrieved, self.retrieved)

    @property
    def recall(self) -> dict[int, float]:
        """Share of mentions with a gold id among k candidates, of the mentions with a gold concept, by k."""
        return {k: ratio(found, self.mentions) for k, found in zip(self.k, self.found, strict=True)}

    @property
    def recall_in_kb(self) -> dict[int, float]:
        """The same share, of the mentions with a gold id inside the KB, by k."""
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
    accuracy_normalized: float | None
    """None without candidates"""
    recall: dict[int, float]
    groups: dict[Any, LinkingCounts]
    """The counts by label, in the order of the mentions, including groups without a concept, which are in no mean."""

    def as_dict(self) -> dict[str, Any]:
        """Return the means and the counts of each group; ready for JSON where the labels are strings or numbers."""
        groups = {label: counts.as_dict() for label, counts in self.groups.items()}
        return {
            "accuracy": self.accuracy,
            "accuracy_normalized": self.accuracy_normalized,
            "recall": self.recall,
            "groups": groups,
        }

    def __str__(self) -> str:
        normalized = "" if self.accuracy_normalized is None else f", normalised {self.accuracy_normalized:.4f}"
        n_groups = sum(counts.mentions > 0 for counts in self.groups.values())
        return f"accuracy {self.accuracy:.4f}{normalized}{_recall_text(self.recall)} ({n_groups} groups)"


def _recall_text(recall: Mapping[int, float]) -> str:
    return "".join(f", recall@{k} {value:.4f}" for k, value in recall.items())
