"""Giants: discovered clusters that are too large; see `arbo.linking.chaining`."""

import math
from dataclasses import dataclass

from arbo.engine import NilLinkage
from arbo.results.run import Run


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
    linkage: NilLinkage
    """How the run clustered NIL mentions."""

    def __str__(self) -> str:
        head = (
            f"the discovered cluster {self.cluster} has {self.share:.0%} of all mentions: {self.mentions:,} under "
            f"{self.names:,} names; the page of the run (arbo explore) shows the bridges that join its largest parts"
        )
        below = math.floor(self.splits_below * 1000) / 1000
        kind = "mention" if self.linkage == "single" else "NIL"
        tail = f"set the {kind} threshold below {below:.3f} to split it into parts of usual size"
        return f"{head}\n{tail if below else f'no {kind} threshold splits it: its mentions have equal vectors'}"


def giants_of(result: Run) -> tuple[Giant, ...]:
    """Return the giants of a result; see `Result.giants`."""
    linkage = result.manifest["config"]["nil_linkage"]
    return tuple(Giant(**row, linkage=linkage) for row in result.manifest.get("giants", ()))
