"""Rerankers whose scores a test makes up, and candidates for them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import arbo
from arbo.data import MentionInput
from arbo.progress import quiet
from arbo.retrieval.reranking import Candidates

NONE = -np.inf


@dataclass(frozen=True)
class Oracle:
    """A reranker whose score is a function of the mention and the entity; it remembers what it was asked."""

    score_of: Callable[[MentionInput, arbo.Entity], float]
    asked: list[tuple[str, str]] = field(default_factory=list)
    threshold: float = 0.5
    retrieval_weight: float = 0.0
    settings: dict[str, Any] = field(default_factory=lambda: {"encoder": "oracle"})

    def score(self, mentions: Sequence[MentionInput], kb: Any, mention: Any, entity: Any, announce: Any = quiet) -> Any:
        pairs = [(mentions[m], kb.entities[e]) for m, e in zip(mention, entity, strict=True)]
        self.asked.extend((item.mention.id, one.id) for item, one in pairs)
        return np.array([self.score_of(*pair) for pair in pairs])


def knows_gold() -> Oracle:
    return Oracle(lambda item, entity: 20.0 * is_right(item.mention, entity))


def is_right(mention: arbo.Mention, entity: arbo.Entity) -> bool:
    return not {entity.id, *entity.alternative_ids}.isdisjoint(mention.gold or ())


def indifferent() -> Oracle:
    return Oracle(lambda item, entity: 0.0)


def small(scores: list[list[float]]) -> tuple[arbo.Corpus, arbo.KnowledgeBase, Candidates]:
    """Make mentions m0, m1, ... whose candidates 0, 1, ... have these scores."""
    n, k = len(scores), max(map(len, scores))
    mentions = tuple(arbo.Mention(f"m{i}", "d", ((0, 1),), "x") for i in range(n))
    documents = arbo.Corpus([arbo.Document("d", "x", mentions)])
    kb = arbo.KnowledgeBase([arbo.Entity(f"E{i}", "x") for i in range(k)])
    entities = np.array([[*range(len(row)), *[-1] * (k - len(row))] for row in scores], np.int32)
    table = np.array([row + [NONE] * (k - len(row)) for row in scores], np.float32)
    return documents, kb, Candidates(entities, table, documents.fingerprint, kb.fingerprint, {"encoder": "none"})
