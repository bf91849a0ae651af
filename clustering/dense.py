"""Complete graphs given by vectors, for clusters too small to be searched: their spanning tree, and nearest others.

The tree is how positives are picked for training (ArboEL, section 3.2): mentions of one gold entity, all edges among
them, and the entity as root. The weights are the same in both directions, so the arborescence is the minimum spanning
tree, oriented away from the entity. Prim's algorithm builds it in O(n^2 dim) time, attaching again and again the node
nearest to the tree.
"""

import numba
import numpy as np

from clustering.arrays import Floats, Ids, Weights
from clustering.dissimilarity import dissimilarity, offset_of
from clustering.forest import Forest
from clustering.vectors import Metric, unit

_WHOLE = 4096
"""Up to so many nodes all products are made at once, in 8 * n^2 bytes; beyond, the rows one by one in O(n)."""
_BLOCK = 256


def spanning_tree(vectors: Floats, root: Floats, *, metric: Metric = "dot") -> Forest:
    """Hang nodes on a root so that every path from it goes over the lightest edges there are.

    The same forest as ``partition(graph, "minimax")`` on the complete graph of the entity and the mentions, and where
    the weights are distinct, as ``"arborescence"``: equal weights in both directions leave nothing to choose.

    Args:
        vectors: (n, dim) the nodes; in the tree they count from 0.
        root: (n,) dissimilarity of each node to the root, e.g. to the entity, whose encoder may be another.
        metric: ``"dot"``, the dissimilarity being minus the inner product, or ``"cosine"``, 1 - cosine.

    Returns:
        A `Forest`: the parent of each node, -1 for the root, and the weight of the edge from there. Of equal edges the
        one from the root comes first, then that of the smaller parent, then that of the smaller node.

    Raises:
        ValueError: the shapes do not fit, or a number is NaN or infinite.

    """
    exact = _exact(vectors, metric)
    weight = np.asarray(root, np.float32)
    if weight.shape != (len(exact),) or not np.isfinite(weight).all():
        raise ValueError(f"root must be ({len(exact)},) finite numbers, not {np.shape(root)}")
    products = exact @ exact.T if len(exact) <= _WHOLE else np.empty((0, 0))
    return Forest(*_grow(exact, products, weight, offset_of(metric)))


def nearest_others(vectors: Floats, *, metric: Metric = "dot") -> Ids:
    """Find the nearest other node of each, of equally near ones the first; (n,), for n of 2 or more."""
    exact = _exact(vectors, metric)
    if len(exact) < 2:
        raise ValueError(f"{len(exact)} node has no other")
    nearest = np.empty(len(exact), np.int64)
    for begin in range(0, len(exact), _BLOCK):
        products = exact[begin : begin + _BLOCK] @ exact.T
        _others(products, begin, offset_of(metric), nearest)
    return nearest


def _exact(vectors: Floats, metric: Metric) -> Weights:
    """Return the vectors in float64, in which products of float32 are exact and their sums hardly differ by order."""
    matrix = np.ascontiguousarray(vectors, np.float32)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ValueError(f"vectors must be (n, dim) finite numbers, not {np.shape(vectors)}")
    return (unit(matrix) if metric == "cosine" else matrix).astype(np.float64)


@numba.njit(cache=True, nogil=True)
def _grow(vectors: Weights, products: Weights, root: Floats, offset: float) -> tuple[Ids, Floats]:
    n = len(root)
    parent = np.full(n, -1, np.int64)
    weight = root.copy()
    waiting = np.arange(n)
    for n_waiting in range(n, 0, -1):
        place = 0
        for i in range(1, n_waiting):
            a, b = waiting[i], waiting[place]
            if weight[a] < weight[b] or (
                weight[a] == weight[b] and (parent[a] < parent[b] or (parent[a] == parent[b] and a < b))
            ):
                place = i
        u = waiting[place]
        waiting[place] = waiting[n_waiting - 1]
        row = products[u] if len(products) > 0 else np.dot(vectors, vectors[u])
        for i in range(n_waiting - 1):
            v = waiting[i]
            w = dissimilarity(row[v], offset)
            if w < weight[v] or (w == weight[v] and parent[v] > u):
                weight[v], parent[v] = w, u
    return parent, weight


@numba.njit(cache=True, nogil=True)
def _others(products: Weights, begin: int, offset: float, nearest: Ids) -> None:
    for row in range(len(products)):
        own, best, least = begin + row, -1, np.float32(np.inf)
        for i in range(products.shape[1]):
            w = dissimilarity(products[row, i], offset)
            if i != own and w < least:
                best, least = i, w
        nearest[own] = best
