"""A reranker made from a function, such as one that asks a large language model."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from arbo.data import Entity, KnowledgeBase, MentionInput
from arbo.engine import Floats, Ids
from arbo.errors import DataError, UsageError
from arbo.progress import Announce, quiet

RerankFunction: TypeAlias = Callable[[Sequence[MentionInput], Sequence[Sequence[Entity]]], Sequence[Sequence[float]]]
"""Takes mentions and the candidates of each; returns a list of scores for each mention, in the order of candidates."""


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
        if not items:
            return np.empty(0, np.float32)
        answers = self.function([*items], [[*some] for some in candidates])  # the function may change its copies
        n = len(answers) if hasattr(answers, "__len__") else None
        if n != len(items):
            problem = type(answers).__name__ if n is None else f"{n:,} lists for {len(items):,} mentions"
            raise DataError(f"the reranker returned {problem}; return a list of scores for each mention")
        return np.concatenate([_scores(*each) for each in zip(items, candidates, answers, strict=True)])


def reranker_of(reranker: Any) -> Any:
    """Return a reranker, or make one of a function; raise UsageError if it is neither, or a class."""
    if isinstance(reranker, str):
        load = f"arbo.CrossEncoder.from_pretrained({reranker!r:.100})"
        raise UsageError(f"the reranker is the name {reranker!r:.100}; load the model: reranker={load}")
    if not isinstance(reranker, type):
        if hasattr(reranker, "score"):
            return reranker
        if callable(reranker):
            return FunctionReranker(reranker)
    kind = f"the class {reranker.__name__}" if isinstance(reranker, type) else f"an object of {type(reranker).__name__}"
    mend = "give a function of mentions and their candidates, or an object with a method `score`"
    raise UsageError(f"the reranker must score candidates, but is {kind}; {mend}")


def _scores(item: MentionInput, candidates: Sequence[Entity], answer: Any) -> Floats:
    """Check the scores of a mention, and return them as an array."""
    scores = np.full(len(candidates), np.nan, np.float32)
    with suppress(TypeError, ValueError, OverflowError):
        scores = np.asarray(answer, np.float32)
    if scores.shape != (len(candidates),):
        problem = f"scores of the shape {scores.shape} for {len(candidates)} candidates; return one for each"
    elif not np.isfinite(scores).all():
        problem = f"{answer!r:.80}; scores must be finite numbers"
    else:
        return scores
    raise DataError(f"the reranker returned {problem}", id=item.mention.id)
