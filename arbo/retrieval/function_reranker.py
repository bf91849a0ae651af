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
        if not hasattr(answers, "__len__") or len(answers) != len(items):
            raise DataError(f"the reranker returned {answers!r:.80}; return {len(items):,} lists, one for each mention")
        return np.concatenate([_scores(*each) for each in zip(items, candidates, answers, strict=True)])


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


def _scores(item: MentionInput, candidates: Sequence[Entity], answer: Any) -> Floats:
    """Check the scores of a mention, and return them as an array."""
    scores = np.empty(0, np.float32)
    with suppress(TypeError, ValueError, OverflowError):
        scores = np.asarray(answer, np.float32)
    if scores.shape != (len(candidates),) or not np.isfinite(scores).all():
        problem = f"the reranker returned {answer!r:.80} for {len(candidates)} candidates"
        raise DataError(f"{problem}; return a finite number for each", id=item.mention.id)
    return scores
