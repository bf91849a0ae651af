"""Score the mentions found in unmarked documents, and their entities."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arbo.data import Corpus, Gold, KnowledgeBase, Mention, grouped
from arbo.engine import Line, Report, SpanCounts, SpanScores, span_scores
from arbo.errors import UsageError, counted
from arbo.results.run import Run
from arbo.spans.finding import Spans


@dataclass(frozen=True, eq=False, slots=True)
class FoundScores:
    """Scores of found mentions, and of found and linked mentions, against annotated documents."""

    mentions: SpanScores
    """Scores of spans, whatever their entity; its items are the documents."""
    links: SpanScores
    """Scores of spans with the correct entity; its items are the documents. NIL mentions are left out."""

    @property
    def lines(self) -> tuple[Line, ...]:
        """The headline figures, with the counts from which their confidence intervals are computed."""
        return (*_lines("found", self.mentions), *_lines("found and linked", self.links, " in the KB"))

    def as_dict(self) -> dict[str, Any]:
        """Return counts and ratios, ready for JSON."""
        return {"mentions": self.mentions.as_dict(), "links": self.links.as_dict()}

    def __str__(self) -> str:
        return str(Report.of({"": self.lines}, how=None))


def run_scores(run: Run, gold: Corpus, kb: KnowledgeBase) -> FoundScores:
    """Score the found mentions of a run and their links against the same documents with annotations, in any order.

    See `found_scores`. Raise UsageError if an annotated document is not in the run, a document with found mentions is
    not annotated, or the run was not made with the knowledge base ``kb``. Raise DataError if the text of a found
    mention differs from the text at its place in the annotated document; the rest of the text is not compared.
    """
    if (run.manifest["knowledge_base"] or {}).get("fingerprint") != kb.fingerprint:
        wrong = "the run was not made with this knowledge base"
        raise UsageError(f"{wrong}; give the one that arbo link used, with the same options")
    links, known = grouped((link.mention.document_id, link) for link in run.links), {document.id for document in gold}
    if apart := sorted(known.difference(run.document_table["document_id"].to_pylist()) | (links.keys() - known)):
        wrong = f"{counted(len(apart), 'documents')} only annotated, or only in the run, such as {apart[0]!r}"
        raise UsageError(f"{wrong}; give the annotations of the documents that were linked")
    found = Corpus(replace(of, mentions=tuple(link.mention for link in links[of.id])) for of in gold)
    return found_scores(gold, found, kb, [link.entity for of in gold for link in links[of.id]], run.several)


def found_scores(
    gold: Corpus, found: Corpus, kb: KnowledgeBase, entities: Sequence[str | None], several: Mapping[str, Any] = {}
) -> FoundScores:
    """Score found mentions and their entities against annotated documents, end to end.

    Exact spans are equal; overlapping ones share a character. The entity of a found mention is correct if an
    overlapping gold mention accepts it. Gold mentions without an entity of the knowledge base count as mentions only.

    ``found`` has the documents of ``gold`` in the same order, and ``entities`` the entity id of each of its mentions,
    None for NIL. Of ``several`` entities under one id, one that is right counts if any is, see `Run.several`.
    """
    entity_of, right = iter(entities), iter(Gold.of(gold, kb).lists)
    spans_of: defaultdict[tuple[int, int], tuple[list[Spans], list[Spans]]] = defaultdict(lambda: ([], []))
    for row, (key, response) in enumerate(zip(gold, found, strict=True)):
        accepted = [next(right) for _ in key.mentions]
        for mention, rows in zip(key.mentions, accepted, strict=True):
            if rows:
                spans_of[row, rows[0]][0].append(mention.spans)
        for mention in response.mentions:
            if (entity := next(entity_of)) is not None:
                rows = [kb.index(id_) for id_ in several.get(entity, [entity])]
                spans_of[row, _meant(mention, rows, key.mentions, accepted)][1].append(mention.spans)
    of_items = span_scores([true for true, _ in spans_of.values()], [pred for _, pred in spans_of.values()]).items
    links = np.zeros((len(gold), of_items.shape[1]), np.int64)
    np.add.at(links, np.array([row for row, _ in spans_of], np.int64), of_items)
    gold_spans, spans = ([[mention.spans for mention in of.mentions] for of in corpus] for corpus in (gold, found))
    return FoundScores(span_scores(gold_spans, spans), SpanScores(links))


def _lines(name: str, scores: SpanScores, among: str = "") -> Iterator[Line]:
    of, total = SpanCounts(*scores.items.T), scores.counts
    over = f"{total.predicted_mentions:,} {name.split()[-1]}, {total.gold_mentions:,} annotated{among}"
    exact, overlapping = (of.shared_mentions, of.shared_mentions), (of.gold_overlapping, of.predicted_overlapping)
    for kind, (recalled, precise) in (("exact", exact), ("overlapping", overlapping)):
        counts = np.column_stack([recalled, of.gold_mentions, precise, of.predicted_mentions])
        yield Line.of_counts(f"{name}, {kind}", counts, over=over)


def _meant(found: Mention, entities: list[int], gold: Sequence[Mention], accepted: Sequence[Sequence[int]]) -> int:
    """Return the first entity of the overlapping gold mention, best with the same spans, that accepts one of some."""
    right = [
        (mention.spans != found.spans, place)
        for place, mention in enumerate(gold)
        if not {*entities}.isdisjoint(accepted[place])
        and any(begin < last and first < end for begin, end in mention.spans for first, last in found.spans)
    ]
    return accepted[min(right)[1]][0] if right else entities[0]
