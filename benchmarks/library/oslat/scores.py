"""How well the entities of a text are found."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

import arbo
from arbo.progress import Announce, quiet
from arbo.spans.pieces import Pairs
from clustering.arrays import Bools, Floats, Ids
from eval import LinkingScores, linking_scores

LINKED_AT = (1, 5, 10)
_PAIRS = 1 << 19
"""Pairs that are scored at once, to bound the memory."""


class Scorer(Protocol):
    """Says how surely texts name entities; higher is surer."""

    def score(
        self, texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Return a score for each pair of a text and an entity, by their rows."""


def text_linking_scores(
    pairs: Pairs, kb: arbo.KnowledgeBase, scorer: Scorer, universe: Ids, seen: Bools, announce: Announce = quiet
) -> LinkingScores:
    """Score how often the entity of a pair is among the best of its text: section 7.2 of the paper; recall at 1, 5, 10.

    Each text is compared with every entity of the universe; of equal scores that of the entity which comes first in the
    knowledge base is better. The entities of one text stand in each other's way at 1, as in the paper. Those in
    contiguous and in disjoint spans are the groups of ``macro["spans"]`` of the result.

    Args:
        pairs: texts with their gold entities.
        kb: the entities.
        scorer: says how surely a text names an entity.
        universe: rows of the entities that are compared.
        seen: (pairs,) whether training has the entity.
        announce: shows progress.
    """
    entities = np.unique(universe)
    texts = [document.text for document in pairs.corpus]
    rows, place = np.unique(pairs.text, return_inverse=True)
    width = min(max(LINKED_AT), len(entities))
    step = max(1, _PAIRS // len(entities))
    starts = range(0, len(rows), step)
    best = []
    for start in announce("texts with entities")(starts, len(starts)):
        some = rows[start : start + step]
        scores = scorer.score(texts, kb, np.repeat(some, len(entities)), np.tile(entities, len(some)))
        order = np.argsort(-scores.reshape(len(some), len(entities)), axis=1, kind="stable")
        best.append(entities[order[:, :width]])
    candidates = np.concatenate(best)[place]
    return linking_scores(
        np.arange(len(pairs) + 1),
        pairs.entity,
        candidates[:, 0],
        candidates=candidates,
        k=[k for k in LINKED_AT if k <= width],
        seen=seen,
        groups={"spans": np.where(pairs.is_disjoint, "disjoint", "contiguous").tolist()},
    )
