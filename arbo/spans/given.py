"""Score the words found of given entities, and the ranks of the entities of texts: OSLAT (Li et al. 2022), 6 and 7."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arbo.data import KnowledgeBase
from arbo.engine import Bools, Ids, SpanScores, ratio, span_scores
from arbo.progress import Announce, quiet
from arbo.retrieval.groups import rows_by
from arbo.spans.finding import Finder, PairFinder, Proposal, Scorer, best_of
from arbo.spans.overlaps import Spans
from arbo.spans.pieces import Pairs
from arbo.spans.union import UnionFinder
from arbo.text.words import Offsets, content_words, offsets_of


def given_spans(finder: Finder, pairs: Pairs, kb: KnowledgeBase, announce: Announce = quiet) -> list[Spans]:
    """Return the spans that name the entity of each pair, assuming that the text names it.

    A `PairFinder` gives what its reader finds, whatever the score of the entity, and a `UnionFinder` all that its two
    finders give. Another finder gives its mentions of the entity; of overlapping ones, the best (see `find`).
    """
    if isinstance(finder, UnionFinder):
        both = (given_spans(part, pairs, kb, announce) for part in (finder.first, finder.second))
        return [tuple(sorted({*first, *second})) for first, second in zip(*both, strict=True)]
    if isinstance(finder, PairFinder):
        texts = [document.text for document in pairs.corpus]
        return finder.reader.spans(texts, kb, pairs.text, pairs.entity, announce)
    own: defaultdict[tuple[int, int], list[Proposal]] = defaultdict(list)
    for proposal in finder.propose(pairs.corpus, kb, announce):
        own[proposal.document, proposal.entity].append(proposal)
    given = (own[pair] for pair in zip(pairs.text.tolist(), pairs.entity.tolist(), strict=True))
    return [tuple(span for proposal in best_of(proposals) for span in proposal.spans) for proposals in given]


_WORDS = ("gold", "found", "shared")


@dataclass(frozen=True, eq=False, slots=True)
class GivenScores:
    """Scores of the spans of given entities, by kind of the gold spans and of the entity; see `given_scores`."""

    groups: dict[tuple[str, str], SpanScores]
    """For example ``groups["disjoint", "unseen"]``; ``all`` means both kinds."""

    def as_dict(self) -> dict[str, Any]:
        """Return pairs, counts of words and ratios of each group that has a pair, ready for JSON."""
        names = ("micro", "macro")
        return {
            f"{kind}, {entities}": {"pairs": len(of.items), "words": dict(zip(_WORDS, of.counts[:3], strict=True))}
            | {name: getattr(of, name)._asdict() for name in names}
            for (kind, entities), of in self.groups.items()
            if len(of.items)
        }

    def __str__(self) -> str:
        rows = [f"{'spans, entities':22}{'pairs':>7}   micro P      R     F1   macro P      R     F1"]
        for name, of in self.as_dict().items():
            micro, macro = ("{precision:.4f} {recall:.4f} {f1:.4f}".format(**of[how]) for how in ("micro", "macro"))
            rows.append(f"{name:22}{of['pairs']:7,}    {micro}    {macro}")
        return "\n".join(rows)


def given_scores(pairs: Pairs, found: Sequence[Spans], seen: Bools | None = None) -> GivenScores:
    """Score the spans of given entities by word: sections 6.2 and D of the paper.

    The words of a pair are those that one of its spans touches, each counted once. Stop words do not count, on either
    side: the paper removes them from what is found, and does not say whether the gold spans have them. A pair is
    *disjoint* if a mention of the entity has several spans. The table D.1 of the paper has `SpanScores.micro`, over all
    words; `SpanScores.macro` is the mean over pairs.

    ``found`` has the spans of each pair. ``seen``, (pairs,), says whether training has the entity; without it, there
    are no groups ``seen`` and ``unseen``.
    """
    units = {row: offsets_of(content_words(pairs.corpus[row].text)) for row in np.unique(pairs.text).tolist()}
    texts = pairs.text.tolist()
    gold = [_touched(units[row], sum(mentions, ())) for row, mentions in zip(texts, pairs.mentions, strict=True)]
    scores = span_scores(gold, [_touched(units[row], spans) for row, spans in zip(texts, found, strict=True)])
    return GivenScores({name: SpanScores(scores.items[own]) for name, own in _groups(pairs, seen).items()})


_AT = (1, 5, 10)
_PAIRS = 1 << 21  # number of pairs to score at once, which bounds the memory


@dataclass(frozen=True, eq=False, slots=True)
class LinkedScores:
    """Scores of the entities of texts, by kind of the gold spans and of the entity; see `linked_scores`."""

    ranks: dict[tuple[str, str], Ids]
    """The ranks of the pairs of each group, from 0; the groups are those of `GivenScores`."""

    def as_dict(self) -> dict[str, Any]:
        """Return pairs and accuracy at 1, 5 and 10 of each group that has a pair, ready for JSON."""
        return {
            f"{kind}, {entities}": {"pairs": len(of)}
            | {f"accuracy@{k}": ratio(int((of < k).sum()), len(of)) for k in _AT}
            for (kind, entities), of in self.ranks.items()
            if len(of)
        }

    def __str__(self) -> str:
        rows = [f"{'spans, entities':22}{'pairs':>7}" + "".join(f"{f'@{k}':>9}" for k in _AT)]
        for name, of in self.as_dict().items():
            rows.append(f"{name:22}{of['pairs']:7,}" + "".join(f"{of[f'accuracy@{k}']:9.4f}" for k in _AT))
        return "\n".join(rows)


def linked_scores(
    scorer: Scorer, pairs: Pairs, kb: KnowledgeBase, seen: Bools | None = None, announce: Announce = quiet
) -> LinkedScores:
    """Score how often the entity of a pair is among the best of its text: section 7.2 of the paper, tables 4 and E.1.

    Each text is compared with the entities of all pairs in its domain. Of equal scores, that of the entity which comes
    first in the knowledge base is better. The entities of one text compete for the first rank, as in the paper. For
    ``seen`` see `given_scores`.
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
    return LinkedScores({name: rank[own] for name, own in _groups(pairs, seen).items()})


def _groups(pairs: Pairs, seen: Bools | None) -> dict[tuple[str, str], Bools]:
    apart, every = pairs.is_disjoint, np.ones(len(pairs), np.bool_)
    kinds = {"contiguous": ~apart, "disjoint": apart, "all": every}
    entities = {"all": every} if seen is None else {"seen": seen, "unseen": ~seen, "all": every}
    return {(a, b): kinds[a] & entities[b] for a in kinds for b in entities}


def _touched(units: Offsets, spans: Spans) -> list[Spans]:
    """Return the words that spans touch as one mention, by their numbers; no mention if they touch none."""
    places = offsets_of(spans)
    first = np.searchsorted(units[:, 1], places[:, 0], side="right")
    last = np.searchsorted(units[:, 0], places[:, 1], side="left")
    touched = tuple((begin, end) for begin, end in zip(first.tolist(), last.tolist(), strict=True) if begin < end)
    return [touched] if touched else []
