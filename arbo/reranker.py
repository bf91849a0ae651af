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
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logsumexp, softmax

from arbo.candidates import Candidates, best_first, gaps_filled, is_gold, other_origin
from arbo.config import check_skip_margin
from arbo.documents import Corpus
from arbo.encoders import Encoder, MentionInput
from arbo.errors import DataError
from arbo.knowledge_base import Entity, KnowledgeBase
from arbo.progress import Announce, quiet
from arbo.retrieval import Retrieval, mention_inputs
from clustering.arrays import Bools, Floats, Ids
from clustering.comparison import Embeddings
from clustering.knn import Neighbors
from clustering.vectors import Metric


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
    entities, said = _read(reranker, inputs, kb, candidates.entities, candidates.scores, skip_margin, announce)
    probability = _probability(entities, said)
    settings = {**candidates.made_by, "reranker": reranker.settings, "skip_margin": skip_margin}
    return replace(candidates, entities=entities, scores=probability, made_by=settings)


def margins(scores: Floats) -> Floats:
    """How much better the first candidate of each mention is than the second; infinite where that has no score."""
    margin = np.full(len(scores), np.inf, np.float32)
    if scores.shape[1] > 1:
        has_two = np.isfinite(scores[:, 1])
        margin[has_two] = scores[has_two, 0] - scores[has_two, 1]
    return margin


class Skipping(NamedTuple):
    """What it costs not to read the mentions that a first stage is sure of."""

    margin: float | None
    """The smallest margin that is skipped, see `rerank`; None to skip none."""
    skipped: float
    """Share of all mentions that are not read."""
    accuracy: float
    """Share of the mentions with a gold entity whose first candidate is one."""
    lost: float
    """Accuracy when all are read, minus ``accuracy``; negative where the first stage knew better."""


def skipping(retrieved: Candidates, reranked: Candidates, gold: Ids, *, most_lost: float = 0.0) -> Skipping:
    """Choose the margin from which on mentions are not read, on documents with gold annotations.

    Of the margins there are, the smallest whose loss of accuracy is not above ``most_lost``: the most is skipped. All
    are tried, exactly. Choose it on other documents than those that are reported on.

    Args:
        retrieved: candidates of a first stage.
        reranked: the same, all of them read: `rerank` without a margin.
        gold: (mentions, any) rows of the entities that are right for each, see `arbo.candidates.gold_rows`.
        most_lost: of the accuracy, between 0 and 1.

    Raises:
        ValueError: candidates and gold that are not of the same mentions, or ``most_lost`` is out of range.

    >>> before = Candidates([[0, 1], [0, 1], [0, 1]], [[0.9, 0.1], [0.6, 0.5], [0.8, 0.1]], "d", "kb", {})
    >>> after = Candidates([[0, 1], [1, 0], [0, 1]], [[0.9, 0.1]] * 3, "d", "kb", {})
    >>> skipping(before, after, np.array([[0], [1], [0]]))
    Skipping(margin=0.699999988079071, skipped=0.6666666666666666, accuracy=1.0, lost=0.0)

    """
    if not len(retrieved) == len(reranked) == len(gold):
        raise ValueError(f"{len(retrieved):,} mentions, but {len(reranked):,} reranked and {len(gold):,} with gold")
    if other := other_origin(reranked.origin, retrieved.origin):
        raise ValueError(f"the reranked candidates were made with {other}")
    if not 0 <= most_lost <= 1:
        raise ValueError(f"most_lost must be between 0 and 1, not {most_lost!r}")
    margin = margins(retrieved.scores)
    before, after = (np.any(is_gold(one.entities[:, :1], gold), axis=1).astype(int) for one in (retrieved, reranked))
    n_gold = max(1, int((gold >= 0).any(axis=1).sum()))
    order = np.argsort(-margin, kind="stable")
    lost = np.cumsum(np.append(0, after[order] - before[order]))
    possible = np.ones(len(order) + 1, np.bool_)
    possible[1:-1] = margin[order][1:] != margin[order][:-1]  # equal margins are skipped together
    possible[1:] &= np.isfinite(margin[order])
    n_skipped = int(np.flatnonzero(possible & (lost <= most_lost * n_gold + 1e-9))[-1])
    return Skipping(
        float(margin[order[n_skipped - 1]]) if n_skipped else None,
        n_skipped / max(1, len(margin)),
        float(after.sum() - lost[n_skipped]) / n_gold,
        float(lost[n_skipped]) / n_gold,
    )


@dataclass(frozen=True, slots=True)
class TwoStages:
    """An encoder whose edges are a reranker's, those of entities at least: what it encodes is the encoder's."""

    encoder: Encoder
    reranker: Reranker
    mentions: bool = False
    """Whether the edges between mentions are the reranker's too."""
    skip_margin: float | None = None
    """See `rerank`."""

    @property
    def metric(self) -> Metric:
        """How its vectors are compared."""
        return self.encoder.metric

    @property
    def threshold(self) -> tuple[float, float]:
        """Default thresholds: the reranker's on the edges that it makes, the encoder's on the others."""
        entity = self.reranker.threshold
        return entity, entity if self.mentions else self.encoder.threshold[1]

    @property
    def settings(self) -> dict[str, Any]:
        """What identifies both in a manifest; what `rerank` writes into ``Candidates.made_by``."""
        return {**self.encoder.settings, "reranker": self.reranker.settings, "skip_margin": self.skip_margin}

    def fit(self, names: Sequence[str]) -> Self:
        """Fit the encoder."""
        return replace(self, encoder=self.encoder.fit(names))

    def encode_entities(self, kb: KnowledgeBase, announce: Announce = quiet) -> Embeddings:
        """Encode as the encoder does."""
        return self.encoder.encode_entities(kb, announce)

    def encode_mentions(self, mentions: Sequence[MentionInput], announce: Announce = quiet) -> Embeddings:
        """Encode as the encoder does."""
        return self.encoder.encode_mentions(mentions, announce)


