"""Linking from what was retrieved already."""

import numpy as np

import arbo
from arbo.data.corpus import Corpus
from arbo.linking.description import Content, describe
from arbo.results.result import Result
from arbo.retrieval.retrieval import Retrieval
from clustering import partition


def decided(documents: Corpus, kb: arbo.KnowledgeBase, retrieval: Retrieval, config: arbo.LinkerConfig) -> Result:
    """Partition the graph of a retrieval, which was made with ``in_order``, and return the result."""
    clusters = partition(retrieval.graph(config.k), config.method, config.limits(retrieval.threshold))
    names = [retrieval.inputs[place].name for place in np.argsort(documents.order).tolist()]
    return describe(Content.of(documents, names, documents.order), kb, retrieval, clusters, config)
