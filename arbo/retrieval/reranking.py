"""The second stage: a reranker scores and sorts the candidates of each mention.

A softmax over the candidates of a mention turns the scores into probabilities. Rerankers are trained to separate the
correct candidate from the others of a mention, so scores of different mentions are not comparable, but probabilities
are. The dissimilarity of an entity edge is 1 minus the probability: 0 means certain, 1 means excluded. Entities that
are not candidates have the probability 0. A threshold of 0.5 links an entity that is more likely than all others
together. The threshold cannot distinguish a mention without a fitting candidate from one with several, and a single
candidate always has the probability 1: if mentions can be NIL, tune the threshold.

Mention edges stay those of the encoder: a reranker's gain nothing (`benchmarks/reports/cross_encoder.md`).

A run remembers which pairs were scored, so that growth scores only new pairs. A transformer repeats scores only to
rounding, since they depend a little on the other pairs of a batch: remembered ones alone equal those of an earlier run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy  # its modules are imported when they are used

from arbo.data import Corpus, Entity, KnowledgeBase, MentionInput, mention_inputs
from arbo.engine import Bools, Floats, Ids, Neighbors
from arbo.errors import DataError, UsageError
from arbo.progress import Announce, quiet
from arbo.retrieval.candidates import Candidates, best_first, gaps_filled, margins
from arbo.retrieval.retrieval import PairScores, Retrieval

RerankFunction: TypeAlias = Callable[[Sequence[MentionInput], Sequence[Sequence[Entity]]], Sequence[Sequence[float]]]
"""Takes mentions and the candidates of each; returns a list of scores for each mention, in the order of candidates."""


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


@dataclass(frozen=True, slots=True)
class FunctionReranker:
    """A `Reranker` that calls a function; a softmax over the scores of a mention makes them probabilities.

    The settings hold the function's name alone: arbo cannot tell whether its code or model changed. A saved run keeps
    the scores, and grows by asking only about mentions that have a new candidate, with all their candidates.
    """

    function: RerankFunction
    retrieval_weight: float = 0.0
    threshold: float = 0.5
    whole: ClassVar[bool] = True
    """The function needs all candidates of a mention at once, since it may choose among them; see `ScoreMemory`."""

    @property
    def settings(self) -> dict[str, Any]:
        """The name of the function, and the weight of the score from retrieval."""
        function = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return {"function": f"{function.__module__}.{function.__qualname__}", "retrieval_weight": self.retrieval_weight}

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score pairs, see `Reranker.score`; pairs of a mention that follow each other are asked together.

        Raise DataError if the function returns a wrong number of scores, or a score that is not a finite number.
        """
        begins = np.flatnonzero(np.diff(mention, prepend=-1))
        items = [mentions[row] for row in mention[begins].tolist()]
        candidates = [[kb.entities[row] for row in rows.tolist()] for rows in np.split(entity, begins)[1:]]
        answers = self.function([*items], [[*some] for some in candidates])  # the function may change its copies
        if not hasattr(answers, "__len__") or len(answers) != len(items):
            raise DataError(f"the reranker returned {answers!r:.80}; return {len(items):,} lists, one for each mention")
        return np.concatenate([_answer_of(*each) for each in zip(items, candidates, answers, strict=True)])


def reranker_of(reranker: Any) -> Any:
    """Return a reranker, or make one of a function; raise UsageError if it is neither, or a class."""
    if hasattr(reranker, "score") and not isinstance(reranker, type):
        return reranker
    if callable(reranker) and not isinstance(reranker, type):
        return FunctionReranker(reranker)
    expected = (
        "a function of mentions and their candidates, or a model such as arbo.CrossEncoder.from_pretrained(folder)"
    )
    raise UsageError(f"the reranker {reranker!r:.100} cannot score candidates; give {expected}")


def _answer_of(item: MentionInput, candidates: Sequence[Entity], answer: Any) -> Floats:
    """Check the scores of a mention, and return them as an array."""
    scores = np.empty(0, np.float32)
    with suppress(TypeError, ValueError, OverflowError):
        scores = np.asarray(answer, np.float32)
    if scores.shape != (len(candidates),) or not np.isfinite(scores).all():
        problem = f"the reranker returned {answer!r:.80} for {len(candidates)} candidates"
        raise DataError(f"{problem}; return a finite number for each", id=item.mention.id)
    return scores


