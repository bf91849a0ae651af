"""The second stage: a reranker scores and sorts the candidates of each mention.

A softmax over the candidates of a mention turns the scores into probabilities. Rerankers are trained to separate the
correct candidate from the others of a mention, so scores of different mentions are not comparable, but probabilities
are. The dissimilarity of an entity edge is 1 minus the probability: 0 means certain, 1 means excluded. Entities that
are not candidates have the probability 0. A threshold of 0.5 links an entity that is more likely than all others
together. The threshold cannot distinguish a mention without a fitting candidate from one with several, and a single
candidate always has the probability 1: if mentions can be NIL, tune the threshold.

Mention edges stay those of the encoder, unless `LinkerConfig.rerank_mentions` is set, as in Angell et al. (2021),
"Clustering-based inference for biomedical entity linking". The reranker then reads the other mention like an entity
with its name, and its probability comes from a softmax over the candidates and this mention. A mention in a domain
without entities has no candidates; an entity with the mention's own name takes their place, with the first-stage score
of the nearest neighbour. So a neighbour with the same name has the probability 0.5, and a worse neighbour has less.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy  # its modules are imported when they are used

from arbo.data import Corpus, Entity, KnowledgeBase, MentionInput, mention_inputs
from arbo.engine import Bools, Floats, Ids, Neighbors
from arbo.errors import DataError
from arbo.progress import Announce, quiet
from arbo.retrieval.called import RerankFunction, reranker_of
from arbo.retrieval.candidates import Candidates, best_first, gaps_filled
from arbo.retrieval.early_exit import check_skip_margin, margins
from arbo.retrieval.retrieval import Retrieval


class Reranker(Protocol):
    """Scores pairs of a mention and an entity, like `arbo.CrossEncoder`."""

    @property
    def threshold(self) -> float:
        """Default threshold on 1 minus the probability of an entity among the candidates."""

    @property
    def retrieval_weight(self) -> float:
        """Weight of the score from retrieval, which is added to the reranker's score; 0 leaves it out."""

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the reranker in a manifest, ready for JSON."""

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score mention ``mention[i]`` with the entity in row ``entity[i]``; return (pairs,) finite numbers."""


Score = Callable[[Sequence[MentionInput], KnowledgeBase, Ids, Ids, Announce], Floats]
"""Scores pairs, see `Reranker.score`."""


@dataclass(frozen=True, slots=True)
class _Reading:
    reranker: Reranker
    inputs: Sequence[MentionInput]
    announce: Announce
    score: Score

    def sorted(self, kb: KnowledgeBase, entities: Ids, scores: Floats, skip_margin: float | None) -> tuple[Ids, Floats]:
        """Sort candidates by the reranker's scores; return the sorted candidates and scores, both (mentions, k).

        Candidates that the reranker does not read have -inf, but the first one of a skipped mention has 0.
        """
        sure: Bools = np.zeros(len(entities), np.bool_) if skip_margin is None else margins(scores) >= skip_margin
        read = (entities >= 0) & ~sure[:, None]
        said = self.scores(kb, entities, read, gaps_filled(scores))
        said[~read.any(axis=1), :1] = 0
        return best_first(entities, said)

    def scores(self, kb: KnowledgeBase, entities: Ids, read: Bools, retrieval: Floats) -> Floats:
        """Score the entities marked in ``read``, adding weighted ``retrieval`` scores; (mentions, k), else -inf."""
        mention, entity = np.nonzero(read)[0], entities[read]
        own = scores_of(self.score, self.inputs, kb, mention, entity, self.announce)
        weight = self.reranker.retrieval_weight
        with np.errstate(over="ignore", invalid="ignore"):
            given = own.astype(np.float32) + np.float32(weight) * retrieval[read]
        if n_bad := int((~np.isfinite(given)).sum()):
            added = f", after adding {weight:g} times the score from retrieval (`retrieval_weight`)" if weight else ""
            wrong = f"the reranker returned NaN or infinity for {n_bad:,} of {len(given):,} pairs{added}"
            raise DataError(f"{wrong}; it must return finite scores")
        scores = np.full(entities.shape, -np.inf, np.float32)
        scores[read] = given
        return scores


