"""Spanning trees of complete graphs of a few vectors.

The tree is used to choose positives for training (ArboEL, section 3.2): its nodes are the mentions of one gold entity,
with all edges among them, and its root is the entity. The weights are the same in both directions, so the arborescence
is the minimum spanning tree, oriented away from the entity. Prim's algorithm builds it in O(n^2 dim) time by repeatedly
attaching the node nearest to the tree.
"""

import numpy as np

from .arrays import Floats
from .forest import Forest
from .vectors import Metric, dissimilarities, offset_of, unit

_WHOLE = 4096
"""Up to this many nodes, all products are computed at once, in 8 * n^2 bytes; above, those of one node at a time."""


def spanning_tree(vectors: Floats, root: Floats, *, metric: Metric = "dot") -> Forest:
    """Build the minimum spanning tree of nodes and a root.

    ``vectors`` has the shape (n, dim), and ``root`` holds the root's dissimilarity to each node. If the nodes are
    mentions and the root is their entity, the tree is the forest of ``partition(graph, "minimax")`` on their complete
    graph. With distinct weights it is also that of ``"arborescence"``, since both directions of an edge weigh the same.
    Nodes are numbered from 0, the root is -1. Ties go to the edge from the root, the smaller parent, the smaller node.
    """
    rows = np.ascontiguousarray(vectors, np.float32)
    exact = unit(rows, metric).astype(np.float64)  # products of float32 are exact in it
    products = exact @ exact.T if len(exact) <= _WHOLE else None
    weight, parent, waiting = np.array(root, np.float32), np.full(len(exact), -1), np.arange(len(exact))
    while len(waiting):
        near = waiting[weight[waiting] == weight[waiting].min()]
        u = near[np.argmin(parent[near])]
        waiting = waiting[waiting != u]
        offered = dissimilarities((exact @ exact[u] if products is None else products[u])[waiting], offset_of(metric))
        nearer = (offered < weight[waiting]) | ((offered == weight[waiting]) & (parent[waiting] > u))
        weight[waiting[nearer]], parent[waiting[nearer]] = offered[nearer], u
    return Forest(parent, weight)
