"""Partitions of a run at other thresholds, of the graph that the run keeps, with the decisions that it obeys.

The partitions are those of the engine: where one threshold moves while the other stays as in the run, and where both
have one of a few values. They are kept as differences: the mentions that change from the value next to it, on the side
of the run's own; where both move, the mention threshold does, after the entity threshold.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.tables import numbered
from arbo.engine import Decisions, Edges, Graph, Partition, partition
from arbo.results.graphs import graph_of
from arbo.results.run import Ints, Run

STEPS, PAIRED = 32, 8
"""Numbers of values of each of the two thresholds: where it moves alone, and where both move."""


_NONE: tuple[Ints, Ints] = np.empty(0, np.int64), np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Cuts:
    """The graph of a run, and its partitions; mentions are in the order of `Corpus.order`."""

    run: Run
    graph: Graph
    decisions: Decisions | None
    order: Ints
    """(mentions,) the row in the tables of each mention of the graph."""

    def at(self, entity: float, mention: float) -> Partition:
        """Return the partition at two thresholds."""
        config = self.run.manifest["config"]
        nil = self.run.manifest["threshold"].get("nil")
        linkage = config.get("nil_linkage", "single")
        limits = entity, mention
        return partition(
            self.graph, config["method"], limits, nil_linkage=linkage, nil_threshold=nil, decisions=self.decisions
        )

    @cached_property
    def base(self) -> Partition:
        """The partition of the run."""
        threshold = self.run.manifest["threshold"]
        return self.at(threshold["entity"], threshold["mention"])

    def roots(self, cut: Partition) -> Ints:
        """Return the root of each row of the tables, (mentions,).

        It is the row of the entity in the knowledge base or, for NIL, -1 minus the row of the first mention.
        """
        labels = cut.labels[cut.n_entities :].astype(np.int64)
        is_nil = labels >= cut.n_entities
        root = np.empty_like(labels)
        root[self.order] = np.where(is_nil, -1 - self.order[np.where(is_nil, labels - cut.n_entities, 0)], labels)
        return root

    @cached_property
    def entities(self) -> pa.Array:
        """The ids of the entities of the graph, by row of the knowledge base; null for rows that no edge names."""
        candidates, links = self.run.link_table["candidates"].combine_chunks(), self.run.link_table["entity_id"]
        edge = np.flatnonzero(self.graph.source < self.graph.n_entities)  # in the order of the targets
        target = self.graph.target[edge].astype(np.int64)
        rank = np.arange(len(target)) - np.searchsorted(target, target)
        place = candidates.offsets.to_numpy().astype(np.int64)[self.order[target - self.graph.n_entities]] + rank
        place_of, row_of = (np.full(self.graph.n_entities, -1) for _ in range(2))
        place_of[self.graph.source[edge]] = place
        linked = self.base.entity >= 0
        row_of[self.base.entity[linked]] = self.order[linked]
        near, link = (pa.array(rows, mask=rows < 0) for rows in (place_of, row_of))
        return pc.coalesce(links.combine_chunks().take(link), candidates.values.take(near))

    def thresholds(self, kind: str) -> list[float]:
        """Return the values of a threshold, ascending, at most `STEPS`; the run's own is one of them.

        Beyond what the search of the run recorded, it is blind, so that no value lies there.
        """
        is_entity, limit = self.graph.source < self.graph.n_entities, float(self.run.manifest["threshold"][kind])
        weight = self.graph.weight[is_entity if kind == "entity" else ~is_entity]
        within = self.run.manifest["search"].get("within") if kind == "mention" else None
        if not len(weight):
            return [limit]
        low, high = float(weight.min()), float(weight.max())
        grid = np.unique(np.round(np.linspace(low, high, STEPS - 1), 3))
        grid = grid[grid <= (np.inf if within is None else within)]
        return sorted(
            {*grid[np.abs(grid - limit) > 5e-4].tolist(), limit}
        )  # none that an address would not tell from it

    def changes(self, kind: str) -> tuple[list[float], list[tuple[Ints, Ints]]]:
        """Return the values of a threshold, and for each the rows that change there and their new roots."""
        values, limits = self.thresholds(kind), _limits(self.run.manifest["threshold"])
        return values, self._differences(values, values.index(limits[kind]), limits, kind)

    def paired(self, kind: str) -> list[int]:
        """Return the places, among the values of a threshold, of those that it has where both move; its own is one."""
        values, limit = self.thresholds(kind), float(self.run.manifest["threshold"][kind])
        every = np.linspace(0, len(values) - 1, min(PAIRED, len(values))).round().astype(int)
        return sorted({*every.tolist(), values.index(limit)})

    def pair_changes(self) -> list[tuple[Ints, Ints]]:
        """Return, for each pair of `paired` values, the rows that change there and their new roots, as `changes` does.

        The mention threshold moves within a row of pairs; that of the run's own entity threshold is empty.
        """
        limits = _limits(self.run.manifest["threshold"])
        values = {kind: self.thresholds(kind) for kind in limits}
        mention = [values["mention"][place] for place in self.paired("mention")]
        changes: list[tuple[Ints, Ints]] = []
        for entity in (values["entity"][place] for place in self.paired("entity")):
            if entity == limits["entity"]:
                changes += [_NONE] * len(mention)
            else:
                changes += self._differences(
                    mention, mention.index(limits["mention"]), {**limits, "entity": entity}, "mention"
                )
        return changes

    def _differences(
        self, values: list[float], middle: int, limits: dict[str, float], kind: str
    ) -> list[tuple[Ints, Ints]]:
        """Return the changes at values of one of two thresholds, from the one ``middle`` on."""
        changes = [_NONE] * len(values)
        begin = self.roots(self.at(**{**limits, kind: values[middle]})) if len(values) > 1 else None
        for side in (range(middle + 1, len(values)), range(middle - 1, -1, -1)):
            before = begin
            for place in side:
                now = self.roots(self.at(**{**limits, kind: values[place]}))
                rows = np.flatnonzero(now != before)
                changes[place], before = (rows, now[rows]), now
        return changes


def _limits(threshold: dict[str, Any]) -> dict[str, float]:
    return {kind: float(threshold[kind]) for kind in ("entity", "mention")}


def cuts_of(run: Run) -> Cuts | str:
    """Return the cuts of a run, or a sentence that says why there are none."""
    if not run.mention_table.num_rows:
        return "The run has no mentions."
    if (graph := graph_of(run)) is None:
        return "The run does not keep its graph; link again to see more."
    return Cuts(run, *graph, numbered(run.mention_table))


def nil_edges(cuts: Cuts) -> Edges:
    """Return the edges of the trees of the NIL clusters, between rows of the tables."""
    tree, labels = cuts.base.tree(), cuts.base.labels[cuts.base.n_entities :]
    inside = labels[tree.source] == labels[tree.target]
    source, target = (cuts.order[ends[inside]] for ends in (tree.source, tree.target))
    return Edges(source, target, tree.height[inside])


def rooted(edges: Edges, n: int) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
    """Direct the edges of trees away from the first row of each; return children, parents and weights."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    ends = np.asarray(edges.source, np.int64), np.asarray(edges.target, np.int64)
    inner = coo_matrix((np.ones(len(ends[0])), ends), shape=(n, n))
    _, first = np.unique(connected_components(inner, directed=False)[1], return_index=True)
    source, target = np.append(ends[0], np.full(len(first), n)), np.append(ends[1], first)
    outer = coo_matrix((np.ones(len(source)), (source, target)), shape=(n + 1, n + 1)).tocsr()
    above = breadth_first_order(outer, n, directed=False)[1]
    down = above[ends[1]] == ends[0]
    return np.where(down, ends[1], ends[0]), np.where(down, ends[0], ends[1]), np.asarray(edges.weight, np.float64)
