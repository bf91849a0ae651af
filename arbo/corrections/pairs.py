"""The pairs of rows that a review of a list asks, and what the answers say of all pairs.

A pair comes the earlier, the nearer its probability is to 0.5. But chance takes part, so that the answered pairs are a
sample of all (priority sampling; Duffield, Lund and Thorup 2007).
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from arbo.results.graphs import edges_of
from arbo.results.run import Bools, Floats, Ints, Run

_SURE = 0.01  # the doubt about a pair without any, so that sure pairs are asked too


class DrawnPairs(NamedTuple):
    """The pairs of a list with an edge, in the order in which they are asked; each array has a value for each."""

    first: Ints
    second: Ints  # rows of the mentions in the run
    together: Bools  # whether they are in one cluster
    probability: Floats
    doubt: Floats
    priority: Floats  # the doubt, divided by a number drawn between 0 and 1; descending

    @classmethod
    def of(cls, run: Run) -> Self | None:
        """Draw the pairs of a run, always in the same order; None unless it is of names alone or of a table."""
        if "model" not in run.manifest["encoder"].get("edges", {}):
            return None
        (first, second), probability = edges_of(run)
        first, second, probability = (one[probability <= 1] for one in (first, second, probability))  # not equal names
        draw, cluster = np.random.default_rng(0).random(len(run.mention_table)), run.cluster_rows
        doubt = _SURE + np.minimum(probability, 1 - probability)
        priority = doubt / np.maximum((draw[first] + draw[second]) % 1, 1e-9)
        order = np.argsort(-priority, kind="stable")
        values = first, second, cluster[first] == cluster[second], probability, doubt, priority
        return cls(*(one[order] for one in values))

    def rates(self, answers: Mapping[frozenset[int], bool]) -> dict[str, tuple[float, float]]:
        """Return 95 % intervals of the precision and recall of the pairs; ``answers`` say whether two rows are one.

        Pairs that were skipped count as missing at random. Without an answer to a drawn pair, nothing is returned.
        """
        rows = zip(self.first[: 2 * len(answers)].tolist(), self.second.tolist(), strict=False)
        replies = [(place, answers[pair]) for place, pair in enumerate(map(frozenset, rows)) if pair in answers]
        if not replies:
            return {}
        place, right = map(np.array, zip(*replies, strict=True))
        n = place[-1] + 1
        least = self.priority[n] if n < len(self.priority) else 1e-9
        chance = np.minimum(1, self.doubt[place] / least) * len(place) / n
        draw, n_right = np.random.default_rng(0), []
        for side in (self.together, ~self.together):
            weight = 1 / chance[side[place]]
            share = weight @ right[side[place]] / max(weight.sum(), 1)
            size = weight.sum() ** 2 / max(weight @ (weight - 1), 1e-9)
            n_right.append(side.sum() * draw.beta(share * size + 0.5, (1 - share) * size + 0.5, 10_000))
        rates = {"precision": n_right[0] / max(self.together.sum(), 1), "recall": n_right[0] / sum(n_right)}
        return {rate: tuple(np.quantile(values, (0.025, 0.975)).tolist()) for rate, values in rates.items()}
