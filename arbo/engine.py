"""The names of `clustering` that arbo uses, safe from a user's own module `clustering`, see `arbo.siblings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arbo.siblings import attribute

if TYPE_CHECKING:
    from clustering import (
        Edges as Edges,
        Graph as Graph,
        MergeTree as MergeTree,
        Partition as Partition,
        merge_tree as merge_tree,
        partition as partition,
    )
    from clustering.arrays import (
        Bools as Bools,
        Floats as Floats,
        Ids as Ids,
        Weights as Weights,
        pairs_of as pairs_of,
        ranges as ranges,
    )
    from clustering.bridges import bridges as bridges
    from clustering.comparison import (
        CANDIDATES as CANDIDATES,
        Embeddings as Embeddings,
        is_exact as is_exact,
        measured_recall as measured_recall,
        nearest as nearest,
        pair_dissimilarity as pair_dissimilarity,
    )
    from clustering.dense import nearest_others as nearest_others, spanning_tree as spanning_tree
    from clustering.dense_search import Scan as Scan, Scanner as Scanner, faiss_scanner as faiss_scanner
    from clustering.dissimilarity import offset_of as offset_of
    from clustering.knn import Neighbors as Neighbors
    from clustering.late_interaction import SAMPLE as SAMPLE, TokenMatrices as TokenMatrices
    from clustering.methods import Method as Method, Metric as Metric, SearchMethod as SearchMethod
    from clustering.progress import Progress as Progress, T as T, silent as silent
    from clustering.vectors import Vectors as Vectors

# The module of each name; it is imported when the name is first used.
_HOME = {
    "Bools": "arrays",
    "CANDIDATES": "comparison",
    "Edges": "",
    "Embeddings": "comparison",
    "Floats": "arrays",
    "Graph": "",
    "Ids": "arrays",
    "MergeTree": "",
    "Method": "methods",
    "Metric": "methods",
    "Neighbors": "knn",
    "Partition": "",
    "Progress": "progress",
    "SAMPLE": "late_interaction",
    "Scan": "dense_search",
    "Scanner": "dense_search",
    "SearchMethod": "methods",
    "T": "progress",
    "TokenMatrices": "late_interaction",
    "Vectors": "vectors",
    "Weights": "arrays",
    "bridges": "bridges",
    "faiss_scanner": "dense_search",
    "is_exact": "comparison",
    "measured_recall": "comparison",
    "merge_tree": "",
    "nearest": "comparison",
    "nearest_others": "dense",
    "offset_of": "dissimilarity",
    "pair_dissimilarity": "comparison",
    "pairs_of": "arrays",
    "partition": "",
    "ranges": "arrays",
    "silent": "progress",
    "spanning_tree": "dense",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, "clustering", _HOME, name)
