"""A reranker made from a function, such as one that asks a large language model."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
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
    """The function needs all candidates of a mention at once, since it may choose among them; see `Remembering`."""

    @property
    def settings(self) -> dict[str, Any]:
        """The name of the function, and the weight of the score from retrieval."""
        named = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        name = f"{named.__module__}.{named.__qualname__}"
        return {"function": name, "retrieval_weight": self.retrieval_weight}

    def score(
        self, mentions: Sequence[MentionInput], kb: KnowledgeBase, mention: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score pairs, see `Reranker.score`; pairs of a mention that follow each other are asked together.

        Raise DataError if the function returns a wrong number of scores, or a score that is not a finite number.
        """
        begins = np.flatnonzero(np.diff(mention, prepend=-1))
        asked = [mentions[row] for row in mention[begins].tolist()]
        candidates = [[kb.entities[row] for row in rows.tolist()] for rows in np.split(entity, begins)[1:]]
        if not asked:
            return np.empty(0, np.float32)
        given = self.function([*asked], [[*own] for own in candidates])  # which the function may change
        if not hasattr(given, "__len__"):
            problem = f"the reranker returned {type(given).__name__}; return a list of scores for each mention"
            raise DataError(problem)
        if len(given) != len(asked):
            mend = "return a list of scores for each mention"
            raise DataError(f"the reranker returned {len(given):,} lists for {len(asked):,} mentions; {mend}")
        return np.concatenate([_scores(*each) for each in zip(asked, candidates, given, strict=True)])


def reranker_of(reranker: Any) -> Any:
    """Return a reranker, or make one of a function; raise UsageError if it is neither, or a class."""
    if isinstance(reranker, type):
        raise UsageError(f"the reranker is the class {reranker.__name__}; give an object of it, or a function")
    if hasattr(reranker, "score"):
        return reranker
    if not callable(reranker):
        if isinstance(reranker, str):
            load = f"arbo.CrossEncoder.from_pretrained({reranker!r:.100})"
            raise UsageError(f"the reranker is the name {reranker!r:.100}; load the model: reranker={load}")
        mend = "give a function of mentions and their candidates, or an object with a method `score`"
        raise UsageError(f"the reranker must score candidates, but {type(reranker).__name__} cannot; {mend}")
    return FunctionReranker(reranker)


def _scores(item: MentionInput, candidates: Sequence[Entity], given: Any) -> Floats:
    """Check the scores of a mention."""
    scores = np.full(len(candidates), np.nan, np.float32)
    with suppress(TypeError, ValueError, OverflowError):
        found = np.asarray(given)
        if found.dtype.kind in "biuf" or (found.dtype.kind == "O" and all(isinstance(x, Real) for x in found.flat)):
            scores = found.astype(np.float32)
    if scores.shape != (len(candidates),):
        problem = f"scores of the shape {scores.shape} for {len(candidates)} candidates; return one for each"
    elif not np.isfinite(scores).all():
        problem = f"{given!r:.80}; scores must be finite numbers"
    else:
        return scores
    raise DataError(f"the reranker returned {problem}", id=item.mention.id)
