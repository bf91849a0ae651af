"""The second stage: a reranker scores and sorts the candidates of each mention, which are its nearest entities.

A softmax over the candidates of a mention turns the scores, which are not comparable among mentions, into
probabilities. The dissimilarity of an entity edge is 1 minus the probability, that of no candidate 1. A threshold of
0.5 links an entity that is more likely than all others together. It cannot tell a mention without a fitting candidate
from one with several, and a single candidate has the probability 1: if mentions can be NIL, tune the threshold. Mention
edges stay those of the encoder.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import scipy  # its modules are imported when they are used

from arbo.data import RECALL_AT, Arrays, Corpus, Entity, Gold, KnowledgeBase, MentionInput, mention_inputs
from arbo.engine import Bools, Floats, Ids, LinkingScores, Neighbors, linking_scores
from arbo.errors import DataError, UsageError
from arbo.progress import Announce, quiet
from arbo.retrieval.retrieval import PairScores, Retrieval

RerankFunction: TypeAlias = Callable[[Sequence[MentionInput], Sequence[Sequence[Entity]]], Sequence[Sequence[float]]]
"""Takes mentions and the candidates of each; returns a list of scores for each mention, in the order of candidates."""


@dataclass(frozen=True, eq=False, slots=True)
class Candidates:
    """The candidates of each mention of some documents, best first, and their origin."""

    entities: Ids  # (mentions, k) rows of the knowledge base, counted from 0; empty places have -1, and come last
    scores: Floats
    """(mentions, k) float32, in descending order; higher is closer. Empty places, and entities without a score such as
    an added gold entity, have -inf."""
    documents: str  # fingerprint of the documents
    knowledge_base: str  # fingerprint of the knowledge base
    made_by: dict[str, Any]  # settings of the encoder and of later steps, such as a reranker; ready for JSON

    def __post_init__(self) -> None:
        object.__setattr__(self, "entities", np.asarray(self.entities, np.int32))
        object.__setattr__(self, "scores", np.asarray(self.scores, np.float32))

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
        known = ("other documents", self.documents, documents), ("another knowledge base", self.knowledge_base, kb)
        for other, made_with, given in known:
            if made_with != given.fingerprint:
                wrong = f"the candidates were made with {other} (fingerprint {made_with}, not {given.fingerprint})"
                raise DataError(f"{wrong}; make them again")

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
            groups={name: corpus.tables.mentions[name].to_pylist() for name in ("type", "domain")},
        )


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
    """A `Reranker` that calls a function, which its name alone identifies: its code or model may change unseen.

    A saved run keeps the scores, and grows by asking only about mentions that have a new candidate.
    """

    function: RerankFunction
    retrieval_weight: float = 0.0
    threshold: float = 0.5
    whole: ClassVar[bool] = True  # the function gets all candidates of a mention at once, see `ScoreMemory`

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
    expected = "a function of mentions and candidates, or a model such as arbo.CrossEncoder.from_pretrained(folder)"
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
    skip_margin: float | None = None  # see `rerank`
    announce: Announce = quiet
    known: PairScores | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the second stage in a manifest."""
        return {"reranker": self.reranker.settings, "skip_margin": self.skip_margin}

    def score(self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids) -> Floats:
        """Return the scores of pairs, see `Reranker`; the reranker gets only the mentions of unknown pairs.

        Raise DataError if it returns a wrong number of scores.
        """
        scores, is_new = np.empty(len(mention), np.float32), np.ones(len(mention), np.bool_)
        if self.known is not None and len(self.known.scores):
            scores, is_new = looked_up(self.known, mention, entity)
            if getattr(self.reranker, "whole", False):
                is_new = np.isin(mention, mention[is_new])
        used, place = np.unique(mention[is_new], return_inverse=True)
        if len(used):
            few = [mentions[row] for row in used.tolist()]
            new = np.asarray(self.reranker.score(few, kb, place, entity[is_new], self.announce))
            if new.shape != place.shape:
                wrong = f"the reranker returned scores of the shape {new.shape}, not {place.shape}"
                raise DataError(f"{wrong}; return one for each pair")
            with np.errstate(over="ignore"):  # infinity is reported later
                scores[is_new] = new
        return scores

    def sorted(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, entities: Ids, scores: Floats
    ) -> tuple[Ids, Floats, PairScores]:
        """Sort candidates by the reranker's scores; return the sorted candidates and probabilities, (mentions, k) both.

        Candidates that the reranker does not read have the probability 0, but the first one of a skipped mention has 1.
        Also return the pairs that it read.
        """
        is_read = entities >= 0
        if self.skip_margin is not None:
            is_read &= margins(scores)[:, None] < self.skip_margin
        pairs = np.column_stack([np.nonzero(is_read)[0], entities[is_read]]).astype(np.int32)
        scored = self.score(mentions, kb, *pairs.T)
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
        return entities, np.where(entities >= 0, probability, np.float32(-np.inf)), PairScores(pairs, scored)


def known_scores(arrays: Arrays, row: Ids, entity: Ids) -> PairScores | None:
    """Return the scores in the arrays that `reranked` keeps, of pairs that are still there; None without them.

    ``row`` is the earlier number of each mention, ``entity`` the row of each earlier entity now; -1 for none.
    """
    if "scored.entities" not in arrays:
        return None
    number = np.full(row.max(initial=-1) + 2, -1, np.int32)  # the last is that of mentions that are gone
    number[row[row >= 0]] = np.flatnonzero(row >= 0)
    earlier, other = arrays["scored.entities"].T
    mention, other = number[np.minimum(earlier, len(number) - 1)], entity[other]
    is_left = (mention >= 0) & (other >= 0)
    return PairScores(np.column_stack([mention, other])[is_left], arrays["score.entities"][is_left])


def looked_up(known: PairScores, mention: Ids, other: Ids) -> tuple[Floats, Bools]:
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

    Candidates with equal scores keep their order. If the score of a mention's first candidate exceeds that of the
    second by ``skip_margin``, or the second has no score, it is not read, and has the probability 1. For
    ``expand_abbreviations`` see `LinkerConfig`. Raise DataError if the candidates are of other documents or another
    knowledge base, or the reranker returned NaN, infinity, or a wrong number of scores.
    """
    corpus = Corpus.of(documents)
    candidates.check(corpus, kb)
    inputs = mention_inputs(corpus, expand_abbreviations=expand_abbreviations, kb=kb)
    memory = ScoreMemory(reranker_of(reranker), skip_margin, announce)
    entities, scores, _ = memory.sorted(inputs, kb, candidates.entities, candidates.scores)
    return replace(candidates, entities=entities, scores=scores, made_by=candidates.made_by | memory.settings)


def reranked(retrieval: Retrieval, memory: ScoreMemory, kb: KnowledgeBase) -> Retrieval:
    """Rerank the entity edges of a retrieval, see `rerank`: the dissimilarity is then 1 minus the probability."""
    ids, dissimilarity = retrieval.entities
    ids, probability, scored = memory.sorted(retrieval.inputs, kb, ids, retrieval.similarity(dissimilarity))
    return replace(
        retrieval,
        entities=Neighbors(ids, 1 - probability),
        distance=lambda mention, _: np.ones(len(mention), np.float32),  # others have the probability 0
        offset=1.0,
        threshold=(memory.reranker.threshold, retrieval.threshold[1]),
        settings=retrieval.settings | memory.settings,
        kept={"scored.entities": scored.pairs, "score.entities": scored.scores},
    )
