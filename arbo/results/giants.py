"""Giants: discovered clusters that are too large, and the edges that join their parts; see `arbo.linking.chaining`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from arbo.data import Mention
from arbo.data.tables import mentions_in, names_in
from arbo.results.run import Run


@dataclass(frozen=True, slots=True)
class Bridge:
    """An edge between two large parts of a cluster."""

    mentions: tuple[Mention, Mention]
    names: tuple[str, str]
    """The names that were compared: texts of the mentions, with abbreviations replaced by their long forms."""
    dissimilarity: float
    sides: tuple[int, int]
    """Number of mentions on the side of each of ``mentions`` if the edge is removed from the cluster's tree."""

    def __str__(self) -> str:
        ends = (
            f'"{name}" in {mention.document_id} ({mention.id})'
            for name, mention in zip(self.names, self.mentions, strict=True)
        )
        return f"{self.dissimilarity:.3f}  {' ~ '.join(ends)}, between {self.sides[0]:,} and {self.sides[1]:,} mentions"


@dataclass(frozen=True, slots=True)
class Giant:
    """A discovered cluster with more than 20 mentions, more than 5 % of all mentions, and ten or more effective names.

    The number of effective names is 1 divided by the chance that two random mentions of the cluster have the same name.
    """

    cluster: str
    mentions: int
    share: float
    """Share of all mentions."""
    names: int
    """Number of distinct names of its mentions, in lower case."""
    splits_below: float
    """With a mention threshold just below this value (under average linkage, a NIL threshold), no part of the cluster
    is a giant."""
    bridges: tuple[Bridge, ...]
    """At most three edges that join its largest parts, see `clustering.bridges`; none under average linkage. The
    smaller part at an edge has at least a tenth as many mentions as the smaller part at the first edge."""

    def __str__(self) -> str:
        head = (
            f"the discovered cluster {self.cluster} has {self.share:.0%} of all mentions: {self.mentions:,} under "
            f"{self.names:,} names" + ("; the edges that join its largest parts:" if self.bridges else "")
        )
        below = math.floor(self.splits_below * 1000) / 1000
        kind = "mention" if self.bridges else "NIL"
        tail = f"set the {kind} threshold below {below:.3f} to split it into parts of usual size"
        if below == 0:
            tail = f"no {kind} threshold splits it: its mentions have equal vectors"
        return "\n".join([head, *(f"    {bridge}" for bridge in self.bridges), tail])


def giants_of(result: Run) -> tuple[Giant, ...]:
    """Return the giants of a result; see `Result.giants`."""
    return tuple(
        Giant(**{**row, "bridges": tuple(_bridge(result, **bridge) for bridge in row["bridges"])})
        for row in result.manifest.get("giants", ())
    )


def _bridge(result: Run, *, mentions: Sequence[str], dissimilarity: float, sides: Sequence[int]) -> Bridge:
    table = result.mention_table
    ends = table.take(np.array([pc.index(table["mention_id"], id_).as_py() for id_ in mentions]))
    (a, b), names = mentions_in(ends), names_in(ends).to_pylist()
    return Bridge((a, b), (names[0], names[1]), dissimilarity, (sides[0], sides[1]))
