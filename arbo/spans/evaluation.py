"""How well spans are extracted, entities found in texts, and mentions of unmarked documents found and linked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import UsageError
from arbo.progress import Announce, quiet
from arbo.spans.overlaps import Spans
from arbo.spans.pieces import Pairs
from arbo.text.words import Offsets, content_words, offsets_of, words
from clustering.arrays import Bools, Floats, Ids
from eval import LinkingScores, SpanScores, linking_scores, span_scores
from eval.table import Cell, Table

LINKED_AT = (1, 5, 10)
_PAIRS = 1 << 19
"""Pairs that are scored at once, to bound the memory."""
_KINDS = ("contiguous", "disjoint", "all")
_ENTITIES = ("seen", "unseen", "all")


class Scorer(Protocol):
    """Says how surely texts name entities; higher is surer."""

    def score(
        self, texts: Sequence[str], kb: KnowledgeBase, text: Ids, entity: Ids, announce: Announce = quiet
    ) -> Floats:
        """Return a score for each pair of a text and an entity, by their rows."""


@dataclass(frozen=True, eq=False, slots=True)
class ExtractionScores:
    """Agreement by word of extracted and gold spans, by kind of the gold spans and of the entity.

    ``scores["disjoint", "unseen"]`` are those of pairs of an entity that training has not seen and a text that names it
    in several spans at once; "all" stands for both. Table D.1 of the paper is their `SpanScores.micro`.
    """

    of: Mapping[tuple[str, str], SpanScores]

    def __getitem__(self, group: tuple[str, str]) -> SpanScores:
        return self.of[group]

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios of each group, ready for JSON."""
        return {f"{kind} {entities}": scores.as_dict() for (kind, entities), scores in self.of.items()}

    def __str__(self) -> str:
        rows = [
            tuple(
                map(Cell, (kind, entities, f"{len(scores.items):,}", *_figures(scores.micro), *_figures(scores.macro)))
            )
            for (kind, entities), scores in self.of.items()
        ]
        names = ("spans", "entities", "pairs", "precision", "recall", "F1", "precision", "recall", "F1")
        remarks = ["words pooled over the pairs of text and entity, then as means over the pairs"]
        return str(Table("", names, (False, False, *(True for _ in names[2:])), rows, remarks))


def extraction_scores(
    pairs: Pairs, predicted: Sequence[Spans], *, seen: Bools | None = None, stop_words: bool = False
) -> ExtractionScores:
    """Score extracted spans by word: section 6.2 of the paper, and table D.1.

    The words of a pair are those that any of its spans touches, each once, however many mentions there are.

    Args:
        pairs: with the gold spans.
        predicted: the spans extracted for each pair.
        seen: (pairs,) whether training has the entity; by default none.
        stop_words: whether stop words count, of either side. The paper takes them out of predictions and does not say
            if the gold spans have them; without them methods compare that keep them or not.

    """
    if len(predicted) != len(pairs):
        raise UsageError(f"spans were predicted for {len(predicted):,} pairs, there are {len(pairs):,}")
    units = {row: _units(pairs.corpus[row].text, stop_words) for row in np.unique(pairs.text).tolist()}
    texts = pairs.text.tolist()
    gold = [_covered(units[row], sum(mentions, ())) for row, mentions in zip(texts, pairs.mentions, strict=True)]
    found = [_covered(units[row], spans) for row, spans in zip(texts, predicted, strict=True)]
    scores = span_scores(gold, found)
    is_disjoint = pairs.disjoint
    is_seen = np.zeros(len(pairs), np.bool_) if seen is None else seen
    kind = dict(zip(_KINDS, (~is_disjoint, is_disjoint, np.ones(len(pairs), np.bool_)), strict=True))
    entities = dict(zip(_ENTITIES, (is_seen, ~is_seen, np.ones(len(pairs), np.bool_)), strict=True))
    return ExtractionScores({(a, b): SpanScores(scores.items[kind[a] & entities[b]]) for a in kind for b in entities})