@dataclass(eq=False, slots=True)
class ScoreMemory:
    """Scores pairs like a reranker, but asks it only about pairs that are unknown.

    A reranker that is ``whole`` is asked about all pairs of a mention if one of them is unknown.
    """

    reranker: Reranker
    known: PairScores | None = None
    scored: PairScores | None = None
    """All pairs that were asked for, with their scores."""

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Return the scores of pairs, see `Reranker`; the reranker gets only the mentions of unknown pairs.

        Raise DataError if it returns a wrong number of scores.
        """
        scores, is_new = np.empty(len(mention), np.float32), np.ones(len(mention), np.bool_)
        if self.known is not None and len(self.known.scores):
            scores, is_new = _looked_up(self.known, mention, entity)
            if getattr(self.reranker, "whole", False):
                is_new = np.isin(mention, mention[is_new])
        used, place = np.unique(mention[is_new], return_inverse=True)
        if len(used):
            few = [mentions[row] for row in used.tolist()]
            new = np.asarray(self.reranker.score(few, kb, place, entity[is_new], announce))
            if new.shape != place.shape:
                wrong = f"the reranker returned scores of the shape {new.shape}, not {place.shape}"
                raise DataError(f"{wrong}; return one for each pair")
            with np.errstate(over="ignore"):  # infinity is reported later
                scores[is_new] = new
        self.scored = PairScores(np.column_stack([mention, entity]).astype(np.int32), scores)
        return scores

    def sorted(
        self,
        mentions: Sequence[MentionInput],
        kb: KnowledgeBase,
        entities: Ids,
        scores: Floats,
        skip_margin: float | None,
        announce: Announce,
    ) -> tuple[Ids, Floats]:
        """Sort candidates by the reranker's scores; return the sorted candidates and probabilities, (mentions, k) both.

        Candidates that the reranker does not read have the probability 0, but the first one of a skipped mention has 1.
        """
        is_skipped: Bools = np.zeros(len(entities), np.bool_) if skip_margin is None else margins(scores) >= skip_margin
        is_read = (entities >= 0) & ~is_skipped[:, None]
        scored = self.score(mentions, kb, np.nonzero(is_read)[0], entities[is_read], announce)
        weight = self.reranker.retrieval_weight
        with np.errstate(over="ignore", invalid="ignore"):
            total = scored + np.float32(weight) * gaps_filled(scores)[is_read]
        if n_bad := int((~np.isfinite(total)).sum()):
            added = f", after adding {weight:g} times the score from retrieval (`retrieval_weight`)" if weight else ""
            problem = f"the reranker returned NaN or infinity for {n_bad:,} of {len(total):,} pairs{added}"
            raise DataError(f"{problem}; it must return finite scores")
        read = np.full(entities.shape, -np.inf, np.float32)
        read[is_read] = total
        read[~is_read.any(axis=1), :1] = 0
        entities, read = best_first(entities, read)
        probability = scipy.special.softmax(read, axis=1) if read.size else read
        return entities, np.where(entities >= 0, probability, np.float32(-np.inf))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the pairs that were asked for, for `known_scores`."""
        if self.scored is None:
            return {}
        return {"scored.entities": self.scored.pairs, "score.entities": self.scored.scores.astype(np.float32)}


def known_scores(arrays: Mapping[str, npt.NDArray[Any]], row: Ids, entity: Ids) -> PairScores | None:
    """Return the scores in the arrays of `ScoreMemory.arrays`, of pairs that are still there; None without them.

    ``row`` is the earlier number of each mention, or -1 for a new one; ``entity`` the row of each earlier entity now,
    or -1.
    """
    if "scored.entities" not in arrays:
        return None
    number = np.full(row.max(initial=-1) + 2, -1, np.int32)  # the last is that of mentions that are gone
    number[row[row >= 0]] = np.flatnonzero(row >= 0)
    earlier, other = arrays["scored.entities"].T
    mention, other = number[np.minimum(earlier, len(number) - 1)], entity[other]
    is_left = (mention >= 0) & (other >= 0)
    return PairScores(np.column_stack([mention, other])[is_left], arrays["score.entities"][is_left])


def _looked_up(known: PairScores, mention: Ids, other: Ids) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the known scores of pairs, and which of the pairs are unknown; both (pairs,)."""
    n = max(int(known.pairs[:, 1].max()), int(other.max(initial=0))) + 1
    keys = known.pairs[:, 0].astype(np.int64) * n + known.pairs[:, 1]
    order = np.argsort(keys)
    numbers = mention.astype(np.int64) * n + other
    place = order[np.minimum(np.searchsorted(keys, numbers, sorter=order), len(order) - 1)]
    return known.scores[place], keys[place] != numbers


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
    memory = ScoreMemory(reranker_of(reranker))
    entities, scores = memory.sorted(inputs, kb, candidates.entities, candidates.scores, skip_margin, announce)
    settings = _settings(candidates.made_by, memory.reranker, skip_margin)
    return replace(candidates, entities=entities, scores=scores, made_by=settings)


def reranked(
    retrieval: Retrieval, memory: ScoreMemory, kb: KnowledgeBase, *, skip_margin: float | None, announce: Announce
) -> Retrieval:
    """Rerank the entity edges of a retrieval, see `rerank`: the dissimilarity is then 1 minus the probability."""
    ids, dissimilarity = retrieval.entities
    similarity = retrieval.similarity(dissimilarity)
    ids, probability = memory.sorted(retrieval.inputs, kb, ids, similarity, skip_margin, announce)
    return replace(
        retrieval,
        entities=Neighbors(ids, 1 - probability),
        distance=lambda mention, _: np.ones(len(mention), np.float32),  # others have the probability 0
        offset=1.0,
        threshold=(memory.reranker.threshold, retrieval.threshold[1]),
        settings=_settings(retrieval.settings, memory.reranker, skip_margin),
    )


def _settings(made_by: dict[str, Any], reranker: Reranker, skip_margin: float | None) -> dict[str, Any]:
    return {**made_by, "reranker": reranker.settings, "skip_margin": skip_margin}
