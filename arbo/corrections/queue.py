"""What a reviewer should look at next: the mentions of a run by the number of errors that a look is expected to mend.

A decision on a mention counts for its twins too: the mentions of the same compared name, type and domain, which
corrections with ``spread`` follow. So names are asked, not mentions, and a name is worth the number of its mentions
times its *doubt*:

- for a link, 1 minus its confidence; in a run that was not tuned, the share of the links with a higher similarity times
  the share of those with a larger margin over the second entity, half of the equal ones counted in both;
- for a mention of a discovered entity, 0.5, times the logarithm of the size of its cluster to base 2, plus 1: a
  decision on one name of a large cluster divides it.

With the gold annotations as the reviewer, this order is compared with others by ``benchmarks/review.py``.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.corrections.constraints import name_numbers
from arbo.results.run import Floats, Ints, Run

_UNKNOWN = 0.5
"""Doubt about a mention whose entity is unknown to the knowledge base."""


class Queue(NamedTuple):
    """Mentions to look at, one for each name, the most useful first; the arrays have a value for each."""

    rows: Ints
    """Rows of the mentions in the run: for each name the one with the largest doubt."""
    twins: Ints
    """Number of mentions of the name that nobody decided yet, this one included."""
    doubt: Floats
    """Between 0 and 1 for links; for discovered entities, see above."""

    @property
    def gain(self) -> Floats:
        """(names,) the number of wrong mentions that a decision on the name is expected to mend."""
        return self.twins * self.doubt

    @classmethod
    def of(
        cls, run: Run, decided: Iterable[str] = (), dropped: Iterable[str] = (), *, name: Ints | None = None
    ) -> Self:
        """Order the names of a run by `gain`; names with the same gain are in the order of the documents.

        ``decided`` are the ids of mentions on which somebody decided: their names are left out. Of ``dropped``, which
        are no mentions, only they themselves are. ``name`` is what `names_of` returns, if it is known.
        """
        name, doubt = names_of(run) if name is None else name, doubts(run)
        left = ~np.isin(name, name[[run.row_of[id_] for id_ in decided if id_ in run.row_of]])
        left[[run.row_of[id_] for id_ in dropped if id_ in run.row_of]] = False
        rows = np.flatnonzero(left)
        rows = rows[np.lexsort([rows, -doubt[rows], name[rows]])]
        first = np.flatnonzero(np.append(True, np.diff(name[rows]) != 0)[: len(rows)])
        queue = cls(rows[first], np.diff(np.append(first, len(rows))), doubt[rows[first]])
        order = np.lexsort([queue.rows, -queue.gain])
        return cls(queue.rows[order], queue.twins[order], queue.doubt[order])


def names_of(run: Run) -> Ints:
    """Return the `name_numbers` of the mentions of a run."""
    return name_numbers(run.mention_table, per_document=run.manifest["config"].get("per_document") is True)


def doubts(run: Run) -> Floats:
    """Return the doubt about each mention of a run, as `arbo.corrections.queue` defines it; (mentions,)."""
    links = run.link_table
    linked = pc.is_valid(links["entity_id"]).to_numpy()
    size = pc.cast(run.cluster_table["size"], pa.float64()).to_numpy()[run.cluster_rows]
    doubt: Floats = _UNKNOWN * (1 + np.log2(size))
    if "confidence" in links.column_names:
        confidence = pc.fill_null(links["confidence"], _UNKNOWN).to_numpy()
        doubt[linked] = 1 - confidence[linked]
    elif linked.any():
        shares = [_above(pc.fill_null(links[by], float("inf")).to_numpy()[linked]) for by in ("score", "margin")]
        doubt[linked] = np.prod(shares, axis=0)
    return doubt


def _above(values: npt.NDArray[np.floating[Any]]) -> Floats:
    """Return the share of the values that are above each; of those equal to it, half count."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank: Floats = (np.cumsum(count) - (count - 1) / 2)[place]  # as `scipy.stats.rankdata`, whose import takes a second
    return 1 - (rank - 0.5) / len(values)
