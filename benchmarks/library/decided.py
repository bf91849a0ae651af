"""Linking from what was retrieved already."""

import arbo
from arbo.linking.tables import describe
from arbo.results.result import Result
from arbo.retrieval.retrieval import Retrieval
from clustering import partition


def decided(kb: arbo.KnowledgeBase, retrieval: Retrieval, config: arbo.LinkerConfig) -> Result:
    """Partition the graph of a retrieval, which was made with ``in_order``, and return the result."""
    clusters = partition(retrieval.graph(config.k), config.method, config.limits(retrieval.threshold))
    return describe(kb, retrieval, clusters, config)
