"""The directed graph of entities and mentions, as arrays."""

from dataclasses import dataclass
from operator import index
from typing import Self

import numpy as np
import numpy.typing as npt

from .arrays import Edges, Ids, Threshold, Weights, id_dtype


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

    def __post_init__(self) -> None:
        for name in ("source", "target", "weight"):  # kernels are compiled once, for arrays that are read-only
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def edges(self) -> Edges:
        """The edges."""
        return Edges(self.source, self.target, self.weight)

    @property
    def edges_by_mention(self) -> Edges:
        """The edges with mentions numbered from 0, so that entities are negative."""
        return Edges(self.source - self.n_entities, self.target - self.n_entities, self.weight)

    @property
    def n_mentions(self) -> int:
        """Number of mention nodes."""
        return self.n_nodes - self.n_entities

    @property
    def n_edges(self) -> int:
        """Number of edges, including duplicates and edges into entities."""
        return len(self.source)

    def __repr__(self) -> str:
        counts = f"{self.n_entities:,} entities, {self.n_mentions:,} mentions, {self.n_edges:,} edges"
        return f"Graph({counts}, {self.weight.dtype} weights)"

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
        n_entities, n_nodes = index(n_entities), index(n_nodes)
        if not 0 <= n_entities <= n_nodes:
            raise ValueError(f"n_entities={n_entities} must lie between 0 and n_nodes={n_nodes}")
        sources, targets = _node_ids("source", source, n_nodes), _node_ids("target", target, n_nodes)
        weights = _finite_weights(weight)
        lengths = [len(sources), len(targets), len(weights)]
        if len({*lengths}) > 1:
            raise ValueError(f"source, target and weight differ in length: {', '.join(map(str, lengths))}")
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
        n = len(mentions[0])
        if entities is None:
            entities = (np.empty((n, 0), np.int32), np.empty((n, 0), mentions[1].dtype))
        if len(entities[0]) != n:
            raise ValueError(f"mentions has {n} rows, but entities has {len(entities[0])}")
        _check_lists("mentions", *mentions, n)
        _check_lists("entities", *entities, n_entities)
        ids = id_dtype(2 * (n_entities + n))
        sources = np.concatenate([entities[0], mentions[0]], axis=1).astype(ids, copy=False)
        is_edge = sources >= 0
        sources[:, entities[0].shape[1] :] += n_entities
        target = np.repeat(np.arange(n_entities, n_entities + n, dtype=ids), is_edge.sum(axis=1))
        weight = np.concatenate([entities[1], mentions[1]], axis=1)[is_edge]
        return Graph.from_edges(sources[is_edge], target, weight, n_entities=n_entities, n_nodes=n_entities + n)


def _check_lists(name: str, ids: Ids, weights: Weights, n: int) -> None:
    """Raise ValueError for lists of another shape than their dissimilarities, or with an unknown id."""
    if ids.shape != weights.shape:
        raise ValueError(f"the ids of {name} are {ids.shape}, but their dissimilarities {weights.shape}")
    if ids.size and not -1 <= ids.min() <= ids.max() < n:
        row = int(np.argmax(((ids < -1) | (ids >= n)).any(axis=1)))
        raise ValueError(f"row {row} of {name} has {ids[row].tolist()}; ids of {n} {name} lie in -1 .. {n - 1}")


def limits(graph: Graph, threshold: Threshold) -> tuple[float, float]:
    """Return the largest weights of the entity edges and mention edges that are kept, rounded like the weights.

    Rounding ensures that an edge exactly at the threshold is kept: ``float32(0.1) <= 0.1`` must hold. Raise ValueError
    for NaN, and for a tuple of another length than 2.
    """
    pair = threshold if isinstance(threshold, tuple) else (threshold, threshold)
    if len(pair) != 2:
        raise ValueError(f"threshold={threshold!r} must be a number, a pair (entity, mention) or None")
    if np.isnan(values := [np.inf if value is None else float(value) for value in pair]).any():
        raise ValueError(f"threshold={threshold!r} is not a number; use None to keep all edges")
    with np.errstate(over="ignore"):
        rounded = [float(graph.weight.dtype.type(value)) for value in values]
    return rounded[0], rounded[1]


def _node_ids(name: str, values: npt.ArrayLike, n_nodes: int) -> Ids:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a flat array of integers, not {array.dtype} of shape {array.shape}")
    if array.size and not 0 <= array.min() <= array.max() < n_nodes:
        row = int(np.argmax((array < 0) | (array >= n_nodes)))
        raise ValueError(f"{name}[{row}]={array[row]} is outside the nodes 0 .. {n_nodes - 1}")
    # Twice as many, because the contraction tree has up to two nodes for each mention.
    return array.astype(id_dtype(2 * n_nodes), copy=False)


def _finite_weights(values: npt.ArrayLike) -> Weights:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        raise ValueError(f"weight must be a flat array of numbers, not {array.dtype} of shape {array.shape}")
    weights: Weights = array.astype(np.float32 if array.dtype in (np.float16, np.float32) else np.float64, copy=False)
    extremes = np.array([weights.min(initial=0), weights.max(initial=0)])  # NaN propagates through both
    if not np.isfinite(extremes).all():
        row = int(np.argmin(np.isfinite(weights)))
        raise ValueError(f"weight[{row}]={weights[row]} is not finite; leave out edges that do not exist")
    return weights
