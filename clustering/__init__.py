"""The engine of arbo: exact, near-linear clustering of a directed graph of mentions and entities.

>>> from clustering import Graph, partition
>>> graph = Graph.from_edges([2, 3, 0], [3, 4, 4], [-1.0, -5.0, -4.0], n_entities=3, n_nodes=5)
>>> partition(graph).entity.tolist()
[2, 2]
>>> partition(graph, threshold=-2).entity.tolist()
[-1, 0]
"""

from typing import TYPE_CHECKING, Any

from clustering.arrays import Edges
from clustering.graph import Graph
from clustering.linkage import MergeTree, merge_tree
from clustering.partition import METHODS, Method, Partition, partition

if TYPE_CHECKING:
    from clustering.estimator import ArborescenceClustering

__all__ = [
    "METHODS",
    "ArborescenceClustering",
    "Edges",
    "Graph",
    "MergeTree",
    "Method",
    "Partition",
    "merge_tree",
    "partition",
]


def __getattr__(name: str) -> Any:
    if name != "ArborescenceClustering":
        raise AttributeError(f"module 'clustering' has no attribute {name!r}")
    from clustering.estimator import ArborescenceClustering  # loads scikit-learn

    return ArborescenceClustering


def __dir__() -> list[str]:
    return __all__
