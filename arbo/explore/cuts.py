"""Partitions of a run at other thresholds, of the graph that the run keeps, and the trees of its own clusters.

The partitions are those of the engine, with the decisions that the run obeys, where one threshold moves while the other
stays as in the run. They are kept as differences: the mentions that change from the next value towards that of the run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.tables import numbered
from arbo.engine import Decisions, Graph, Partition, partition
from arbo.results.graphs import graph_of
from arbo.results.run import Floats, Ints, Run

STEPS = 32  # number of values of each of the two thresholds

Place = tuple[int, int]  # places among the values of the entity threshold and of the mention threshold


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
        config, limits = self.run.manifest["config"], self.run.manifest["threshold"]
        how: Any = {"nil_linkage": config.get("nil_linkage", "single"), "nil_threshold": limits.get("nil")}
        return partition(self.graph, config["method"], (entity, mention), **how, decisions=self.decisions)

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

    @cached_property
    def values(self) -> dict[str, list[float]]:
        """The values of the thresholds ``entity`` and ``mention``, ascending; the run's own are among them."""
        return {kind: self._values(kind) for kind in ("entity", "mention")}

    def _values(self, kind: str) -> list[float]:
        """Return at most `STEPS` values; none is where the search of the run is blind, beyond what it recorded."""
        linkage = self.run.manifest["config"].get("nil_linkage")  # average linkage of all mentions needs no threshold
        is_moot = kind == "mention" and linkage == "average" and not self.graph.n_entities and self.decisions is None
        is_entity, limit = self.graph.source < self.graph.n_entities, float(self.run.manifest["threshold"][kind])
        weight = self.graph.weight[is_entity if kind == "entity" else ~is_entity]
        within = self.run.manifest["search"].get("within") if kind == "mention" else None
        if is_moot or not len(weight):
            return [limit]
        low, high = float(weight.min()), float(weight.max())
        grid = np.unique(np.round(np.linspace(low, high, STEPS - 1), 3))
        grid = grid[grid <= (np.inf if within is None else within)]
        grid = grid[np.abs(grid - limit) > 5e-4]  # an address tells all values apart
        return sorted({*grid.tolist(), limit})

    @cached_property
    def home(self) -> Place:
        """The place of the run's own thresholds."""
        entity, mention = (values.index(self.run.manifest["threshold"][kind]) for kind, values in self.values.items())
        return entity, mention

    def differences(self) -> Iterator[tuple[Place, Place, Ints, Ints]]:
        """Yield places, the run's own first: each with an earlier one, the rows that change, and their new `roots`."""
        yield self.home, self.home, np.empty(0, np.int64), np.empty(0, np.int64)
        (entity, mention), own, values = self.home, self.roots(self.base), self.values
        entities = [(at, mention) for at in range(len(values["entity"]))]
        mentions = [(entity, at) for at in range(len(values["mention"]))]
        for walk in (entities[entity:], entities[entity::-1], mentions[mention:], mentions[mention::-1]):
            before = own
            for earlier, place in pairwise(walk):
                now = self.roots(self.at(values["entity"][place[0]], values["mention"][place[1]]))
                rows = np.flatnonzero(now != before)
                yield place, earlier, rows, now[rows]
                before = now


def cuts_of(run: Run) -> Cuts | str:
    """Return the cuts of a run, or a sentence that says why there are none."""
    if not run.mention_table.num_rows:
        return "The run has no mentions."
    if (graph := graph_of(run)) is None:
        return "The run does not keep its graph; link again to see more."
    return Cuts(run, *graph, numbered(run.mention_table))


def trees(run: Run, cuts: Cuts | str) -> tuple[Ints, Floats]:
    """Return the trees of all clusters; discovered entities have edges if the run keeps its graph.

    Of each mention: the row of its parent, -2 under an entity, and -1 without a parent; and the dissimilarity of the
    edge from the parent, NaN without one, or if people decided on it.
    """
    links = run.link_table
    parent = np.where((run.parent_rows < 0) & links["entity_id"].is_valid().to_numpy(), -2, run.parent_rows)
    step = pc.fill_null(links["step"], float("nan")).to_numpy().astype(np.float64)
    if not isinstance(cuts, str):
        child, above, weight = _nil_trees(cuts)
        parent[child], step[child] = above, weight
    step[~np.isfinite(step)] = np.nan
    return parent, step


def _nil_trees(cuts: Cuts) -> tuple[Ints, Ints, Floats]:
    """Return children, parents (rows) and weights of the edges of NIL clusters, away from the first row of each."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    *ends, weight = cuts.base.joins()
    n, (source, target) = len(cuts.order), (cuts.order[end].astype(np.int64) for end in ends)
    inner = coo_matrix((np.ones(len(source)), (source, target)), shape=(n, n))
    _, first = np.unique(connected_components(inner, directed=False)[1], return_index=True)
    both = np.append(source, np.full(len(first), n)), np.append(target, first)
    outer = coo_matrix((np.ones(len(both[0])), both), shape=(n + 1, n + 1)).tocsr()
    above = breadth_first_order(outer, n, directed=False)[1]
    child = np.where(above[target] == source, target, source)
    return child, above[child], weight.astype(np.float64)
