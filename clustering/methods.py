"""The names of methods of clustering, search and comparison, without heavy imports."""

from typing import Literal, get_args

Method = Literal["arborescence", "minimax", "undirected", "independent"]
"""Methods of clustering a graph, see `clustering.partition`."""

METHODS: tuple[Method, ...] = get_args(Method)

NilLinkage = Literal["single", "average"]
"""Linkages of the mentions that no entity reaches, see `clustering.partition`."""

NIL_LINKAGES: tuple[NilLinkage, ...] = get_args(NilLinkage)

Metric = Literal["cosine", "dot"]
"""Dissimilarities of vectors: ``cosine`` is 1 minus the cosine similarity, ``dot`` is minus the inner product."""

METRICS: tuple[Metric, ...] = get_args(Metric)
