"""Giants: discovered clusters that have swallowed too much, and the edges that did it; see `arbo.linking.chaining`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from arbo.data.documents import Mention
from arbo.results.run import Run


@dataclass(frozen=True, slots=True)
class Bridge:
    """An edge between two large parts of a cluster."""

    mentions: tuple[Mention, Mention]
    names: tuple[str, str]
    """What was compared: their texts, abbreviations written out."""
    dissimilarity: float
    sides: tuple[int, int]
    """How many mentions stand on either side of it in the cluster's tree."""

    def __str__(self) -> str:
        ends = (
            f'"{name}" in {mention.document_id} ({mention.id})'
            for name, mention in zip(self.names, self.mentions, strict=True)
        )
        return f"{self.dissimilarity:.3f}  {' ~ '.join(ends)}, between {self.sides[0]:,} and {self.sides[1]:,} mentions"


@dataclass(frozen=True, slots=True)
class Giant:
    """A discovered cluster with more than 20 mentions and more than 5 % of all, under ten names or more in effect.

    The names in effect are one divided by the chance that two of its mentions, picked at random, have the same name.
    """

    cluster: str
    """Its id."""
    mentions: int
    share: float
    """Of all mentions."""
    names: int
    """Different names of its mentions, in lower case."""
    splits_below: float
    """Just below this mention threshold no part of it is a giant."""
    bridges: tuple[Bridge, ...]
    """The edges that join its largest parts, see `clustering.bridges`: at most three, and only those whose smaller part
    has a tenth or more of the first one's."""

    def __str__(self) -> str:
        head = (
            f"one discovered cluster, {self.cluster}, holds {self.share:.0%} of all mentions: {self.mentions:,} under "
            f"{self.names:,} names; the edges that join its largest parts:"
        )
        below = math.floor(self.splits_below * 1000) / 1000
        tail = f"lower the mention threshold below {below:.3f}, where it falls apart into parts of usual size"
        if below == 0:
            tail = "no mention threshold splits it: its mentions have equal vectors"
        return "\n".join([head, *(f"    {bridge}" for bridge in self.bridges), tail])


def giants_of(result: Run) -> tuple[Giant, ...]:
    """Return the giants of a result; see `Result.giants`."""
    return tuple(
        Giant(**{**row, "bridges": tuple(_bridge(result, **bridge) for bridge in row["bridges"])})
        for row in result.manifest.get("giants", ())
    )


def _bridge(result: Run, *, mentions: Sequence[str], dissimilarity: float, sides: Sequence[int]) -> Bridge:
    ends = [result.link_of(id_) for id_ in mentions]
    a, b = (end.mention for end in ends)
    names = [end.expansion or end.mention.text for end in ends]
    return Bridge((a, b), (names[0], names[1]), dissimilarity, (sides[0], sides[1]))
