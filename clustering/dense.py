"""Spanning trees of complete graphs of a few vectors.

The tree is used to choose positives for training (ArboEL, section 3.2): its nodes are the mentions of one gold entity,
with all edges among them, and its root is the entity. The weights are the same in both directions, so the arborescence
is the minimum spanning tree, oriented away from the entity. Prim's algorithm builds it in O(n^2 dim) time by repeatedly
attaching the node nearest to the tree.
"""

import numpy as np

from .arrays import Floats, Ids, Weights
from .forest import Forest
from .kernels import kernel
from .vectors import Metric, dissimilarity, offset_of, unit

_WHOLE = 4096
"""Up to this many nodes, all products are computed at once, in 8 * n^2 bytes; above, those of one node at a time."""
_BLOCK = 256


def spanning_tree(vectors: Floats, root: Floats, *, metric: Metric = "dot") -> Forest:
    """Build the minimum spanning tree of nodes and a root.

    ``vectors`` has the shape (n, dim), and ``root`` holds the root's dissimilarity to each node. If the nodes are
    mentions and the root is their entity, the tree is the forest of ``partition(graph, "minimax")`` on their complete
    graph. With distinct weights it is also that of ``"arborescence"``, since both directions of an edge have the same
    weight. Nodes are numbered from 0, and the root is -1. Ties go to the edge from the root, then to the smaller
    parent, then to the smaller node.
    """
    rows, weight = np.ascontiguousarray(vectors, np.float32), np.asarray(root, np.float32)
    rows = unit(rows) if metric == "cosine" else rows
    if len(rows) <= _WHOLE:
        exact = rows.astype(np.float64)  # in which products of float32 are exact, and their sums nearly
        return Forest(*_grow(exact @ exact.T, weight, offset_of(metric)))
    return Forest(*_grow_large(_blocks(rows), weight, offset_of(metric)))


def _blocks(rows: Floats) -> Floats:
    """Copy rows into (blocks, dim, rows of a block), padded with zeros; a CPU can multiply several at a time."""
    n, dim = rows.shape
    blocks = np.zeros((-(-n // _BLOCK), dim, _BLOCK), np.float32)
    for block, begin in zip(blocks, range(0, n, _BLOCK), strict=True):
        part = rows[begin : begin + _BLOCK]
        block[:, : len(part)] = part.T
    return blocks


@kernel
def _grow(products: Weights, root: Floats, offset: float) -> tuple[Ids, Floats]:
    parent, weight, waiting = np.full(len(root), -1, np.int64), root.copy(), np.arange(len(root))
    for last in range(len(root) - 1, -1, -1):
        place = _lightest(waiting[: last + 1], parent, weight)
        u = waiting[place]
        waiting[place] = waiting[last]
        _offer(u, products[u][waiting[:last]], waiting[:last], parent, weight, offset)
    return parent, weight


@kernel
def _grow_large(blocks: Floats, root: Floats, offset: float) -> tuple[Ids, Floats]:
    """Like `_grow`, but in O(n) memory, with the vectors of the waiting nodes in front."""
    parent, weight, waiting = np.full(len(root), -1, np.int64), root.copy(), np.arange(len(root))
    width = blocks.shape[2]
    products = np.empty(len(blocks) * width)
    for last in range(len(root) - 1, -1, -1):
        place = _lightest(waiting[: last + 1], parent, weight)
        u = waiting[place]
        vector = blocks[place // width, :, place % width].copy()
        waiting[place] = waiting[last]
        blocks[place // width, :, place % width] = blocks[last // width, :, last % width]
        for block in range((last + width - 1) // width):
            part = products[block * width : (block + 1) * width]
            part[:] = 0
            for j in range(len(vector)):
                factor = np.float64(vector[j])
                for i in range(width):
                    part[i] += factor * np.float64(blocks[block, j, i])
        _offer(u, products[:last], waiting[:last], parent, weight, offset)
    return parent, weight


@kernel
def _lightest(waiting: Ids, parent: Ids, weight: Floats) -> int:
    place = 0
    for i in range(1, len(waiting)):
        a, b = waiting[i], waiting[place]
        if weight[a] < weight[b] or (
            weight[a] == weight[b] and (parent[a] < parent[b] or (parent[a] == parent[b] and a < b))
        ):
            place = i
    return place


@kernel
def _offer(u: int, products: Weights, waiting: Ids, parent: Ids, weight: Floats, offset: float) -> None:
    for i in range(len(waiting)):
        v = waiting[i]
        w = dissimilarity(products[i], offset)
        if w < weight[v] or (w == weight[v] and parent[v] > u):
            weight[v], parent[v] = w, u
