"""The second stage: a reranker scores and sorts the candidates of each mention.

A softmax over the candidates of a mention turns the scores into probabilities. Rerankers are trained to separate the
correct candidate from the others of a mention, so scores of different mentions are not comparable, but probabilities
are. The dissimilarity of an entity edge is 1 minus the probability: 0 means certain, 1 means excluded. Entities that
are not candidates have the probability 0. A threshold of 0.5 links an entity that is more likely than all others
together. The threshold cannot distinguish a mention without a fitting candidate from one with several, and a single
candidate always has the probability 1: if mentions can be NIL, tune the threshold.

Mention edges stay those of the encoder: a reranker's gain nothing (`benchmarks/reports/cross_encoder.md`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy  # its modules are imported when they are used

from arbo.data import Corpus, KnowledgeBase, MentionInput, mention_inputs
from arbo.engine import Bools, Floats, Ids, Neighbors
from arbo.errors import DataError, UsageError
from arbo.progress import Announce, quiet
from arbo.retrieval.candidates import Candidates, best_first, gaps_filled, margins
from arbo.retrieval.function_reranker import RerankFunction, reranker_of
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
class _Scorer:
    """A reranker and the mentions whose pairs it scores."""

    reranker: Reranker
    inputs: Sequence[MentionInput]
    announce: Announce
    score: Score

    def sorted(self, kb: KnowledgeBase, entities: Ids, scores: Floats, skip_margin: float | None) -> tuple[Ids, Floats]:
        """Sort candidates by the reranker's scores; return the sorted candidates and scores, both (mentions, k).

        Candidates that the reranker does not read have -inf, but the first one of a skipped mention has 0.
        """
        is_skipped: Bools = np.zeros(len(entities), np.bool_) if skip_margin is None else margins(scores) >= skip_margin
        is_read = (entities >= 0) & ~is_skipped[:, None]
        scores = self.scores(kb, entities, is_read, gaps_filled(scores))
        scores[~is_read.any(axis=1), :1] = 0
        return best_first(entities, scores)

    def scores(self, kb: KnowledgeBase, entities: Ids, is_read: Bools, retrieval: Floats) -> Floats:
        """Score the entities marked in ``is_read``, adding weighted ``retrieval`` scores; (mentions, k), else -inf."""
        scored = scores_of(self.score, self.inputs, kb, np.nonzero(is_read)[0], entities[is_read], self.announce)
        weight = self.reranker.retrieval_weight
        with np.errstate(over="ignore", invalid="ignore"):
            total = scored.astype(np.float32) + np.float32(weight) * retrieval[is_read]
        if n_bad := int((~np.isfinite(total)).sum()):
            added = f", after adding {weight:g} times the score from retrieval (`retrieval_weight`)" if weight else ""
            problem = f"the reranker returned NaN or infinity for {n_bad:,} of {len(total):,} pairs{added}"
            raise DataError(f"{problem}; it must return finite scores")
        scores = np.full(entities.shape, -np.inf, np.float32)
        scores[is_read] = total
        return scores


def scores_of(
    score: Score, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce
) -> Floats:
    """Return the scores of a reranker, see `Reranker.score`; raise DataError if it returns a wrong number of them."""
    scores = np.asarray(score(mentions, kb, mention, entity, announce))
    if scores.shape != mention.shape:
        raise DataError(
            f"the reranker returned scores of the shape {scores.shape}, not {mention.shape}; return one for each pair"
        )
    return scores


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
    mention is skipped. For ``expand_abbreviations`` see `LinkerConfig`.

    Raises:
        DataError: the candidates belong to other documents or another knowledge base, or the reranker returned NaN,
            infinity, or a wrong number of scores.
        UsageError: ``skip_margin`` is negative or not a finite number.
    """
    if skip_margin is not None and (type(skip_margin) not in (int, float) or not 0 <= skip_margin < float("inf")):
        raise UsageError(f"skip_margin must be None or a finite number of at least 0, not {skip_margin!r}")
    corpus = Corpus.of(documents)
    candidates.check(corpus, kb)
    inputs = mention_inputs(corpus, expand_abbreviations=expand_abbreviations, kb=kb)
    model: Reranker = reranker_of(reranker)
    scorer = _Scorer(model, inputs, announce, model.score)
    entities, scores = scorer.sorted(kb, candidates.entities, candidates.scores, skip_margin)
    settings = _settings(candidates.made_by, model, skip_margin)
    return replace(candidates, entities=entities, scores=_probability(entities, scores), made_by=settings)


def reranked(
    retrieval: Retrieval,
    reranker: Reranker,
    kb: KnowledgeBase,
    *,
    skip_margin: float | None,
    announce: Announce,
    score: Score | None = None,
) -> Retrieval:
    """Rerank the entity edges of a retrieval, see `rerank`; ``score`` takes the place of `Reranker.score`.

    The dissimilarity of an entity is then 1 minus its probability.
    """
    ids, dissimilarity = retrieval.entities
    scorer = _Scorer(reranker, retrieval.inputs, announce, score or reranker.score)
    ids, scores = scorer.sorted(kb, ids, retrieval.similarity(dissimilarity), skip_margin)
    return replace(
        retrieval,
        entities=Neighbors(ids, np.where(ids >= 0, 1 - _probability(ids, scores), np.float32(np.inf))),
        distance=lambda mention, _: np.ones(len(mention), np.float32),  # others have the probability 0
        offset=1.0,
        threshold=(reranker.threshold, retrieval.threshold[1]),
        settings=_settings(retrieval.settings, reranker, skip_margin),
    )


def _probability(entities: Ids, scores: Floats) -> Floats:
    probability = scipy.special.softmax(scores, axis=1) if scores.size else scores
    return np.where(entities >= 0, probability, np.float32(-np.inf))


def _settings(made_by: dict[str, Any], reranker: Reranker, skip_margin: float | None) -> dict[str, Any]:
    return {**made_by, "reranker": reranker.settings, "skip_margin": skip_margin}
