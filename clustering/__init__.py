"""The engine of arbo: exact, near-linear clustering of a directed graph of mentions and entities.

>>> from clustering import Graph, partition
>>> graph = Graph.from_edges([2, 3, 0], [3, 4, 4], [-1.0, -5.0, -4.0], n_entities=3, n_nodes=5)
>>> partition(graph).entity.tolist()
[2, 2]
>>> partition(graph, threshold=-2).entity.tolist()
[-1, 0]
"""

from clustering.arrays import Edges
from clustering.graph import Graph
from clustering.linkage import MergeTree, merge_tree
from clustering.partition import METHODS, Method, Partition, partition

__all__ = ["METHODS", "Edges", "Graph", "MergeTree", "Method", "Partition", "merge_tree", "partition"]
