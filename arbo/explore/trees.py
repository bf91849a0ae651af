"""The trees that hold the clusters of a run together: of parents, or of the lightest edges between NIL mentions."""

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from arbo.engine import Edges, bridges
from arbo.explore.cuts import Cuts
from arbo.results.run import Floats, Ints, Run


def trees(run: Run, cuts: Cuts | str) -> tuple[Ints, Floats, Ints]:
    """Return the trees of all clusters; discovered entities have edges if the run keeps its graph.

    Of each mention: the row of its parent, -2 under an entity, and -1 without a parent; the dissimilarity of the edge
    from the parent, NaN without one, or if people decided on it; and the smaller of the numbers of mentions on both
    sides of the edge from a parent that is a mention, else 0.
    """
    links = run.link_table
    nil = links["entity_id"].is_null().to_numpy()
    parent = np.where((run.parent_rows < 0) & ~nil, -2, run.parent_rows)
    step = pc.fill_null(links["step"], float("nan")).to_numpy().astype(np.float64)
    if not isinstance(cuts, str):
        child, above, weight = _rooted(_nil_edges(cuts), len(parent))
        parent[child], step[child] = above, weight
    step[~np.isfinite(step)] = np.nan
    below = np.flatnonzero(parent >= 0)
    edges = Edges(parent[below].astype(np.int32), below.astype(np.int32), np.nan_to_num(step[below], nan=-1.0))
    (ordered, parts), joins = bridges(edges, n_nodes=len(parent)), np.zeros(len(parent), np.int64)
    joins[ordered.target] = parts.min(axis=1)
    return parent, step, joins


def _nil_edges(cuts: Cuts) -> Edges:
    """Return the edges of the trees of the NIL clusters, between rows of the tables."""
    tree, labels = cuts.base.tree(), cuts.base.labels[cuts.base.n_entities :]
    inside = labels[tree.source] == labels[tree.target]
    source, target = (cuts.order[ends[inside]] for ends in (tree.source, tree.target))
    return Edges(source, target, tree.height[inside])


def _rooted(edges: Edges, n: int) -> tuple[Ints, Ints, npt.NDArray[np.float64]]:
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
