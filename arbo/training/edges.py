"""Train an edge model on documents with gold clusters, gold entities, or both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.edges.facts import Facts
from arbo.edges.features import mention_features
from arbo.edges.model import EdgeModel, candidate_features
from arbo.edges.pairs import pairs_of
from arbo.edges.trees import Trees
from arbo.errors import DataError
from arbo.linker import Linker
from arbo.progress import Announce, quiet

_NEIGHBORS = 16
_Part = tuple[Any, Any]


def train_edges(
    documents: Iterable[Any],
    dev: Iterable[Any],
    kb: KnowledgeBase | None = None,
    *,
    linker: Linker | None = None,
    announce: Announce = quiet,
) -> EdgeModel:
    """Learn when two mentions mean the same and, with a knowledge base, when a mention means an entity.

    Two mentions mean the same if they have the same gold cluster or a common gold entity. Boosted trees are fitted to
    the pairs of ``documents``, and their probabilities are calibrated on those of ``dev`` (Platt's method).

    Args:
        documents: training documents, see `Linker.link`.
        dev: other documents.
        kb: the knowledge base of the gold entities.
        linker: finds candidates and neighbours; the default uses character n-grams.

    Raises:
        DataError: no two mentions of the documents mean the same.

    """
    own = (linker or Linker()).configured(kb=kb)
    parts = [_pairs(own, Corpus.of(part), announce) for part in (documents, dev)]
    forests = []
    for (features, correct), (dev_features, dev_correct) in zip(*parts, strict=True):
        for some, what in ((correct, "training"), (dev_correct, "development")):
            if some.all() or not some.any():
                raise DataError(f"the {what} documents have no pair of mentions with the same gold cluster or entity, or no other pair")
        forests.append(Trees.fit(features, correct).calibrated(dev_features, dev_correct))
    trained = {"pairs": len(parts[0][0][1]), "encoder": own.encoder.settings}
    return EdgeModel(forests[0], forests[1] if kb is not None else None, trained)


def _pairs(linker: Linker, corpus: Corpus, announce: Announce) -> list[_Part]:
    """Return the features of pairs and whether they are correct: of mentions and, with a knowledge base, of candidates."""
    found = linker.retrieve(corpus, k=_NEIGHBORS, discover=linker.kb is None)
    facts, gold = Facts.of(found.inputs), Gold.of(corpus, linker.kb)
    first, second = pairs_of(facts, found.mentions)
    kept = gold.annotated[first] & gold.annotated[second]
    first, second = first[kept], second[kept]
    label = gold.classes
    correct = (label[first] == label[second]) & (label[first] >= 0)
    parts: list[_Part] = [(mention_features(facts, first, second), correct)]
    if linker.kb is not None:
        mention, _, entity, features = candidate_features(facts, found, linker.kb)
        rows, accepted = gold.accepted
        right = np.isin(mention * len(linker.kb) + entity, rows * len(linker.kb) + accepted)
        known = gold.annotated[mention]
        parts.append((features[known], right[known]))
    return parts
