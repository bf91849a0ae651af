"""How well spans are extracted, given a text and an entity, and how well the entities of a text are found."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

import arbo
from arbo.progress import Announce, quiet
from arbo.spans.overlaps import Spans
from arbo.spans.pieces import Pairs
from arbo.text.words import Offsets, content_words, offsets_of
from clustering.arrays import Bools, Floats, Ids
from eval import LinkingScores, SpanScores, linking_scores, span_scores
from library.oslat.entity_split import disjoint

LINKED_AT = (1, 5, 10)
_PAIRS = 1 << 19
"""Pairs that are scored at once, to bound the memory."""


class Scorer(Protocol):
    """Says how surely texts name entities; higher is surer."""

    def score(
        self, texts: Sequence[str], kb: arbo.KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Return a score for each pair of a text and an entity, by their rows."""


def extraction_scores(pairs: Pairs, predicted: Sequence[Spans], seen: Bools) -> Mapping[tuple[str, str], SpanScores]:
    """Score extracted spans by word, by kind of the gold spans and of the entity: Li et al. 2022, section 6.2.

    The words of a pair are those that any of its spans touches, each once, however many mentions there are; stop words
    do not count, of either side. The paper takes them out of predictions and does not say if the gold spans have them;
    without them methods compare that keep them or not.

    Args:
        pairs: with the gold spans.
        predicted: the spans extracted for each pair.
        seen: (pairs,) whether training has the entity.

    Returns:
        ``scores["disjoint", "unseen"]`` are those of pairs of an entity that training has not seen and a text that
        names it in several spans at once; "all" stands for both. Table D.1 of the paper is their `SpanScores.micro`.
    """
    units = {row: offsets_of(content_words(pairs.corpus[row].text)) for row in np.unique(pairs.text).tolist()}
    texts = pairs.text.tolist()
    gold = [_covered(units[row], sum(mentions, ())) for row, mentions in zip(texts, pairs.mentions, strict=True)]
    found = [_covered(units[row], spans) for row, spans in zip(texts, predicted, strict=True)]
    scores, is_disjoint, every = span_scores(gold, found), disjoint(pairs), np.ones(len(pairs), np.bool_)
    kinds = {"contiguous": ~is_disjoint, "disjoint": is_disjoint, "all": every}
    entities = {"seen": seen, "unseen": ~seen, "all": every}
    return {(a, b): SpanScores(scores.items[kinds[a] & entities[b]]) for a in kinds for b in entities}


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
        groups={"spans": np.where(disjoint(pairs), "disjoint", "contiguous").tolist()},
    )


def _covered(units: Offsets, spans: Spans) -> list[Spans]:
    """Return the words that spans touch as one mention, by their numbers; none where they touch none."""
    places = offsets_of(spans)
    first = np.searchsorted(units[:, 1], places[:, 0], side="right")
    last = np.searchsorted(units[:, 0], places[:, 1], side="left")
    touched = tuple((begin, end) for begin, end in zip(first.tolist(), last.tolist(), strict=True) if begin < end)
    return [touched] if touched else []
