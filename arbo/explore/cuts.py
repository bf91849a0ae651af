"""Partitions of a run at other thresholds: the graph is built again from the lists that the run keeps.

The partitions are those of the engine. One threshold moves, while the other stays as in the run. They are kept as
differences: for each threshold, the mentions that change from the threshold next to it, on the side of the run's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from arbo.engine import Edges, Graph, Partition, partition
from arbo.results.run import Run, numbered

Ints = npt.NDArray[np.int64]

STEPS = 32
"""Number of values of each of the two thresholds."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """The graph of a run, and its partitions; mentions are in the order of `Corpus.order`."""

    run: Run
    graph: Graph
    order: Ints
    """(mentions,) the row in the tables of each mention of the graph."""
    nearest: Ints
    """(mentions, 1) the row in the knowledge base of the nearest entity, -1 for none; of width 0 without entities."""

    def at(self, entity: float, mention: float) -> Partition:
        """Return the partition at two thresholds."""
        config = self.run.manifest["config"]
        nil = self.run.manifest["threshold"].get("nil")
        linkage = config.get("nil_linkage", "single")
        return partition(self.graph, config["method"], (entity, mention), nil_linkage=linkage, nil_threshold=nil)

    @cached_property
    def own(self) -> Partition:
        """The partition of the run."""
        threshold = self.run.manifest["threshold"]
        return self.at(threshold["entity"], threshold["mention"])

    def roots(self, found: Partition) -> Ints:
        """Return the root of each row of the tables, (mentions,).

        It is the row of the entity in the knowledge base or, for NIL, -1 minus the row of the first mention.
        """
        labels = found.labels[found.n_entities :].astype(np.int64)
        is_nil = labels >= found.n_entities
        root = np.empty_like(labels)
        root[self.order] = np.where(is_nil, -1 - self.order[np.where(is_nil, labels - found.n_entities, 0)], labels)
        return root

    def thresholds(self, kind: str) -> list[float]:
        """Return the values of a threshold, ascending, at most `STEPS`; the run's own is one of them.

        Beyond what the search of the run recorded, it is blind, so that no value lies there.
        """
        is_entity, own = self.graph.source < self.graph.n_entities, float(self.run.manifest["threshold"][kind])
        weight = self.graph.weight[is_entity if kind == "entity" else ~is_entity]
        within = self.run.manifest["search"].get("within") if kind == "mention" else None
        if not len(weight):
            return [own]
        low, high = float(weight.min()), float(weight.max())
        grid = np.unique(np.round(np.linspace(low, high, STEPS - 1), 3))
        grid = grid[grid <= (np.inf if within is None else within)]
        return sorted({*grid[np.abs(grid - own) > 1e-9].tolist(), own})

    def changes(self, kind: str) -> tuple[list[float], list[tuple[Ints, Ints]]]:
        """Return the values of a threshold, and for each the rows that change there and their new roots."""
        values, threshold = self.thresholds(kind), self.run.manifest["threshold"]
        middle = values.index(float(threshold[kind]))
        found: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))] * len(values)
        for side in (range(middle + 1, len(values)), range(middle - 1, -1, -1)):
            before = self.roots(self.own)
            for place in side:
                now = self.roots(self.at(**{**_limits(threshold), kind: values[place]}))
                rows = np.flatnonzero(now != before)
                found[place], before = (rows, now[rows]), now
        return values, found


def _limits(threshold: dict[str, Any]) -> dict[str, float]:
    return {kind: threshold[kind] for kind in ("entity", "mention")}


def cuts_of(run: Run) -> Cuts | str:
    """Return the cuts of a run, or a sentence that says why there are none."""
    made = run.manifest["encoder"]
    if run.kept is None:
        return "The run keeps no lists of neighbours, so its graph cannot be built again."
    if run.correction_table is not None:
        return "People corrected the run; what other thresholds would do to corrections is not computed."
    if "edges" in made or "reranker" in made:
        return "A model weighed the edges of the run again; the run keeps only the weights before it."
    if not run.mention_table.num_rows:
        return "The run has no mentions."
    kept, k = run.kept(), run.manifest["config"]["k"]
    mentions = kept["mentions"][:, :k], kept["mention_dissimilarity"][:, :k]
    entities = kept["entities"][:, :1], kept["entity_dissimilarity"][:, :1]
    n_entities = int(entities[0].max(initial=-1)) + 1
    graph = Graph.from_neighbors(mentions, entities, n_entities=n_entities)
    cuts = Cuts(run, graph, numbered(run.mention_table), entities[0])
    if not _same(cuts.roots(cuts.own), run):
        return "The graph, built again from the lists that the run keeps, gives other clusters than those of the run."
    return cuts


def _same(root: Ints, run: Run) -> bool:
    """Return whether the roots are one for each cluster, and NIL exactly for the discovered clusters."""
    pairs = np.unique(np.column_stack([root, run.cluster_rows]), axis=0)
    is_nil = run.cluster_table["entity_id"].is_null().to_numpy()[pairs[:, 1]]
    one_each = len(pairs) == len(np.unique(root)) == run.cluster_table.num_rows
    return one_each and bool(((pairs[:, 0] < 0) == is_nil).all())


def nil_edges(cuts: Cuts) -> Edges:
    """Return the edges of the trees of the NIL clusters, between rows of the tables."""
    tree, labels = cuts.own.tree(), cuts.own.labels[cuts.own.n_entities :]
    inside = labels[tree.source] == labels[tree.target]
    source, target = (cuts.order[own[inside]] for own in (tree.source, tree.target))
    return Edges(source, target, tree.height[inside])
