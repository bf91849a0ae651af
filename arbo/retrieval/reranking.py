"""The second stage: a reranker puts the candidates of each mention into its own order, and makes their scores its own.

What it says of the candidates of a mention becomes a probability, by a softmax over them: the models of both papers are
trained to tell the right candidate from the others, so that their scores mean nothing beside those of another mention.
A probability does: 1 minus it is the dissimilarity of the entity edge, from 0 (this one, surely) to 1 (not this one).
An entity that is no candidate has the probability 0. A threshold of 0.5 links what is likelier than all others
together. It cannot tell a mention that no candidate fits from one that several fit, and a single candidate always has
the probability 1: where mentions can be NIL, tune the threshold.

Mention edges stay those of the encoder, unless they are asked for too (`LinkerConfig.rerank_mentions`), as in Angell et
al. (2021), "Clustering-based inference for biomedical entity linking". Another mention is then read like an entity of
its name, and compared with the candidates: the probability is that in a softmax over them and it. In a domain without
entities a mention has no candidates. In their place stands an entity of its own name, which the first stage finds as
near as the nearest neighbour: a neighbour of the same name has the probability 0.5, and one that fits worse has less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, logsumexp, softmax

from arbo.data.corpus import Corpus
from arbo.data.entities import Entity
from arbo.data.inputs import MentionInput, mention_inputs
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Bools, Floats, Ids, Neighbors
from arbo.errors import DataError
from arbo.progress import Announce, quiet
from arbo.retrieval.candidates import Candidates, best_first, gaps_filled
from arbo.retrieval.early_exit import check_skip_margin, margins
from arbo.retrieval.retrieval import Retrieval


class Reranker(Protocol):
    """Scores a mention with an entity, having read both; `arbo.CrossEncoder` is one."""

    @property
    def threshold(self) -> float:
        """Default threshold on 1 minus the probability of an entity among the candidates."""

    @property
    def retrieval_weight(self) -> float:
        """What a first stage's score is multiplied with before it is added to this one's; 0 leaves it out."""

    @property
    def settings(self) -> dict[str, Any]:
        """What identifies it in a manifest, ready for JSON."""

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score mention ``mention[i]`` with the entity in row ``entity[i]``: any finite numbers, (pairs,)."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reranker, and the mentions that it reads."""

    reranker: Reranker
    inputs: Sequence[MentionInput]
    announce: Announce

    def sorted(self, kb: KnowledgeBase, entities: Ids, scores: Floats, skip_margin: float | None) -> tuple[Ids, Floats]:
        """Sort candidates by the scores of the reranker; (mentions, k) both, scores -inf for what is not read."""
        sure: Bools = np.zeros(len(entities), np.bool_) if skip_margin is None else margins(scores) >= skip_margin
        read = (entities >= 0) & ~sure[:, None]
        said = self.scores(kb, entities, read, gaps_filled(scores))
        said[~read.any(axis=1), :1] = 0
        return best_first(entities, said)

    def scores(self, kb: KnowledgeBase, entities: Ids, read: Bools, retrieval: Floats) -> Floats:
        """Score some entities of each mention, the first stage's scores added; (mentions, k), -inf elsewhere."""
        mention, entity = np.nonzero(read)[0], entities[read]
        own = np.asarray(self.reranker.score(self.inputs, kb, mention, entity, self.announce))
        if own.shape != mention.shape:
            raise DataError(
                f"the reranker gives scores of shape {own.shape} for {len(mention):,} pairs: it must be one each"
            )
        weight = self.reranker.retrieval_weight
        with np.errstate(over="ignore", invalid="ignore"):
            given = own.astype(np.float32) + np.float32(weight) * retrieval[read]
        if n_bad := int((~np.isfinite(given)).sum()):
            raise DataError(
                f"the reranker gives NaN or infinity for {n_bad:,} of {len(given):,} pairs, {weight:g} times the first "
                "stage's score (`retrieval_weight`) added"
            )
        scores = np.full(entities.shape, -np.inf, np.float32)
        scores[read] = given
        return scores


