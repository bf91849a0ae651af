"""The procedure of linking and of discovery; `Procedure.link` and `Procedure.grow` are the whole recipe.

Correct the spans of mentions, encode, search neighbours, weigh the edges, partition the graph, describe the result. A
run grows by the same steps, but begins with the neighbours that it keeps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from arbo.data.corpus import Corpus
from arbo.data.inputs import mention_inputs, names_of
from arbo.data.knowledge_base import KnowledgeBase
from arbo.encoders.encoder import Encoder
from arbo.engine import Decisions, Ids, Partition, partition
from arbo.linking.config import LinkerConfig
from arbo.linking.content import Content
from arbo.linking.corrections import Correction, continued, corrections_kept
from arbo.linking.description import describe
from arbo.linking.growth import Mentions, arrays_of, check_same, kept_arrays, remembered_mentions
from arbo.linking.mention_decisions import mention_decisions
from arbo.linking.releases import fitted_to, frozen, with_release_notes
from arbo.linking.run_documents import RunDocuments
from arbo.linking.span_edits import Edited, edit_spans, uncorrected
from arbo.progress import Announce, Stopwatch
from arbo.results.graphs import graph_arrays
from arbo.results.result import Result
from arbo.results.run import Run
from arbo.retrieval.encoded_kb import EncodedKb
from arbo.retrieval.groups import SearchAll, groups_of_mentions, search_all
from arbo.retrieval.reranking import Reranker, Score, reranked
from arbo.retrieval.retrieval import Retrieval, SearchSettings, retrieve
from arbo.retrieval.score_memory import ScoreMemory


def partition_here(
    retrieval: Retrieval, k: int, announce: Announce, *, decisions: Decisions | None, **how: Any
) -> Partition:
    """Partition the graph of a retrieval in this process, see `arbo.engine.partition`."""
    return partition(retrieval.listed(k, decisions).graph(), decisions=decisions, **how)


@dataclass(frozen=True, eq=False, slots=True)
class Procedure:
    """Links mentions to a knowledge base or, without one, discovers entities; see `arbo.Linker`."""

    kb: KnowledgeBase | None
    entities: EncodedKb | None
    """The entities of the knowledge base; None if it has none."""
    encoder: Encoder
    """The encoder before it is fitted."""
    config: LinkerConfig
    reranker: Reranker | None
    """None if there is no knowledge base, or it has no entities."""
    edges: Any
    """The edge model or None, see `arbo.edges.model`."""
    announce: Announce
    search_all: SearchAll = search_all
    """Searches for neighbours that are not known."""
    partition: Callable[..., Partition] = partition_here
    """Partitions the graph, as `partition_here` does."""

    def link(self, corpus: Corpus, corrections: Sequence[Correction]) -> Result:
        """Link the mentions of documents, or discover entities, and obey the corrections."""
        clock, edited = Stopwatch(), edit_spans(corpus, corrections)
        with clock("encode and search"):
            mentions = self.mentions(edited.documents, edited.documents.order)
        return self._result(mentions, edited, clock)

    def grow(
        self,
        run: Run,
        change: Callable[[RunDocuments], RunDocuments],
        corrections: Sequence[Correction] = (),
        *,
        anew: bool = False,
        exchange: bool = False,
    ) -> Result:
        """Link the changed documents of a run, with the neighbours that it keeps unless all are searched ``anew``.

        ``change`` gets the documents as they came, before any correction. The corrections of the run are obeyed again,
        then further ones. With ``exchange``, the run may have another knowledge base. Raise UsageError if the run
        cannot grow, or was made in another way, see `check_same`.
        """
        arrays, edges = arrays_of(run), {} if self.edges is None else {"edges": self.edges.settings}
        check_same(run, self.config, {**self.encoder.settings, **edges}, self.reranker, self.kb, exchange=exchange)
        procedure = self
        if self.entities is not None and fitted_to(run) != self.entities.kb.fingerprint:
            fitted = frozen(self.encoder, arrays)
            if fitted is not self.encoder:
                procedure = replace(self, entities=self.entities.with_fitted(fitted))
        encoder = self.encoder if procedure.entities is None else procedure.entities.fitted
        documents = change(uncorrected(RunDocuments.of(run), arrays))
        clock, lines = Stopwatch(), continued(corrections_kept(run.correction_table), corrections)
        edited = edit_spans(documents, lines)
        with clock("encode and search"):
            how: Any = (encoder, self.kb, self.announce, self.search_all)
            mentions = remembered_mentions(run, edited.documents, arrays, *how, anew=anew)
        return with_release_notes(run, procedure._result(mentions, edited, clock), self.encoder, self.kb)

    def mentions(self, corpus: Corpus, order: Ids) -> Mentions:
        """Return the mentions of documents in an order, with the fitted encoder."""
        inputs = mention_inputs(corpus, expand_abbreviations=self.config.expand_abbreviations)
        names = names_of(inputs)
        encoder = self.encoder.fit([names[row] for row in order]) if self.entities is None else self.entities.fitted
        return Mentions.of(inputs, order, encoder, self.announce, partial(Content.of, corpus, names, order))

    def search(self, mentions: Mentions, k: int, *, within_threshold: bool = False) -> Retrieval:
        """Search the ``k`` nearest mentions of each mention and, with a knowledge base, its nearest entities.

        With ``within_threshold``, mentions beyond the mention threshold are left out, which is faster; but all are kept
        if an edge model or average linkage needs them.
        """
        encoder, inputs, encode, _, find, _ = mentions
        limit = self.config.mention_limit(encoder.threshold, learnt=self.edges is not None)
        compared = max(k, self.edges.neighbors) if self.edges and k else k
        within = limit if within_threshold else None
        settings = SearchSettings(
            compared, self.config.candidates, self.config.search, within, self.config.per_document
        )
        entities = None if self.entities is None else self.entities.by_group(self.config.map_types)
        groups = groups_of_mentions(inputs, self.config.map_types, check=not self.config.per_document)
        return retrieve(encoder, inputs, encode, entities, groups, settings, self.announce, find, self.search_all)

    def weigh(self, nearest: Retrieval, k: int, score: Score | None = None) -> Retrieval:
        """Weigh the edges with the edge model or the reranker, if there is one; see `reranked`."""
        if self.edges is not None:
            learnt: Retrieval = self.edges.applied(nearest, self.kb or None, k, self.announce)
            return learnt
        if self.reranker is None or self.kb is None:
            return nearest
        skip_margin = self.config.skip_margin
        return reranked(nearest, self.reranker, self.kb, skip_margin=skip_margin, announce=self.announce, score=score)

    def _result(self, mentions: Mentions, edited: Edited[Any], clock: Stopwatch) -> Result:
        """Search, weigh, partition and describe: the steps that linking and growing share."""
        config, k = self.config, self.config.k
        with clock("encode and search"):
            nearest = self.search(mentions, k, within_threshold=True)
            scores = None
            if self.reranker is not None and self.kb is not None:
                scores = ScoreMemory(self.reranker, mentions.known)
            weighed = self.weigh(nearest, k, scores.score if scores else None)
        with clock("partition"):
            decided = mention_decisions(edited.lines, weighed.inputs, self.kb, config) if edited.lines else None
            decisions = None if decided is None else decided.decisions
            clusters = self.partition(
                weighed,
                k,
                self.announce,
                method=config.method,
                threshold=config.limits(weighed.threshold),
                nil_linkage=config.nil_linkage,
                nil_threshold=config.nil_limit(weighed.threshold),
                decisions=decisions,
            )
            others = edited.arrays()
            if weighed is not nearest or decisions is not None:
                others |= graph_arrays(weighed.listed(k, decisions).graph(), decisions)
        with clock("describe"):
            result = describe(mentions.content(), self.kb, weighed, clusters, config, decided)
        arrays = kept_arrays(mentions, nearest, self.encoder, self.kb, others, scores)
        return replace(result, manifest={**result.manifest, "seconds": clock.seconds}, arrays=arrays)
