"""The names of the ways to cluster, to search and to compare: nothing heavy is loaded for them."""

from typing import Literal, get_args

Method = Literal["arborescence", "minimax", "undirected", "independent"]
"""How a graph is clustered, see `clustering.partition`."""

METHODS: tuple[Method, ...] = get_args(Method)

SearchMethod = Literal["exact", "hnsw", "ivf"]
"""Compare everything; or let an index of faiss propose what to compare: a graph, or lists around centroids."""

SEARCH_METHODS: tuple[SearchMethod, ...] = get_args(SearchMethod)

Metric = Literal["cosine", "dot"]
"""Dissimilarity ``1 - cosine``, or minus the inner product."""

METRICS: tuple[Metric, ...] = get_args(Metric)
