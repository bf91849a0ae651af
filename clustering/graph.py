"""The directed graph of entities and mentions, as arrays."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import index
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .arrays import Bools, Ids, Threshold, Weights, id_dtype

_ROWS = 1 << 16  # lists that become edges at once


@dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """Nodes ``0 .. n_entities-1`` are entities, ``n_entities .. n_nodes-1`` mentions.

    An edge ``source -> target`` means that the target can be reached from the source at dissimilarity ``weight``. Make
    a graph with `from_edges` or `from_neighbors`, which check their arguments. The arrays are read-only.
    """

    source: Ids
    target: Ids
    weight: Weights
    n_entities: int
    n_nodes: int

    @property
    def n_mentions(self) -> int:
        """Number of mention nodes."""
        return self.n_nodes - self.n_entities

    @property
    def n_edges(self) -> int:
        """Number of edges, including duplicates and edges into entities."""
        return len(self.source)

    def __repr__(self) -> str:
        return (
            f"Graph({self.n_entities:,} entities, {self.n_mentions:,} mentions, {self.n_edges:,} edges, "
            f"{self.weight.dtype} weights)"
        )

    @classmethod
    def from_edges(
        cls, source: npt.ArrayLike, target: npt.ArrayLike, weight: npt.ArrayLike, *, n_entities: int, n_nodes: int
    ) -> Self:
        """Make a graph from edges in any order.

        Arrays with the right dtype (int32 ids, float32 or float64 weights) are not copied. Duplicates (the lightest
        counts), self-loops (ignored) and edges into entities (ignored by the directed methods) are allowed; a weight of
        zero has no special meaning. Raise ValueError if the arrays differ in length, an id is not in
        ``0 .. n_nodes-1``, or a weight is not finite.
        """
        try:
            n_entities, n_nodes = index(n_entities), index(n_nodes)
        except TypeError:
            raise ValueError(f"n_entities={n_entities} and n_nodes={n_nodes} must be integers") from None
        if not 0 <= n_entities <= n_nodes:
            raise ValueError(f"n_entities={n_entities} must lie between 0 and n_nodes={n_nodes}")
        sources, targets = _node_ids("source", source, n_nodes), _node_ids("target", target, n_nodes)
        weights = _finite_weights(weight)
        if not len(sources) == len(targets) == len(weights):
            raise ValueError(
                f"source, target and weight differ in length: {len(sources)}, {len(targets)}, {len(weights)}"
            )
        return cls(sources, targets, weights, n_entities, n_nodes)

    @staticmethod
    def from_neighbors(
        mentions: tuple[Ids, Weights], entities: tuple[Ids, Weights] | None = None, *, n_entities: int = 0
    ) -> "Graph":
        """Make the graph of ArboEL (appendix A.2, equation 7) from lists of neighbours.

        ``mentions`` and ``entities`` are ``(ids, dissimilarities)`` of shape (mentions, k): row ``m`` lists the nearest
        other mentions (numbered from 0), or the nearest of the ``n_entities`` entities, of mention ``m``. An id of -1
        is an empty place; every other place becomes one edge *into* ``m``. Raise ValueError if the numbers of rows
        differ, an id is out of range, or a weight is not finite.
        """
        if entities is None:
            entities = (np.empty((len(mentions[0]), 0), np.int32), np.empty((len(mentions[0]), 0), mentions[1].dtype))
        return ListedGraph(mentions, entities, n_entities).graph()


@dataclass(frozen=True, eq=False, slots=True)
class ListedGraph:
    """The lists of neighbours of a graph, see `Graph.from_neighbors`, from which edges are made when asked for."""

    mentions: tuple[Ids, Weights]
    entities: tuple[Ids, Weights]
    n_entities: int
    has_all: Bools | None = None
    """(mentions,) whether a mention has edges from its whole list of entities, not only the first; None: all have."""

    def __post_init__(self) -> None:
        given = ("mentions", self.mentions, self.n_mentions), ("entities", self.entities, self.n_entities)
        if len(self.entities[0]) != self.n_mentions:
            raise ValueError(f"mentions has {self.n_mentions} rows, but entities has {len(self.entities[0])}")
        for name, (ids, weights), n in given:
            if ids.shape != weights.shape:
                raise ValueError(f"the ids of {name} are {ids.shape}, but their dissimilarities {weights.shape}")
            if ids.size and not -1 <= ids.min() <= ids.max() < n:
                row = int(np.argmax(((ids < -1) | (ids >= n)).any(axis=1)))
                raise ValueError(f"row {row} of {name} has {ids[row].tolist()}; ids of {n} {name} lie in -1 .. {n - 1}")

    @property
    def n_mentions(self) -> int:
        """Number of mentions."""
        return len(self.mentions[0])

    @property
    def without_edges(self) -> Graph:
        """The graph of all nodes without an edge, which has the types of its ids and weights."""
        return self.into(np.empty(0, np.int64))

    def into(self, mentions: Ids) -> Graph:
        """Return the graph of all nodes with only the edges into some mentions, in their order.

        ``mentions`` are numbered from 0. Raise ValueError if a weight is not finite.
        """
        ids = self._sources(mentions)
        present, n = ids >= 0, self.n_entities
        weight = np.concatenate([self.entities[1][mentions], self.mentions[1][mentions]], axis=1)[present]
        target = np.repeat(mentions.astype(ids.dtype) + ids.dtype.type(n), present.sum(axis=1))
        return Graph.from_edges(ids[present], target, weight, n_entities=n, n_nodes=n + self.n_mentions)

    def slices(self, mentions: Ids | None = None) -> Iterator[Graph]:
        """Yield `into` of slices of some or all mentions, in their order, so that few edges are in memory at once."""
        return map(self.into, self._rows() if mentions is None else _slices(mentions))

    def graph(self) -> Graph:
        """Return the whole graph; raise ValueError if a weight is not finite."""
        n_edges, none, end = sum(int((self._sources(rows) >= 0).sum()) for rows in self._rows()), self.without_edges, 0
        source, target, weight = (np.empty(n_edges, array.dtype) for array in (none.source, none.target, none.weight))
        for some in self.slices():
            begin, end = end, end + some.n_edges
            source[begin:end], target[begin:end], weight[begin:end] = some.source, some.target, some.weight
        return Graph.from_edges(source, target, weight, n_entities=self.n_entities, n_nodes=none.n_nodes)

    def _rows(self) -> Iterator[Ids]:
        return (np.arange(rows.start, rows.stop) for rows in _slices(range(self.n_mentions)))

    def _sources(self, mentions: Ids) -> Ids:
        """Return the sources of the edges into some mentions, (mentions, places), with -1 for none."""
        near, entities, n = self.mentions[0][mentions], self.entities[0][mentions], self.n_entities
        if self.has_all is not None:
            entities[:, 1:][~self.has_all[mentions]] = -1
        ids = id_dtype(2 * (n + self.n_mentions))
        return np.concatenate([entities.astype(ids), np.where(near >= 0, near.astype(ids) + ids(n), ids(-1))], axis=1)


def _slices(rows: Any) -> Iterator[Any]:
    return (rows[begin : begin + _ROWS] for begin in range(0, len(rows), _ROWS))


def limits(graph: Graph, threshold: Threshold) -> tuple[float, float]:
    """Return the largest weights of the entity edges and mention edges that are kept, rounded like the weights.

    Rounding ensures that an edge exactly at the threshold is kept: ``float32(0.1) <= 0.1`` must hold. Raise ValueError
    for NaN, and for a tuple of another length than 2.
    """
    pair = threshold if isinstance(threshold, tuple) else (threshold, threshold)
    if len(pair) != 2:
        raise ValueError(f"threshold={threshold!r} must be a number, a pair (entity, mention) or None")
    values = [np.inf if value is None else float(value) for value in pair]
    if np.isnan(values).any():
        raise ValueError(f"threshold={threshold!r} is not a number; use None to keep all edges")
    with np.errstate(over="ignore"):
        rounded = [float(graph.weight.dtype.type(value)) for value in values]
    return rounded[0], rounded[1]


def _node_ids(name: str, values: npt.ArrayLike, n_nodes: int) -> Ids:
    given = np.asarray(values)
    if given.size == 0:
        return _read_only(np.empty(0, id_dtype(2 * n_nodes)))
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a flat array of integers, not {given.dtype} of shape {given.shape}")
    smallest, largest = given.min(), given.max()
    if smallest < 0 or largest >= n_nodes:
        row = int(np.argmax((given < 0) | (given >= n_nodes)))
        raise ValueError(f"{name}[{row}]={given[row]} is outside the nodes 0 .. {n_nodes - 1}")
    # Twice as many, because the contraction tree has up to two nodes for each mention.
    return _read_only(given.astype(id_dtype(2 * n_nodes), copy=False))


def _finite_weights(values: npt.ArrayLike) -> Weights:
    given = np.asarray(values)
    if given.size == 0:
        return _read_only(np.empty(0, np.float32 if given.dtype in (np.float16, np.float32) else np.float64))
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise ValueError(f"weight must be a flat array of numbers, not {given.dtype} of shape {given.shape}")
    if given.dtype == np.float16:
        given = given.astype(np.float32)
    weights = given if given.dtype == np.float32 else given.astype(np.float64, copy=False)
    extremes = np.array([weights.min(), weights.max()])  # NaN propagates through both
    if not np.isfinite(extremes).all():
        row = int(np.argmin(np.isfinite(weights)))
        raise ValueError(f"weight[{row}]={weights[row]} is not finite; leave out edges that do not exist")
    return _read_only(weights)


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