@dataclass(frozen=True, eq=False, slots=True)
class Reranked(Retrieval):
    """A retrieval whose entities are in a reranker's order; their dissimilarity is 1 minus the probability."""

    def similarity(self, dissimilarity: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Turn dissimilarities of entities into probabilities."""
        return np.float32(1) - dissimilarity

    def dissimilarity_to(self, entity: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Dissimilarity of each mention and the entity given for it, 1 for no candidate, infinite for -1."""
        found = np.where(entity >= 0, np.float32(1), np.float32(np.inf))
        mention, place = np.nonzero((self.entities.ids == entity[:, None]) & (entity >= 0)[:, None])
        found[mention] = self.entities.dissimilarity[mention, place]
        return found


def reranked(
    retrieval: Retrieval,
    reranker: Reranker,
    kb: KnowledgeBase,
    *,
    skip_margin: float | None,
    mentions: bool = False,
    announce: Announce,
) -> Reranked:
    """Let a reranker make the entity edges of a retrieval, see `rerank`, and those between ``mentions`` if asked to.

    Neighbours among mentions stay in their order, so that the first k of more are those of k.
    """
    ids, dissimilarity = retrieval.entities
    scores = retrieval.similarity(dissimilarity)
    ids, said = _read(reranker, retrieval.inputs, kb, ids, scores, skip_margin, announce)
    changed: dict[str, Any] = {
        "entities": Neighbors(ids, np.where(ids >= 0, 1 - _probability(ids, said), np.float32(np.inf))),
        "encoder": TwoStages(retrieval.encoder, reranker, mentions, skip_margin),
    }
    if mentions:
        changed["mentions"] = _mention_edges(retrieval, reranker, ids, said, announce)
    return Reranked(**({field.name: getattr(retrieval, field.name) for field in fields(retrieval)} | changed))


def as_entities(inputs: Sequence[MentionInput]) -> KnowledgeBase:
    """Make an entity of each mention, called as the mention is."""
    return KnowledgeBase(
        Entity(str(place), item.name, domain=item.document.domain) for place, item in enumerate(inputs)
    )


def _mention_edges(
    retrieval: Retrieval, reranker: Reranker, entities: Ids, said: Floats, announce: Announce
) -> Neighbors:
    """Weigh the edges between mentions, beside what is said of the candidates of each; without any, of its own name."""
    others, dissimilarity = retrieval.mentions
    there = others >= 0
    alone = (entities < 0).all(axis=1, keepdims=True) & there.any(axis=1, keepdims=True)
    similarity = retrieval.similarity(dissimilarity)
    nearest = similarity.max(axis=1, initial=-np.inf, keepdims=True)
    scores = _scores(
        reranker,
        retrieval.inputs,
        as_entities(retrieval.inputs),
        np.hstack([others, np.arange(len(others), dtype=others.dtype)[:, None]]),
        np.hstack([there, alone]),
        np.hstack([similarity, nearest]),
        announce,
    )
    beside = np.where(alone, scores[:, -1:], logsumexp(said, axis=1, keepdims=True) if said.size else 0)
    return Neighbors(others, np.where(there, expit(beside - scores[:, :-1]), np.inf).astype(np.float32))


def _read(
    reranker: Reranker,
    inputs: Sequence[MentionInput],
    kb: KnowledgeBase,
    entities: Ids,
    scores: Floats,
    skip_margin: float | None,
    announce: Announce,
) -> tuple[Ids, Floats]:
    """Sort candidates by what a reranker says of them, and return that, -inf for what is not read; (mentions, k)."""
    sure: Bools = np.zeros(len(entities), np.bool_) if skip_margin is None else margins(scores) >= skip_margin
    read = (entities >= 0) & ~sure[:, None]
    said = _scores(reranker, inputs, kb, entities, read, gaps_filled(scores), announce)
    said[~read.any(axis=1), :1] = 0
    return best_first(entities, said)


def _scores(
    reranker: Reranker,
    inputs: Sequence[MentionInput],
    kb: KnowledgeBase,
    entities: Ids,
    read: Bools,
    retrieval: Floats,
    announce: Announce,
) -> Floats:
    """Ask for the scores of some entities of each mention, and add the first stage's; -inf elsewhere, (mentions, k)."""
    mention, entity = np.nonzero(read)[0], entities[read]
    own = np.asarray(reranker.score(inputs, kb, mention, entity, announce))
    if own.shape != mention.shape:
        raise DataError(
            f"the reranker gives scores of shape {own.shape} for {len(mention):,} pairs: it must be one each"
        )
    weight = reranker.retrieval_weight
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


def _probability(entities: Ids, said: Floats) -> Floats:
    """Turn what a reranker says of the candidates of a mention into probabilities; (mentions, k)."""
    probability = softmax(said, axis=1) if said.size else said
    return np.where(entities >= 0, probability, np.float32(-np.inf))
