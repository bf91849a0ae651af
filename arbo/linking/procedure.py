"""The procedure of linking and of discovery: encode, search, weigh the edges, partition the graph, describe the result.

A run grows by the same procedure, which then begins with the lists that the run keeps.
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
from arbo.linking.altered import Altered
from arbo.linking.config import LinkerConfig
from arbo.linking.content import Content
from arbo.linking.corrections import Correction, continued, corrections_kept
from arbo.linking.description import describe
from arbo.linking.growth import Mentions, arrays_of, check_same, kept, resumed
from arbo.linking.obedience import obeyed
from arbo.linking.originals import as_given, given_arrays
from arbo.linking.releases import fitted_to, frozen, told
from arbo.linking.respanning import respanned
from arbo.progress import Announce, Stopwatch
from arbo.results.graphs import graph_arrays
from arbo.results.result import Result
from arbo.results.run import Run
from arbo.retrieval.encoded_kb import EncodedKb
from arbo.retrieval.groups import SearchAll, groups_of_mentions, search_all
from arbo.retrieval.reranking import Reranker, Score, reranked
from arbo.retrieval.retrieval import Retrieval, SearchSettings, retrieve
from arbo.retrieval.score_memory import ScoreMemory


def in_memory(found: Retrieval, k: int, announce: Announce, *, decisions: Decisions | None, **how: Any) -> Partition:
    """Partition the graph of lists in this process, see `arbo.engine.partition`; other functions may tell of it."""
    return partition(found.listed(k, decisions).graph(), decisions=decisions, **how)


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
    partition: Callable[..., Partition] = in_memory
    """Partitions the graph of the lists, see `in_memory`."""

    def mentions(self, corpus: Corpus, order: Ids) -> Mentions:
        """Return the mentions of documents in an order, with the fitted encoder."""
        inputs = mention_inputs(corpus, expand_abbreviations=self.config.expand_abbreviations)
        names = names_of(inputs)
        encoder = self.encoder.fit([names[row] for row in order]) if self.entities is None else self.entities.fitted
        return Mentions.of(inputs, order, encoder, self.announce, partial(Content.of, corpus, names, order))

    def searched(self, mentions: Mentions, k: int, *, within_threshold: bool = False) -> Retrieval:
        """Return the neighbours by the encoder: the ``k`` nearest mentions, and entities.

        With ``within_threshold``, mentions beyond the mention threshold are left out, which is faster; but all are kept
        if an edge model, `rerank_mentions` or average linkage needs them.
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

    def weighed(self, found: Retrieval, k: int, score: Score | None = None) -> Retrieval:
        """Return the edges with the weights of the edge model or the reranker, if there is one; see `reranked`."""
        if self.edges is not None:
            learnt: Retrieval = self.edges.applied(found, self.kb or None, k, self.announce)
            return learnt
        if self.reranker is None or self.kb is None:
            return found
        how: dict[str, Any] = {"skip_margin": self.config.skip_margin, "mentions": self.config.rerank_mentions}
        return reranked(found, self.reranker, self.kb, announce=self.announce, score=score, **how)

    def decided(
        self,
        given: Corpus | Altered,
        corrections: Sequence[Correction],
        resume: Callable[[Altered], Mentions] | None = None,
    ) -> Result:
        """Decide on the mentions of documents, after corrections of spans; ``resume`` begins with earlier lists."""
        clock, k = Stopwatch(), self.config.k
        corpus, lines, changed = respanned(given, corrections)
        with clock("encode and search"):
            if isinstance(corpus, Corpus):
                mentions = self.mentions(corpus, corpus.order)
            else:
                assert resume is not None
                mentions = resume(corpus)
            found = self.searched(mentions, k, within_threshold=True)
            scoring = None
            if self.reranker is not None and self.kb is not None:
                scoring = ScoreMemory(self.reranker, self.kb, mentions.known)
            retrieval = self.weighed(found, k, scoring.score if scoring else None)
        with clock("partition"):
            obeying = obeyed(lines, retrieval.inputs, self.kb, self.config) if lines else None
            decisions = None if obeying is None else obeying.decisions
            clusters = self.partition(
                retrieval,
                k,
                self.announce,
                method=self.config.method,
                threshold=self.config.limits(retrieval.threshold),
                nil_linkage=self.config.nil_linkage,
                nil_threshold=self.config.nil_limit(retrieval.threshold),
                decisions=decisions,
            )
            more = given_arrays(changed)
            if retrieval is not found or decisions is not None:
                more |= graph_arrays(retrieval.listed(k, decisions).graph(), decisions)
        with clock("describe"):
            result = describe(mentions.content(), self.kb, retrieval, clusters, self.config, obeying)
        arrays = kept(mentions, found, self.encoder, self.kb, more, scoring)
        return replace(result, manifest={**result.manifest, "seconds": clock.seconds}, kept=arrays)

    def grown(
        self,
        run: Run,
        change: Callable[[Altered], Altered],
        more: Sequence[Correction] = (),
        *,
        anew: bool = False,
        exchange: bool = False,
    ) -> Result:
        """Decide on changed documents, with the neighbours that a run knows unless all are sought ``anew``.

        ``change`` gets the documents of the run as they came, before any correction. Its corrections are obeyed again,
        then ``more``. With ``exchange``, it may have another knowledge base. Raise UsageError if the run cannot grow,
        or was made in another way, see `check_same`.
        """
        arrays, edges = arrays_of(run), {} if self.edges is None else {"edges": self.edges.settings}
        check_same(run, self.config, {**self.encoder.settings, **edges}, self.reranker, self.kb, exchange=exchange)
        same = self
        if self.entities is not None and fitted_to(run) != self.entities.kb.fingerprint:
            fitted = frozen(self.encoder, arrays)
            if fitted is not self.encoder:
                same = replace(self, entities=self.entities.with_fitted(fitted))

        def resume(now: Altered) -> Mentions:
            encoder = self.encoder if same.entities is None else same.entities.fitted
            return resumed(run, now, arrays, encoder, self.kb, self.announce, self.search_all, anew=anew)

        corrections = continued(corrections_kept(run.correction_table), more)
        decided = same.decided(change(as_given(Altered.of(run), arrays)), corrections, resume)
        return told(run, decided, self.encoder, self.kb)
