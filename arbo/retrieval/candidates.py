"""Candidates: the nearest entities of each mention, for a second stage to rerank.

Candidates are rows of a knowledge base, and are valid only for one knowledge base and one set of documents. They carry
the fingerprints of both, and `Candidates.check` refuses any others.

An oracle of the ArboEL paper (section 3.4) compares second stages independently of the quality of the first stage: SELF
is ``with_gold(candidates, gold)``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.gold import RECALL_AT, Gold
from arbo.engine import Bools, Floats, Ids, LinkingScores, linking_scores
from arbo.errors import DataError


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """The candidates of each mention of some documents, best first, and their origin.

    Raise ValueError if the arrays differ in shape, or entities are no integers.
    """

    entities: Ids
    """(mentions, k) rows of the knowledge base, counted from 0; empty places have -1, and come last."""
    scores: Floats
    """(mentions, k) float32, in descending order; higher is closer. Empty places, and entities without a score such as
    an added gold entity, have -inf."""
    documents: str
    """Fingerprint of the documents."""
    knowledge_base: str
    """Fingerprint of the knowledge base."""
    made_by: dict[str, Any]
    """Settings of the encoder and of later steps, such as a reranker; ready for JSON."""

    def __post_init__(self) -> None:
        entities, scores = np.asarray(self.entities), np.asarray(self.scores, np.float32)
        if entities.ndim != 2 or entities.shape != scores.shape:
            shapes = f"{entities.shape} and {scores.shape}"
            raise ValueError(f"entities and scores must have one shape (mentions, k), not {shapes}")
        if entities.dtype.kind not in "iu":
            raise ValueError(f"entities must be integers, rows of the knowledge base, not {entities.dtype}")
        object.__setattr__(self, "entities", entities.astype(np.int32, copy=False))
        object.__setattr__(self, "scores", scores)

    @property
    def k(self) -> int:
        """Number of places per mention."""
        return int(self.entities.shape[1])

    def __len__(self) -> int:
        return len(self.entities)

    def __repr__(self) -> str:
        return f"Candidates({len(self):,} mentions, {int((self.entities >= 0).sum()):,} candidates, k={self.k})"

    def check(self, documents: Corpus, kb: KnowledgeBase) -> None:
        """Raise DataError unless the candidates belong to these documents and this knowledge base."""
        if other := self.other_origin(documents.fingerprint, kb.fingerprint):
            raise DataError(f"the candidates were made with {other}; make them again")

    def other_origin(self, documents: str, knowledge_base: str) -> str | None:
        """Describe, for errors, how the origin differs from these fingerprints; None if it does not."""
        if self.documents != documents:
            return f"other documents (fingerprint {self.documents}, not {documents})"
        if self.knowledge_base != knowledge_base:
            return f"another knowledge base (fingerprint {self.knowledge_base}, not {knowledge_base})"
        return None

    def evaluate(
        self, documents: Iterable[Any], kb: KnowledgeBase, *, train: Iterable[Any] | None = None
    ) -> LinkingScores:
        """Score the candidates by recall@k, and the first one of each mention as its link, without graph or NIL.

        ``train`` are documents whose gold entities count as seen; they add scores for seen and unseen entities. The
        errors are those of `check`.
        """
        corpus = Corpus.of(documents)
        self.check(corpus, kb)
        gold = Gold.of(corpus, kb)
        return linking_scores(
            *gold.accepted,
            self.entities[:, 0] if self.k else np.full(len(self), -1),
            annotated=gold.annotated,
            candidates=self.entities,
            k=[at for at in RECALL_AT if at <= self.k],
            seen=None if train is None else gold.seen(Corpus.of(train)),
            groups={
                "type": [mention.type for mention in corpus.mentions],
                "domain": [document.domain for document in corpus for _ in document.mentions],
            },
        )


def with_gold(candidates: Candidates, gold: Ids) -> Candidates:
    """Add the gold entity as the last candidate of each mention that has no gold candidate (the oracle SELF).

    The gold entity gets the score -inf, and in a full list it replaces the last candidate. ``gold`` holds the rows of
    the correct entities of each mention, (mentions, any number), padded with -1; the first is added, see
    `arbo.data.gold.Gold.entities`.

    >>> candidates = Candidates([[3, 1], [2, -1], [0, 1]], [[0.9, 0.5], [0.7, -np.inf], [0.8, 0.1]], "d", "kb", {})
    >>> with_gold(candidates, np.array([[1, -1], [5, 4], [-1, -1]])).entities.tolist()
    [[3, 1], [2, 5], [0, 1]]
    """
    if not gold.shape[1] or not candidates.k:
        return candidates
    missed = np.flatnonzero((gold[:, 0] >= 0) & ~is_gold(candidates.entities, gold).any(axis=1))
    place = np.minimum((candidates.entities[missed] >= 0).sum(axis=1), candidates.k - 1)
    entities, scores = candidates.entities.copy(), candidates.scores.copy()
    entities[missed, place], scores[missed, place] = gold[missed, 0], -np.inf
    return replace(candidates, entities=entities, scores=scores, made_by={**candidates.made_by, "gold": "injected"})


def best_first(entities: Ids, scores: Floats) -> tuple[Ids, Floats]:
    """Sort the candidates of each mention by descending score; equal scores keep their order, empty places are last."""
    order = np.lexsort((-scores, entities < 0), axis=-1)
    return np.take_along_axis(entities, order, axis=1), np.take_along_axis(scores, order, axis=1)


def gaps_filled(scores: Floats) -> Floats:
    """Replace missing scores with the lowest score of the mention, or with 0 if it has no score; (mentions, k)."""
    lowest = np.where(np.isfinite(scores), scores, np.float32(np.inf)).min(axis=1, initial=np.inf, keepdims=True)
    return np.where(np.isfinite(scores), scores, np.where(np.isfinite(lowest), lowest, np.float32(0)))


def margins(scores: Floats) -> Floats:
    """Return the score of the first candidate minus the score of the second; infinity without a second score."""
    margin = np.full(len(scores), np.inf, np.float32)
    if scores.shape[1] > 1:
        has_two = np.isfinite(scores[:, 1])
        margin[has_two] = scores[has_two, 0] - scores[has_two, 1]
    return margin


def is_gold(entities: Ids, gold: Ids) -> Bools:
    """Mark the candidates that are gold entities of their mention; (mentions, k).

    ``gold`` has the shape (mentions, any number), and is padded with -1.
    """
    right = np.zeros(entities.shape, np.bool_)
    for accepted in gold.T:
        right |= (entities == accepted[:, None]) & (entities >= 0)
    return right
