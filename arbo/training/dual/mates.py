"""Edges of an edge model between the mentions of each gold cluster, for the trees of `pick_positives`."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from arbo.edges.facts import Facts
from arbo.edges.model import EdgeModel
from arbo.engine import Floats, Ids
from arbo.training.data import TrainingSet


class Mates(NamedTuple):
    """Pairs of mentions of one gold cluster; the arrays have a value for each pair."""

    first: Ids
    second: Ids
    weight: Floats
    """The weight of the edge, as in linking: about 1 minus the probability that both mean the same."""

    @classmethod
    def of(cls, data: TrainingSet, edges: EdgeModel) -> Self:
        """Weigh all pairs of each cluster that the edge model compares, in time quadratic in the size of clusters.

        Mentions that name nothing (see `Facts.nameless`) are compared only within their document.
        """
        facts = Facts.of(data.inputs)
        rank, document = facts.columns["rank"], facts.columns["document"]
        trained = data.queries
        order = trained[np.lexsort((rank[trained], data.cluster[trained]))]
        cluster = data.cluster[order]
        last = np.searchsorted(cluster, cluster, side="right")
        count = last - np.arange(len(order)) - 1
        first = np.repeat(np.arange(len(order)), count)
        second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
        first, second = order[first], order[second]
        kept = (document[first] == document[second]) | ~(facts.nameless[first] | facts.nameless[second])
        first, second = first[kept], second[kept]
        return cls(first, second, edges.weights(facts, first, second))

    def nearest(self, n: int) -> Ids:
        """Return the mention at the lightest edge of each of ``n`` mentions, the first of equals; -1 for none."""
        target, source = np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])
        order = np.lexsort((source, np.tile(self.weight, 2), target))
        mention, place = np.unique(target[order], return_index=True)
        found = np.full(n, -1)
        found[mention] = source[order][place]
        return found