def scores_of(
    score: Score, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, how: Announce
) -> Floats:
    """Return the scores of a reranker, see `Reranker.score`; raise DataError if it returns a wrong number of them."""
    own = np.asarray(score(mentions, kb, mention, entity, how))
    if own.shape != mention.shape:
        raise DataError(
            f"the reranker returned scores of the shape {own.shape}, not {mention.shape}; return one for each pair"
        )
    return own


def rerank(
    reranker: Reranker | RerankFunction,
    candidates: Candidates,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    skip_margin: float | None = None,
    expand_abbreviations: bool = True,
    announce: Announce = quiet,
) -> Candidates:
    """Sort the candidates of each mention with a reranker or function, and return them with probabilities as scores.

    Candidates with equal scores keep their order. ``documents`` (see `Linker.link`) and ``kb`` must be those of the
    candidates. A mention is skipped if the score of its first candidate exceeds that of the second by ``skip_margin``
    or more, or if the second has no score; its first candidate then has the probability 1. With ``skip_margin=None`` no
    mention is skipped; `skipping` chooses a margin. For ``expand_abbreviations`` see `LinkerConfig`.

    Raises:
        DataError: the candidates belong to other documents or another knowledge base, or the reranker returned NaN,
            infinity, or a wrong number of scores.
        UsageError: ``skip_margin`` is negative or not a finite number.
    """
    check_skip_margin(skip_margin)
    corpus = Corpus.of(documents)
    candidates.check(corpus, kb)
    inputs = mention_inputs(corpus, expand_abbreviations=expand_abbreviations)
    scorer: Reranker = reranker_of(reranker)
    reading = _Reading(scorer, inputs, announce, scorer.score)
    entities, said = reading.sorted(kb, candidates.entities, candidates.scores, skip_margin)
    probability = _probability(entities, said)
    settings = _settings(candidates.made_by, scorer, skip_margin)
    return replace(candidates, entities=entities, scores=probability, made_by=settings)


def reranked(
    retrieval: Retrieval,
    reranker: Reranker,
    kb: KnowledgeBase,
    *,
    skip_margin: float | None,
    mentions: bool = False,
    announce: Announce,
    score: Score | None = None,
) -> Retrieval:
    """Rerank the entity edges of a retrieval, see `rerank`; with ``mentions``, also those between mentions.

    The dissimilarity of an entity is then 1 minus its probability. The list of neighbouring mentions is not sorted
    again: it stays in the order of the encoder. ``score`` takes the place of `Reranker.score`.
    """
    ids, dissimilarity = retrieval.entities
    reading = _Reading(reranker, retrieval.inputs, announce, score or reranker.score)
    ids, said = reading.sorted(kb, ids, retrieval.similarity(dissimilarity), skip_margin)
    limit = reranker.threshold
    return replace(
        retrieval,
        entities=Neighbors(ids, np.where(ids >= 0, 1 - _probability(ids, said), np.float32(np.inf))),
        mentions=_mention_edges(retrieval, reading, ids, said) if mentions else retrieval.mentions,
        distance=lambda mention, _: np.ones(len(mention), np.float32),  # others have the probability 0
        offset=1.0,
        threshold=(limit, limit if mentions else retrieval.threshold[1]),
        settings=_settings(retrieval.settings, reranker, skip_margin),
    )


def as_entities(inputs: Sequence[MentionInput]) -> KnowledgeBase:
    """Make a knowledge base with one entity for each mention, whose name and domain are those of the mention."""
    return KnowledgeBase(
        Entity(str(place), item.name, domain=item.document.domain) for place, item in enumerate(inputs)
    )


def _mention_edges(retrieval: Retrieval, reading: _Reading, entities: Ids, said: Floats) -> Neighbors:
    """Return the dissimilarities of mention edges, relative to the candidates' scores or that of the own name."""
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
    beside = np.where(alone, scores[:, -1:], scipy.special.logsumexp(said, axis=1, keepdims=True) if said.size else 0)
    return Neighbors(others, np.where(there, scipy.special.expit(beside - scores[:, :-1]), np.inf).astype(np.float32))


def _probability(entities: Ids, said: Floats) -> Floats:
    probability = scipy.special.softmax(said, axis=1) if said.size else said
    return np.where(entities >= 0, probability, np.float32(-np.inf))


def _settings(made_by: dict[str, Any], reranker: Reranker, skip_margin: float | None) -> dict[str, Any]:
    return {**made_by, "reranker": reranker.settings, "skip_margin": skip_margin}
