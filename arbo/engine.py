"""The names of `clustering` that arbo uses.

They are arbo's own even if the user has another module called `clustering`, see `arbo.siblings`.
"""

from typing import TYPE_CHECKING, Any

from arbo.siblings import attribute

if TYPE_CHECKING:
    from clustering import Decisions, Edges, Graph, MergeTree, Partition, average_tree, merge_tree, partition
    from clustering.arrays import Bools, Floats, Ids, New, Weights, id_dtype, pairs_of, ranges
    from clustering.bins import Bin, Bins, described, joined
    from clustering.bridges import bridges
    from clustering.comparison import (
        CANDIDATES,
        SAMPLE,
        Embeddings,
        Searchable,
        is_exact,
        measured_recall,
        nearest,
        pair_dissimilarity,
    )
    from clustering.decisions import NEW, OUTSIDE, UNDECIDED
    from clustering.dense import spanning_tree
    from clustering.dense_search import Scan, Scanner, faiss_scanner
    from clustering.graph import ListedGraph
    from clustering.growth import FEW, renumbered, updated
    from clustering.index import Index, is_below, is_start
    from clustering.kernels import in_parallel, kernel
    from clustering.knn import Limit, Neighbors, lists_of, merged
    from clustering.late_interaction import TokenMatrices
    from clustering.methods import Method, Metric, NilLinkage, SearchMethod
    from clustering.progress import Progress, T, silent
    from clustering.vectors import Csr, Vectors, csr, offset_of

# Maps modules of `clustering` to the names above that they define; a module is imported when one of its names is first
# used. The names above that are not listed here, such as `Graph`, are looked up in the package `clustering` itself.
_NAMES = {
    "arrays": "Bools Floats Ids New Weights id_dtype pairs_of ranges",
    "bins": "Bin Bins described joined",
    "bridges": "bridges",
    "comparison": "CANDIDATES SAMPLE Embeddings Searchable is_exact measured_recall nearest pair_dissimilarity",
    "decisions": "NEW OUTSIDE UNDECIDED",
    "dense": "spanning_tree",
    "dense_search": "Scan Scanner faiss_scanner",
    "graph": "ListedGraph",
    "growth": "FEW renumbered updated",
    "index": "Index is_below is_start",
    "kernels": "in_parallel kernel",
    "knn": "Limit Neighbors lists_of merged",
    "late_interaction": "TokenMatrices",
    "methods": "Method Metric NilLinkage SearchMethod",
    "progress": "Progress T silent",
    "vectors": "Csr Vectors csr offset_of",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, "clustering", _NAMES, name)