def text_linking_scores(
    pairs: Pairs,
    kb: KnowledgeBase,
    scorer: Scorer,
    *,
    universe: Ids | None = None,
    seen: Bools | None = None,
    announce: Announce = quiet,
) -> LinkingScores:
    """Score how often the entity of a pair is among the best of its text: section 7.2 of the paper; recall at 1, 5, 10.

    Each text is compared with every entity of the universe; of equal scores that of the entity which comes first in the
    knowledge base is better. The entities of one text stand in each other's way at 1, as in the paper. Those in
    contiguous and in disjoint spans are the groups of ``macro["spans"]`` of the result.

    Args:
        pairs: texts with their gold entities.
        kb: the entities.
        scorer: says how surely a text names an entity.
        universe: rows of the entities that are compared; by default those of the pairs.
        seen: (pairs,) whether training has the entity; by default nothing is said of that.
        announce: shows progress.

    """
    entities = np.unique(pairs.entity if universe is None else universe)
    texts = [document.text for document in pairs.corpus]
    rows, place = np.unique(pairs.text, return_inverse=True)
    width = min(max(LINKED_AT), len(entities))
    step = max(1, _PAIRS // max(1, len(entities)))
    starts = range(0, len(rows), step)
    best = []
    for start in announce("texts with entities")(starts, len(starts)):
        some = rows[start : start + step]
        scores = scorer.score(texts, kb, np.repeat(some, len(entities)), np.tile(entities, len(some)))
        order = np.argsort(-scores.reshape(len(some), len(entities)), axis=1, kind="stable")
        best.append(entities[order[:, :width]])
    candidates = np.concatenate([np.empty((0, width), np.int64), *best])[place]
    kind = np.where(pairs.disjoint, "disjoint", "contiguous").tolist()
    return linking_scores(
        np.arange(len(pairs) + 1),
        pairs.entity,
        candidates[:, 0] if width else np.empty(len(pairs), np.int64),
        candidates=candidates,
        k=[k for k in LINKED_AT if k <= width],
        seen=seen,
        groups={"spans": kind},
    )


@dataclass(frozen=True, eq=False, slots=True)
class FoundScores:
    """How well the mentions of unmarked documents are found, and found and linked, beside annotated ones."""

    mentions: SpanScores
    """An item a document: spans alone, whatever is meant."""
    links: SpanScores
    """An item a document and entity: a mention is right with its entity alone. NIL is no entity, and left out."""

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios, ready for JSON."""
        return {"mentions": self.mentions.as_dict(), "links": self.links.as_dict()}

    def __str__(self) -> str:
        lines = []
        for what, scores in (("found", self.mentions), ("found and linked", self.links)):
            for kind, of in (("exact spans", scores.exact), ("overlapping", scores.overlap)):
                lines.append(f"{what}, {kind}: precision {of.precision:.4f}, recall {of.recall:.4f}, F1 {of.f1:.4f}")
        return "\n".join([*lines, "(found and linked: of mentions whose entity is in the knowledge base)"])


def found_scores(gold: Corpus, found: Corpus, kb: KnowledgeBase, entities: Sequence[str | None]) -> FoundScores:
    """Score found mentions and their entities against annotated documents, end to end.

    Exact is the same characters, overlapping a common one. A found mention is right with any entity that a gold mention
    which it overlaps accepts. Gold mentions without an entity of the knowledge base count as mentions, not as links.

    Args:
        gold: annotated documents.
        found: the same documents with the mentions that were found.
        kb: what they were linked to.
        entities: the id of each found mention's entity, in the order of ``found.mentions``, None for NIL.

    """
    if [document.id for document in gold] != [document.id for document in found]:
        raise UsageError("gold and found must be the same documents in the same order")
    if len(entities) != len(found.mentions):
        raise UsageError(f"{len(found.mentions):,} mentions were found, entities are given for {len(entities):,}")
    entity_of = iter(entities)
    true: dict[tuple[int, int], list[Spans]] = {}
    pred: dict[tuple[int, int], list[Spans]] = {}
    for row, (key, response) in enumerate(zip(gold, found, strict=True)):
        accepted = [kb.rows_within(mention.gold or (), key.domain) for mention in key.mentions]
        for mention, rows in zip(key.mentions, accepted, strict=True):
            if rows:
                true.setdefault((row, rows[0]), []).append(mention.spans)
        for mention in response.mentions:
            entity = next(entity_of)
            if entity is not None:
                meant = _meant(mention, kb.index(entity), key.mentions, accepted)
                pred.setdefault((row, meant), []).append(mention.spans)
    items = sorted({*true, *pred})
    return FoundScores(
        span_scores(_spans(gold), _spans(found)),
        span_scores([true.get(item, []) for item in items], [pred.get(item, []) for item in items]),
    )


def _meant(found: Mention, entity: int, gold: Sequence[Mention], accepted: Sequence[tuple[int, ...]]) -> int:
    """Return the first entity that a gold mention accepts which overlaps the found one and accepts its entity too.

    So that whichever of the accepted entities was chosen counts as the same; one of the same spans comes first.
    """
    right = [
        (mention.spans != found.spans, place)
        for place, mention in enumerate(gold)
        if entity in accepted[place] and _overlap(mention.spans, found.spans)
    ]
    return accepted[min(right)[1]][0] if right else entity


def _overlap(one: Spans, other: Spans) -> bool:
    return any(begin < last and first < end for begin, end in one for first, last in other)


def _spans(documents: Iterable[Document]) -> list[list[Spans]]:
    return [[mention.spans for mention in document.mentions] for document in documents]


def _units(text: str, stop_words: bool) -> Offsets:
    return words(text) if stop_words else offsets_of(content_words(text))


def _covered(units: Offsets, spans: Spans) -> list[Spans]:
    """Return the words that spans touch as one mention, by their numbers; none where they touch none."""
    places = offsets_of(spans)
    first = np.searchsorted(units[:, 1], places[:, 0], side="right")
    last = np.searchsorted(units[:, 0], places[:, 1], side="left")
    touched = tuple((begin, end) for begin, end in zip(first.tolist(), last.tolist(), strict=True) if begin < end)
    return [touched] if touched else []


def _figures(ratios: Iterable[float]) -> tuple[str, ...]:
    return tuple(f"{value:.4f}" for value in ratios)
