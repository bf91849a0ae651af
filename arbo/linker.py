"""The linker: a knowledge base, an encoder and settings, with which documents are linked.

The recipe of linking and of discovery: correct the spans of mentions, encode, search neighbours, weigh the edges,
partition the graph, describe the result. A run grows by the same steps, but begins with the neighbours that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from arbo.corrections.constraints import SURE, constraints_on
from arbo.corrections.edits import edit_spans
from arbo.corrections.lines import Correction, continued, corrections_of
from arbo.data import Corpus, KnowledgeBase, mention_inputs
from arbo.data.arrow import numbers
from arbo.data.fingerprint import warnings_of
from arbo.data.gold import Gold
from arbo.data.tables import is_list_of_names
from arbo.encoders.by_name import encoder_of
from arbo.encoders.encoder import Encoder
from arbo.encoders.ngrams import NgramEncoder
from arbo.engine import Bools, Ids, Method, partition
from arbo.errors import UsageError
from arbo.linking.config import DefaultConfidence, LinkerConfig, Objective, estimated_gaps, objective_of, threshold_for
from arbo.linking.memory import Memory, check_release, extended, without
from arbo.linking.tables import describe
from arbo.progress import Announce, on_screen, timed
from arbo.results.graphs import additions, graph_arrays, only_graph
from arbo.results.result import Result
from arbo.results.run import Run
from arbo.retrieval.groups import EncodedKb, SearchAll, first_alike, groups_of_mentions, search_all
from arbo.retrieval.reranking import Candidates, Reranker, ScoreMemory, reranked, reranker_of
from arbo.retrieval.retrieval import Mentions, PairScores, Retrieval, SearchSettings, retrieve

if TYPE_CHECKING:
    from arbo.edges.model import EdgeModel
    from arbo.edges.names_model import NamesModel
    from arbo.linking.tuning import Tuning

_MOST_NAMES = 2500
"""`NgramEncoder.most_names` for a list: with 1,000, 100,000 firms take two thirds of the time, and lose 2 % recall."""


@dataclass(frozen=True, eq=False)
class Linker:
    """Links the mentions of documents to a knowledge base, and clusters mentions without an entity there.

    Args:
        kb: the knowledge base, or rows that `KnowledgeBase.of` accepts; None to discover entities without one.
        encoder: the encoder of mentions and entities, or its name: a model folder, ``all-MiniLM-L6-v2`` from its
            package, or a name on the Hugging Face Hub; or a `SentenceTransformer` or another object that has its method
            ``encode``. The default, ``ngram`` (character n-grams), needs no weights.
        config: settings of the graph and of its clustering, or a dict of them, such as ``{"k": 8}``; None: those of
            the edge model, if it was trained with a knowledge base as there is one, or without; or the defaults.
        announce: shows the progress of what takes more than two seconds, see `arbo.progress`; by default a bar.
        tuning: the trials from which `tune` chose the configuration; set by `tune`, otherwise None.
        reranker: scores each mention with its candidates, see `arbo.retrieval.reranking`: a cross-encoder, or any
            function of mentions and their candidates. `discover` does not use it.
        edges: an edge model, which sets the weights of edges (see `arbo.train_edges`), or its file.
        over: embeds and searches elsewhere, such as in other processes or on Ray, see `arbo.scale.work.opened`; None:
            in this process. The result is the same.

    Raises:
        UsageError: an argument is unsuitable, or does not fit another: ``skip_margin`` without a reranker, a reranker
            and an edge model, or average linkage of inner products without an edge model.
        DataError: the file of the edge model cannot be read, or is not a file of an edge model.
        ArboError: no model has the encoder's name.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> result = arbo.Linker(kb).link(documents)
    >>> len(result.links) == len(documents.mentions)
    True
    """

    kb: KnowledgeBase | None = None
    encoder: Encoder = field(default_factory=NgramEncoder)
    config: LinkerConfig = None  # type: ignore[assignment]  # __post_init__ replaces None
    announce: Announce = on_screen
    tuning: Tuning | None = None
    reranker: Reranker | None = None
    edges: EdgeModel | NamesModel | None = None
    over: Any = field(default=None, repr=False)
    _entities: EncodedKb | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        encoder: Any = encoder_of(self.encoder)
        if self.over is not None and getattr(encoder, "over", self.over) is not self.over:  # a transformer
            encoder = replace(encoder, over=self.over)
        reranker = None if self.reranker is None else reranker_of(self.reranker)
        vars(self).update(encoder=encoder, reranker=reranker)
        if self.kb is not None:
            kb, known = KnowledgeBase.of(self.kb), self._entities
            if known is None or known.kb is not kb or known.encoder is not encoder:
                known = EncodedKb(kb, encoder, self.announce) if kb else None
            vars(self).update(kb=kb, _entities=known)
        if isinstance(self.edges, (str, PathLike)):
            from arbo.edges.model import EdgeModel

            vars(self)["edges"] = EdgeModel.load(self.edges)
        if not isinstance(self.config, LinkerConfig):
            suits = (getattr(self.edges, "entities", None) is not None) == bool(self.kb)
            own = getattr(self.edges, "config", {}) if self.config is None and suits else self.config
            vars(self)["config"] = LinkerConfig.from_dict(own or {})
        self.config.check_limits(self.encoder.metric, learnt=self.edges is not None)
        if self.reranker is not None and self.edges is not None:
            raise UsageError("a linker cannot use a reranker and an edge model together; leave out one of them")
        if self.reranker is None and self.config.skip_margin is not None:
            raise UsageError("skip_margin needs a reranker; choose one (--reranker), or leave skip_margin out")

    def link(
        self,
        documents: Iterable[Any],
        corrections: Any = None,
        *,
        name: str | None = None,
        evidence: Iterable[str] | None = None,
    ) -> Result:
        """Link each mention to an entity of the knowledge base, or to NIL; cluster the NIL mentions.

        Args:
            documents: anything that `Corpus.of` accepts: documents, dicts, a pandas frame, a Hugging Face dataset, or
                a list or pandas Series of names alone.
            corrections: what people decided: a file of JSON lines, or a list of objects, see `arbo.corrections.lines`.
            name: the column of names, if ``documents`` are rows of a table, such as a pandas frame.
            evidence: further columns, of both tables, that weigh pairs of rows, see `LinkerConfig.evidence`, which they
                replace.

        Raises:
            UsageError: there is no knowledge base, ``documents`` are not documents, or ``corrections`` is one object.
            DataError: a line is no correction. One that cannot be obeyed is kept instead, see `Result.corrections`.
        """
        if self.kb is None:
            raise UsageError("linking needs a knowledge base: use Linker(kb), or discover() to work without one")
        linker = self._weighing(evidence)._suited(None)
        return linker._linked(Corpus.of(documents, name), _lines(corrections), name=name)

    def discover(
        self,
        documents: Iterable[Any],
        corrections: Any = None,
        *,
        name: str | None = None,
        evidence: Iterable[str] | None = None,
        source: str | None = None,
    ) -> Result:
        """Cluster mentions, or names alone, without a knowledge base; each cluster is a discovered entity.

        Args:
            documents: see `link`, also for further errors.
            corrections: see `link`.
            name: see `link`.
            evidence: further columns that weigh pairs of rows, see `LinkerConfig.evidence`, which they replace.
            source: the column that says from which table a row comes, if no entity is twice in a table.

        Raise UsageError for a column without any value.
        """
        corpus = Corpus.of(documents, name)
        linker = self.configured(kb=None, _entities=None)._weighing(evidence, source)._suited(corpus)
        return linker._linked(corpus, _lines(corrections), name=name)

    def add(
        self, result: Run | Any, documents: Iterable[Any] = (), corrections: Any = None, *, other_kb: bool = False
    ) -> Result:
        """Return a new result with further documents; its tables are those of `refit` on all documents.

        ``result`` is a result, the folder of one, or what `open_run` returns, as in `find`, `remove` and `refit`.
        Only what is new is encoded, searched and reranked. The linker must be as it was when it made ``result``, which
        does not change; but its knowledge base may be a new release and, with ``other_kb``, even one in which more than
        half of the entities are gone or have changed. The n-grams keep their weights. The corrections of ``result`` are
        obeyed again, as if the new ``corrections`` were lines after them. Raise UsageError if the result cannot grow,
        or was made with other settings or models; DataError if it has a document with the same id.
        """
        result, more = _opened(result), _lines(corrections)
        if not other_kb:
            check_release(result, self.kb)
        corpus = Corpus.of(documents, result.manifest.get("reading", {}).get("text_column"))
        memory = Memory.of(result)
        return self._grown(memory, extended(memory.documents, corpus), more, exchange=True)

    def remove(self, result: Run | Any, ids: Iterable[str]) -> Result:
        """Return a new result without the documents and mentions with these ids; see `add`.

        Corrections stay: those of mentions that are gone wait for them, and still join the mentions that are left.
        Raise UsageError for an unknown id, one of both a document and a mention, a mention that a correction added or
        another knowledge base, and as `add` does.
        """
        memory = Memory.of(_opened(result))
        return self._grown(memory, without(memory.documents, ids))

    def find(self, result: Run | Any, names: Iterable[Any]) -> pa.Table:
        """Look names up in a run, which does not change: return those of its clusters that `add` would give them.

        The Arrow table has a row for each name: ``name, cluster_id, cluster_name`` and ``score``, the similarity to the
        entity, or to the nearest mention of the run; null if neither is near enough. Raise errors as `add` does.
        """
        result = _opened(result)
        return additions(result, self.add(result, names))

    def refit(self, result: Run | Any) -> Result:
        """Return the result of searching all documents of a result again, with its mentions and its fitted encoder.

        Dense vectors and scores of rerankers are kept. Raise UsageError as `remove` does.
        """
        memory = Memory.of(_opened(result), anew=True)
        return self._grown(memory, memory.documents)

    def tune(
        self, documents: Iterable[Any], *, objective: Objective | None = None, method: Method | None = None
    ) -> Linker:
        """Choose k, method and thresholds on documents with gold annotations, and return a linker that uses them.

        With a knowledge base, the settings are chosen for `link`; without one, only k and the mention threshold are
        chosen, for `discover`. The attribute `tuning` of the new linker holds the scores of all trials and, for `link`,
        the confidence of links if there are enough to fit it (see `arbo.linking.confidence`). With average linkage,
        ``nil_threshold`` is chosen too: for `link` by the ARI of the NIL mentions, for `discover` in place of the
        mention threshold. Of a list of names, k stays, and the threshold too if all names are annotated.

        Args:
            documents: see `link`.
            objective: the score to maximise: with a knowledge base, ``accuracy_with_nil`` (the default), the share of
                correct links and NIL decisions, or ``nil_f1``; without one, ``ari`` (the default), or the F1 of
                ``b3``, ``conll`` or ``lea``.
            method: the only method to try, with a knowledge base; None for all.

        Raises:
            UsageError: the objective or the method is unknown, a method is given without a knowledge base, or
                ``documents`` are not documents.
            DataError: no mention is annotated; with a knowledge base, no mention has a gold entity in it, none is
                NIL for ``nil_f1``, or no setting links one rightly; without one, all mentions mean the same or differ.
        """
        from arbo.linking.tuning import choose, ks_of

        corpus, discovers = Corpus.of(documents), self.kb is None
        score = objective_of(objective, method, discovers=discovers)
        linker = self._suited(corpus) if discovers else self
        retrieval = linker.retrieve(corpus, k=max(ks_of(linker.config)), in_order=True)
        gold = Gold.of(corpus.tables.mentions.take(numbers(corpus.order)), self.kb)
        tuning = choose(retrieval, gold, linker.config, score, self.announce("tuning"), method)
        return linker.configured(config=tuning.applied(linker.config), tuning=tuning)

    def candidates(self, documents: Iterable[Any], k: int = 64) -> Candidates:
        """Return the ``k`` nearest entities to each mention, for a second stage to rerank.

        Candidates belong to the domain of the mention and, with `map_types`, to the types mapped to its type. They are
        in the order of the reranker, or of an edge model trained with a knowledge base, if the linker has one of these.
        Raise UsageError if the linker has no knowledge base.
        """
        if self.kb is None:
            raise UsageError("candidates are entities of a knowledge base, but this linker has none; use Linker(kb)")
        corpus = Corpus.of(documents)
        nearest = self.configured(config=replace(self.config, candidates=k)).retrieve(corpus, k=0)
        ids, dissimilarity = nearest.entities
        scores = nearest.similarity(dissimilarity)
        return Candidates(ids, scores, corpus.fingerprint, self.kb.fingerprint, nearest.settings)

    def retrieve(self, corpus: Corpus, *, k: int, in_order: bool = False) -> Retrieval:
        """Find the ``k`` nearest mentions of each mention and, with a knowledge base, its nearest entities.

        With ``in_order``, the mentions are numbered as `Corpus.order` says, so that ties never depend on the order in
        which the documents came. A reranker or an edge model weighs the edges, of which the ``k`` lightest are kept.
        """
        mentions = self._mentions(corpus, corpus.order if in_order else np.arange(corpus.n_mentions))
        settings = self._search_settings(mentions, k)
        return self._weighed(retrieve(mentions, settings, self.announce, self._search_all), k)

    def configured(self, **changes: Any) -> Self:
        """Return a copy with changed fields; only a new ``kb`` or ``encoder`` makes it encode the entities again."""
        return replace(self, **changes)

    def learnt(self, corpus: Corpus) -> list[str]:
        """Return a warning for each model that was trained on some of these documents, and for edges of an encoder."""
        models = {"the encoder": self.encoder, "the reranker": self._reranker, "the edge model": self.edges}
        made = getattr(self.edges, "trained", {}).get("encoder", {})
        other = "weights" in made and made["weights"] != self.encoder.settings.get("weights")
        lacking = [f"the edge model weighs by the encoder {made['model']!r}, which is not this one"] if other else []
        return [*warnings_of(corpus.tables, models), *lacking]

    def undivided(self) -> Self:
        """Return a linker that compares each mention, without a domain, with the entities of all domains and types."""
        entities = None if self._entities is None else self._entities.in_one_group()
        return self.configured(config=replace(self.config, map_types=None), _entities=entities)

    def _weighing(self, evidence: Iterable[str] | None, source: str | None = None) -> Self:
        """Return the linker with these columns as evidence, if there are any."""
        columns = [evidence] if isinstance(evidence, str) else [*map(str, () if evidence is None else evidence)]
        columns += [] if source is None else [f"{source}:source"]
        return self.configured(config=replace(self.config, evidence=",".join(columns))) if columns else self

    def _suited(self, corpus: Corpus | None) -> Self:
        """Return the linker for a list of names, if the documents are one or the settings say so."""
        reads, columns = self.config.treat_as, self.config.evidence
        is_list = reads == "list" or (reads == "auto" and corpus is not None and is_list_of_names(corpus.tables))
        is_list = (is_list and self.kb is None) or (columns is not None and bool(self.kb))
        if not is_list or self.edges is not None or not isinstance(self.encoder, NgramEncoder):
            if columns is not None and getattr(self.edges, "columns", None) is None:
                raise UsageError("evidence needs a list of names, the n-grams, and no edge model; leave it out")
            return self
        if self.kb and (self.config.map_types is not None or self.config.per_document):
            raise UsageError("evidence for links takes neither map_types nor per_document; leave them out")
        from arbo.edges.names_model import NamesModel

        names: Any = NamesModel.shipped()
        columns = corpus.graph.get("evidence") if columns is None and corpus is not None else columns
        if columns is not None:
            from arbo.edges.evidence import Evidence

            names = Evidence(names, columns)
        if self.kb is not None:
            return self.configured(edges=names)
        encoder = replace(self.encoder, most_names=_MOST_NAMES)
        config = replace(self.config.of_list(), evidence=columns)
        return self.configured(config=config, edges=names, encoder=encoder)

    def _like(self, memory: Memory) -> Self:
        """Return the linker for a run, with a knowledge base if that has one; it weighs columns as the run does."""
        made = memory.run.manifest
        evidence = self.config.evidence or made["config"].get("evidence")
        reads = made["config"].get("treat_as", "auto") if self.config.treat_as == "auto" else self.config.treat_as
        linker = self if made["knowledge_base"] is not None else self.configured(kb=None, _entities=None)
        linker = linker.configured(config=replace(self.config, evidence=evidence, treat_as=reads))._suited(None)
        edges: Any = linker.edges
        settings = made["encoder"].get("edges", {})
        if edges is None or edges.settings.keys() != settings.keys():
            return linker
        return linker.configured(edges=edges.frozen(settings, memory.arrays))

    @property
    def _search_all(self) -> SearchAll:
        return search_all if self.over is None else self.over.search_all

    @property
    def _reranker(self) -> Reranker | None:
        """The reranker if it has entities to score."""
        return self.reranker if self.kb else None

    def _linked(
        self, corpus: Corpus, corrections: Sequence[Correction], memory: Memory | None = None, name: str | None = None
    ) -> Result:
        """Link documents, as far as possible from the memory of a run: the recipe of linking, discovery and growth."""
        config, seconds = self.config, dict[str, float]()
        documents, lines, came = edit_spans(corpus, corrections) if corrections else (corpus, corrections, {})
        with timed("encode and search", seconds):
            if memory is None:
                mentions = self._mentions(documents, documents.order)
            else:
                encoder = self.encoder if self._entities is None else self._entities.fitted
                mentions = memory.mentions(documents, encoder, self.kb, self.announce, self._search_all)
            apart = {id_ for line in lines if line.kind == "different" for id_ in line.mentions} if lines else None
            settings = self._search_settings(mentions, config.k, within_threshold=True, apart=apart)
            nearest = retrieve(mentions, settings, self.announce, self._search_all)
            nearest, gaps = self._with_thresholds(nearest, memory)
            weighed = self._weighed(nearest, config.k, mentions.known)
        with timed("partition", seconds):
            constraints = decisions = None
            limits, nil_limit = config.limits(weighed.threshold), config.nil_limit(weighed.threshold)
            how: Any = {"threshold": limits, "nil_threshold": nil_limit, "nil_linkage": config.nil_linkage}
            clustered: Callable[..., Any] = partial(partition, method=config.method, **how)
            if lines:
                is_spared, least = self.kb and config.spread != "graph", SURE if config.spread == "unlinked" else inf
                before = clustered(weighed.graph(config.k)).entity if is_spared else np.full(len(weighed.inputs), -1)
                sure = None if config.per_document else weighed.sure(before, least)
                constraints = constraints_on(lines, weighed.inputs, self.kb, config.spread, sure)
                decisions = constraints.decisions
            graph = weighed.graph(config.k, decisions, len(constraints.several) if constraints else 0)
            clusters = clustered(graph, decisions=decisions)
            if constraints is not None:
                constraints, clusters = constraints.sparing(before, clusters, partial(clustered, graph))
                decisions = constraints.decisions
            arrays = {**nearest.lists, **came, **weighed.kept}
            if weighed is not nearest or weighed.limit is not None or decisions is not None:  # lists make another
                arrays |= graph_arrays(graph, decisions)
            del graph  # the description needs its memory
        with timed("describe", seconds):
            confidence = self._confidence(weighed, gaps, clusters.entity < 0, memory)
            result = describe(self.kb, weighed, clusters, config, constraints, confidence)
        if (kept := mentions.arrays(self.encoder)) and self.kb is not None:
            kept |= {f"kb.{name}": hashes for name, hashes in self.kb.keys._asdict().items()}
        arrays = {**arrays, **kept} if kept else {**only_graph(arrays)}  # without `kept`, it cannot grow
        warnings = [*result.manifest["warnings"], *self.learnt(corpus)]
        of_types = {type_: threshold_for(gap) for type_, gap in gaps.items()}
        state: dict[str, Any] = {"gap": gaps.get(""), "gaps": gaps, "limits": of_types}
        if config.confidence is None:
            state["confidence"] = {type_: one._asdict() for type_, one in confidence.items()}
        manifest = {**result.manifest, **state, "warnings": warnings, "seconds": seconds}
        if name is not None and len(result.mention_table):
            manifest["reading"] = {"text_column": name}
        return replace(result, manifest=manifest, arrays=partial(dict, arrays))

    def _grown(
        self, memory: Memory, documents: Corpus, corrections: Sequence[Correction] = (), *, exchange: bool = False
    ) -> Result:
        """Link the documents of a run, as they came but changed, with its corrections and then further ones."""
        linker = self._like(memory)
        settings = {**self.encoder.settings, **({} if linker.edges is None else {"edges": linker.edges.settings})}
        memory.check(linker.config, settings, linker._reranker, linker.kb, exchange=exchange)
        linker = linker.configured(_entities=memory.entities(linker._entities))
        after = linker._linked(documents, continued(memory.run.correction_table, corrections), memory)
        return memory.with_notes(after, self.encoder, linker.kb)

    def _mentions(self, corpus: Corpus, order: Ids) -> Mentions:
        """Return the mentions of documents in an order, with the fitted encoder."""
        inputs = mention_inputs(corpus, expand_abbreviations=self.config.expand_abbreviations, kb=self.kb)
        names = inputs.taken(order[~inputs.corpus.tables.is_blank[inputs.rows][order]])
        encoder = self.encoder.fit(names.names) if self._entities is None else self._entities.fitted
        return Mentions.of(inputs, order, encoder, self.announce)

    def _search_settings(
        self, mentions: Mentions, k: int, *, within_threshold: bool = False, apart: Collection[str] | None = None
    ) -> SearchSettings:
        """Return the settings of a search; equal names of a list are one, but for those ``apart`` by corrections."""
        config = self.config
        compared = max(k, self.edges.neighbors) if self.edges and k else k
        entities = None if self._entities is None else self._entities.by_group(config.map_types)
        alone, inputs = config.per_document, mentions.inputs
        groups = groups_of_mentions(inputs, config.map_types, check=not alone)
        is_list = self.kb is None and config.treat_as == "list"
        limit = config.limits(mentions.encoder.threshold)[1]
        all_count = is_list or not within_threshold or self.edges is not None or config.nil_linkage == "average"
        within = None if all_count or limit == float("inf") else limit
        earlier = mentions.earlier if apart is None else None
        first = first_alike(inputs, groups, apart or (), config.evidence, earlier) if is_list and k else None
        return SearchSettings(self.kb, entities, groups, compared, config.candidates, within, alone, first)

    def _with_thresholds(self, nearest: Retrieval, memory: Memory | None) -> tuple[Retrieval, dict[str, float]]:
        """Return neighbours with the thresholds of their gaps, and the gaps: estimated, or those that a run keeps."""
        gaps, config = dict[str, float](), self.config
        is_by_letters = isinstance(self.encoder, NgramEncoder) and self._reranker is None and self.edges is None
        if memory is not None and (self.kb is None or memory.has_same(self.kb)):
            gaps = memory.run.manifest["gaps"]
        elif self.kb and is_by_letters and config.entity_threshold == "default" and not config.per_document:
            inputs, gaps = nearest.inputs, {"": 0.0}
            if not config.kb_complete:
                gaps = estimated_gaps(nearest.entities, inputs.names, inputs.column("type"), self.kb)
        if not gaps:
            return nearest, gaps
        largest, limit = max(map(threshold_for, gaps.values())), np.empty(len(nearest.inputs))
        for type_, gap in gaps.items():  # those of a type after those of all
            limit[nearest.has_type(type_)] = threshold_for(gap)
        own = limit if len(gaps) > 1 else None
        return replace(nearest, threshold=(largest, nearest.threshold[1]), limit=own), gaps

    def _confidence(
        self, weighed: Retrieval, gaps: Mapping[str, float], is_nil: Bools, memory: Memory | None
    ) -> dict[str, Any]:
        """Return the tuned confidence or, for n-grams, that of each gap, which a run keeps; nothing without either."""
        if self.config.confidence is not None:
            return {"": self.config.confidence}
        if not (self.kb and isinstance(self.encoder, NgramEncoder) and weighed.settings == self.encoder.settings):
            return {}
        if memory is not None and memory.has_same(self.kb):
            return {type_: DefaultConfidence(**values) for type_, values in memory.run.manifest["confidence"].items()}
        made = DefaultConfidence.for_gap
        return {type_: made(gaps.get(type_), is_nil[weighed.has_type(type_)]) for type_ in gaps or ("",)}

    def _weighed(self, nearest: Retrieval, k: int, known: PairScores | None = None) -> Retrieval:
        """Weigh the edges with the edge model or the reranker, if there is one; see `reranked`."""
        if self.edges is not None:
            return self.edges.applied(nearest, self.kb or None, k)
        if self._reranker is None or self.kb is None:
            return nearest
        return reranked(nearest, ScoreMemory(self._reranker, self.config.skip_margin, self.announce, known), self.kb)


def _opened(run: Run | Any) -> Run:
    """Return the run that is given, that is in a folder, or that `open_run` opened."""
    run = Result.load(run) if isinstance(run, (str, PathLike)) else getattr(run, "result", run)
    if not isinstance(run, Run):
        raise UsageError(f"expected a run or its folder, not {type(run).__name__}; give a Result")
    return run


def _lines(corrections: Any) -> Sequence[Correction]:
    return () if corrections is None else corrections_of(corrections)
