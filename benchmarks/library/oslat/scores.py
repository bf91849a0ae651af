"""Score the words found of given entities, and the ranks of the entities of texts: OSLAT (Li et al. 2022), 6 and 7."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from arbo.data import KnowledgeBase
from arbo.engine import SpanScores, ratio, span_scores
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import rows_by
from arbo.spans.finding import Spans
from arbo.text.words import Offsets, content_words, offsets_of
from clustering.arrays import Bools, Floats, Ids
from library.oslat.pairs import Pairs

_AT = (1, 5, 10)
_PAIRS = 1 << 21  # number of pairs to score at once, which bounds the memory


class Scorer(Protocol):
    """Scores pairs of a text and an entity."""

    def score(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Score each pair of ``texts[text[i]]`` and the entity in row ``entity[i]``; higher means more likely."""


def given_scores(pairs: Pairs, found: Sequence[Spans], seen: Bools) -> dict[tuple[str, str], SpanScores]:
    """Score the spans of given entities by word, for each kind of gold spans and of entities: sections 6.2 and D.

    The words of a pair are those that one of its spans touches, each counted once. Stop words do not count, on either
    side: the paper removes them from what is found, and does not say whether the gold spans have them. A pair is
    *disjoint* if a mention of the entity has several spans; for example ``["disjoint", "unseen"]`` is a group, and
    ``all`` means both kinds. The table D.1 of the paper has `SpanScores.micro`, over all words; `SpanScores.macro` is
    the mean over pairs. ``found`` has the spans of each pair; ``seen``, (pairs,), says whether training has the entity.
    """
    units = {row: offsets_of(content_words(pairs.corpus[row].text)) for row in np.unique(pairs.text).tolist()}
    texts = pairs.text.tolist()
    gold = [_touched(units[row], sum(mentions, ())) for row, mentions in zip(texts, pairs.mentions, strict=True)]
    scores = span_scores(gold, [_touched(units[row], spans) for row, spans in zip(texts, found, strict=True)])
    return {name: SpanScores(scores.items[rows]) for name, rows in _groups(pairs, seen).items()}


def linked_scores(
    scorer: Scorer, pairs: Pairs, kb: KnowledgeBase, seen: Bools, announce: Announce = quiet
) -> dict[tuple[str, str], dict[str, float]]:
    """Return how often the entity of a pair is among the 1, 5 and 10 best of its text: section 7.2, tables 4 and E.1.

    Each text is compared with the entities of all pairs in its domain. Of equal scores, that of the entity which comes
    first in the knowledge base is better. The entities of one text compete for the first rank, as in the paper. The
    groups are those of `given_scores`; one without a pair is left out.
    """
    entities = np.unique(pairs.entity)
    homes = rows_by(kb.entities[row].domain for row in entities.tolist())
    of = {domain: entities[rows] for domain, rows in homes.items()}
    texts = [document.text for document in pairs.corpus]
    rows, step = np.unique(pairs.text), max(1, _PAIRS // max(1, len(entities)))
    ranks = [np.empty(0, np.int64)]
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        asked = [of[pairs.corpus[row].domain] for row in some.tolist()]
        text, entity = np.repeat(some, [len(own) for own in asked]), np.concatenate(asked)
        best_first = np.lexsort((entity, -scorer.score(texts, kb, text, entity, announce), text))
        rank = np.empty_like(best_first)
        rank[best_first] = np.arange(len(text)) - np.searchsorted(text, text)
        own = np.isin(pairs.text, some)
        right = pairs.text[own] * len(kb) + pairs.entity[own]
        ranks.append(rank[np.searchsorted(text * len(kb) + entity, right)])
    rank = np.concatenate(ranks)
    groups = {name: rank[rows] for name, rows in _groups(pairs, seen).items() if rows.any()}
    return {name: {f"@{k}": ratio(int((own < k).sum()), len(own)) for k in _AT} for name, own in groups.items()}


def _groups(pairs: Pairs, seen: Bools) -> dict[tuple[str, str], Bools]:
    apart, every = pairs.is_disjoint, np.ones(len(pairs), np.bool_)
    kinds = {"contiguous": ~apart, "disjoint": apart, "all": every}
    entities = {"seen": seen, "unseen": ~seen, "all": every}
    return {(a, b): kinds[a] & entities[b] for a in kinds for b in entities}


def _touched(units: Offsets, spans: Spans) -> list[Spans]:
    """Return the words that spans touch as one mention, by their numbers; no mention if they touch none."""
    places = offsets_of(spans)
    first = np.searchsorted(units[:, 1], places[:, 0], side="right")
    last = np.searchsorted(units[:, 0], places[:, 1], side="left")
    touched = tuple((begin, end) for begin, end in zip(first.tolist(), last.tolist(), strict=True) if begin < end)
    return [touched] if touched else []