def rerank(
    reranker: Reranker,
    candidates: Candidates,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    skip_margin: float | None = None,
    expand_abbreviations: bool = True,
    announce: Announce = quiet,
) -> Candidates:
    """Put the candidates of each mention into a reranker's order: the same sets, with probabilities as scores.

    Candidates that it takes for equal stay in their order.

    Args:
        reranker: what reads each mention with each of its candidates.
        candidates: what a first stage found.
        documents: those that the candidates are of, see `Linker.link`.
        kb: that of the candidates.
        skip_margin: at least 0; mentions whose first candidate is so much better than the second, by the scores that
            ``candidates`` have, are not read: the first has the probability 1. None reads all. See `skipping`.
        expand_abbreviations: see `LinkerConfig.expand_abbreviations`.
        announce: shows progress, see `arbo.progress`.

    Raises:
        DataError: candidates of other documents or of another knowledge base, or scores that are NaN, infinite, or not
            one for each pair.

    """
    check_skip_margin(skip_margin)
    corpus = Corpus.of(documents)
    candidates.check(corpus, kb)
    inputs = mention_inputs(corpus, expand_abbreviations=expand_abbreviations)
    reading = _Reading(reranker, inputs, announce)
    entities, said = reading.sorted(kb, candidates.entities, candidates.scores, skip_margin)
    probability = _probability(entities, said)
    settings = _settings(candidates.made_by, reranker, skip_margin)
    return replace(candidates, entities=entities, scores=probability, made_by=settings)


def reranked(
    retrieval: Retrieval,
    reranker: Reranker,
    kb: KnowledgeBase,
    *,
    skip_margin: float | None,
    mentions: bool = False,
    announce: Announce,
) -> Retrieval:
    """Let a reranker make the entity edges of a retrieval, see `rerank`, and those between ``mentions`` if asked to.

    The dissimilarity of an entity is then 1 minus its probability. Neighbours among mentions stay in their order, so
    that the first k of more are those of k.
    """
    ids, dissimilarity = retrieval.entities
    reading = _Reading(reranker, retrieval.inputs, announce)
    ids, said = reading.sorted(kb, ids, retrieval.similarity(dissimilarity), skip_margin)
    limit = reranker.threshold
    return replace(
        retrieval,
        entities=Neighbors(ids, np.where(ids >= 0, 1 - _probability(ids, said), np.float32(np.inf))),
        mentions=_mention_edges(retrieval, reading, ids, said) if mentions else retrieval.mentions,
        distance=_no_candidate,
        offset=1.0,
        threshold=(limit, limit if mentions else retrieval.threshold[1]),
        settings=_settings(retrieval.settings, reranker, skip_margin),
    )


def as_entities(inputs: Sequence[MentionInput]) -> KnowledgeBase:
    """Make an entity of each mention, called as the mention is."""
    return KnowledgeBase(
        Entity(str(place), item.name, domain=item.document.domain) for place, item in enumerate(inputs)
    )


def _mention_edges(retrieval: Retrieval, reading: _Reading, entities: Ids, said: Floats) -> Neighbors:
    """Weigh the edges between mentions, beside what is said of the candidates of each; without any, of its own name."""
    others, dissimilarity = retrieval.mentions
    there = others >= 0
    alone = (entities < 0).all(axis=1, keepdims=True) & there.any(axis=1, keepdims=True)
    similarity = retrieval.similarity(dissimilarity)
    nearest = similarity.max(axis=1, initial=-np.inf, keepdims=True)
    scores = reading.scores(
        as_entities(retrieval.inputs),
        np.hstack([others, np.arange(len(others), dtype=others.dtype)[:, None]]),
        np.hstack([there, alone]),
        np.hstack([similarity, nearest]),
    )
    beside = np.where(alone, scores[:, -1:], logsumexp(said, axis=1, keepdims=True) if said.size else 0)
    return Neighbors(others, np.where(there, expit(beside - scores[:, :-1]), np.inf).astype(np.float32))


def _probability(entities: Ids, said: Floats) -> Floats:
    """Turn what a reranker says of the candidates of a mention into probabilities; (mentions, k)."""
    probability = softmax(said, axis=1) if said.size else said
    return np.where(entities >= 0, probability, np.float32(-np.inf))


def _no_candidate(mention: Ids, entity: Ids) -> Floats:
    """Return the dissimilarity of entities that are no candidates: 1, as their probability is 0."""
    return np.ones(len(mention), np.float32)


def _settings(made_by: dict[str, Any], reranker: Reranker, skip_margin: float | None) -> dict[str, Any]:
    return {**made_by, "reranker": reranker.settings, "skip_margin": skip_margin}
