"""Oracles of the ArboEL paper (section 3.4), which compare second stages whatever the first stage has missed."""

from dataclasses import replace

import numpy as np

from arbo.engine import Bools, Ids
from arbo.retrieval.reranking import Candidates, best_first


def union(*candidates: Candidates) -> Candidates:
    """Merge the candidates of several first stages, each entity once (the oracle UNION, before gold is added).

    Candidates alternate: the first of each set, then the second of each. Scores of different encoders are not
    comparable, so the new score is minus the best rank, counted from 0. The number of places is the sum over all sets.
    Raise ValueError if there is no set, or the sets differ in documents or knowledge base.

    >>> one = Candidates([[3, 1]], [[0.9, 0.5]], "d", "kb", {"encoder": "a"})
    >>> other = Candidates([[1, 4]], [[7.0, 6.0]], "d", "kb", {"encoder": "b"})
    >>> both = union(one, other)
    >>> both.entities.tolist(), both.scores.tolist()
    ([[3, 1, 4, -1]], [[0.0, 0.0, -1.0, -inf]])
    """
    if not candidates:
        raise ValueError("a union needs at least one set of candidates")
    first = candidates[0]
    for place, other in enumerate(candidates):
        if (other.documents, other.knowledge_base) != (first.documents, first.knowledge_base):
            wrong = f"candidates[{place}] were made with other documents or another knowledge base than candidates[0]"
            raise ValueError(f"{wrong}; make them again")
    entities = np.concatenate([one.entities for one in candidates], axis=1)
    rank = np.concatenate([np.arange(one.k, dtype=np.float32) for one in candidates])
    entities, scores = best_first(entities, np.where(entities >= 0, 0 - rank, -np.inf))
    again = repeated(entities)
    entities, scores = best_first(np.where(again, -1, entities), np.where(again, -np.inf, scores))
    settings = {"union": [one.made_by for one in candidates]}
    return Candidates(entities, scores, first.documents, first.knowledge_base, settings)


def repeated(entities: Ids) -> Bools:
    """Mark the entities that repeat an earlier candidate of the same mention; (mentions, k)."""
    order = np.argsort(entities, axis=1, kind="stable")
    ordered = np.take_along_axis(entities, order, axis=1)
    again = np.zeros(entities.shape, np.bool_)
    np.put_along_axis(again, order[:, 1:], (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0), axis=1)
    return again


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


def is_gold(entities: Ids, gold: Ids) -> Bools:
    """Mark the candidates that are gold entities of their mention; (mentions, k).

    ``gold`` has the shape (mentions, any number), and is padded with -1.
    """
    right = np.zeros(entities.shape, np.bool_)
    for accepted in gold.T:
        right |= (entities == accepted[:, None]) & (entities >= 0)
    return right
