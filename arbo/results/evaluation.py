"""Scores of runs and of candidates against gold annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.corpus import Corpus
from arbo.data.gold import RECALL_AT, Bools, Gold, Ints
from arbo.data.knowledge_base import KnowledgeBase
from arbo.errors import UsageError
from arbo.metrics import (
    ClusteringScores,
    Contingency,
    CoreferenceScores,
    Line,
    LinkingCounts,
    LinkingScores,
    NilCurve,
    NilScores,
    Report,
    Resampling,
    clustering_scores,
    counts_from_contingency,
    linking_outcomes,
    linking_scores,
    nil_as_class,
    nil_curve,
    nil_scores,
    scores_from_counts,
)
from arbo.results.lines import cluster_lines, linking_lines, nil_lines
from arbo.results.run import Run, entities_in

_USUAL = Resampling()


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """Scores of links, NIL decisions and clusters; a score that does not apply is None."""

    mentions: int
    linking: LinkingScores | None
    nil: NilScores | None
    nil_curve: NilCurve | None
    """NIL decided only by a threshold on the similarity of the nearest entity, at every threshold."""
    clustering: ClusteringScores | None
    """Agreement of the clusters with the sets of gold ids, over the mentions with gold ids."""
    clustering_unseen: ClusteringScores | None
    """The same over mentions whose gold ids do not occur in training (ALL/UNSEEN in the ArboEL paper, section 3.5)."""
    coreference: CoreferenceScores | None
    with_nil: LinkingCounts | None
    """Links and NIL decisions together, over all annotated mentions; NIL counts as one more class."""
    clustered: int
    """Number of mentions that clustering and coreference count."""
    lines: tuple[Line, ...]
    """The headline figures, with the counts for their intervals."""

    @property
    def accuracy_with_nil(self) -> float | None:
        """Share of the annotated mentions with a correct link or a correct NIL decision."""
        return self.with_nil.accuracy if self.with_nil else None

    def report(self, name: str = "", how: Resampling | None = _USUAL) -> Report:
        """Return the headline figures as a named table, with intervals unless ``how`` is None."""
        return Report.of({name: self.lines}, how=how)

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by name, ready for JSON."""
        curve = self.nil_curve
        return {
            "mentions": self.mentions,
            "accuracy_with_nil": self.accuracy_with_nil,
            "recall_with_nil": self.with_nil.recall if self.with_nil else None,
            "linking": self.linking.as_dict() if self.linking else None,
            "nil": self.nil.as_dict() if self.nil else None,
            "nil_by_threshold": {"average_precision": curve.average_precision, "best": curve.best._asdict()}
            if curve
            else None,
            "clustering": dict(self.clustering) if self.clustering else None,
            "clustering_unseen": dict(self.clustering_unseen) if self.clustering_unseen else None,
            "coreference": dict(self.coreference) if self.coreference else None,
            "clustered_mentions": self.clustered,
        }

    def __str__(self) -> str:
        return self._table(_USUAL)

    def __repr__(self) -> str:  # without intervals, which take time
        return self._table(None)

    def _repr_html_(self) -> str:
        return self.report(how=None)._repr_html_() if self.lines else str(self)

    def _table(self, how: Resampling | None) -> str:
        nothing = "nothing to score: no mention has a gold annotation; arbo evaluate --gold scores found mentions"
        return str(self.report(how=how)) if self.lines else nothing


def evaluate(run: Run, *, train: Corpus | None = None, classes: Ints | None = None) -> Evaluation:
    """Score a run; see `Result.evaluate`.

    Args:
        run: the run.
        train: documents whose gold entities count as seen.
        classes: (mentions,) the class of each mention for clusters, see `Gold.classes`; by default from the run's own
            knowledge base.

    """
    gold, row_of = gold_of(run)
    document = _codes(run.mention_table["document_id"])
    seen = None if train is None else gold.seen(train)
    classes = gold.classes if classes is None else classes
    links = _Links()
    if run.manifest["knowledge_base"] is not None and gold.annotated.any():
        links = _score_links(run, gold, row_of, document, seen)
    clusters = _Clusters()
    known = classes >= 0
    if known.any():
        clusters = _score_clusters(_codes(run.link_table["cluster_id"]), classes, known, document, seen)
    return Evaluation(
        mentions=len(classes),
        linking=links.linking,
        nil=links.nil,
        nil_curve=links.nil_curve,
        clustering=clusters.clustering,
        clustering_unseen=clusters.unseen,
        coreference=clusters.coreference,
        with_nil=links.with_nil,
        clustered=int(known.sum()),
        lines=links.lines + clusters.lines,
    )


def evaluate_together(runs: Mapping[str, Run], *, train: Corpus | None = None) -> dict[str, Evaluation]:
    """Score several runs of the same documents with the same gold classes, so that they can be compared.

    The gold classes of clusters come from the first run with a knowledge base, which may know that two gold ids belong
    to one entity.

    Raises:
        UsageError: the runs have different mentions or gold annotations.

    """
    name, first = next(iter(runs.items()))
    for other, run in runs.items():
        for column in ("mention_id", "document_id", "gold"):
            if run.mention_table[column] != first.mention_table[column]:
                raise UsageError(f"{name} and {other} differ in {column}; compare only results of the same documents")
    with_kb = (run for run in runs.values() if run.manifest["knowledge_base"] is not None)
    classes = gold_of(next(with_kb, first))[0].classes if len(runs) > 1 else None
    return {name: evaluate(run, train=train, classes=classes) for name, run in runs.items()}


def compare(
    results: Mapping[str, Run], *, train: Iterable[Any] | None = None, how: Resampling | None = _USUAL
) -> Report:
    """Compare the scores of several results of the same documents, and test each against the first.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> with_kb, without = arbo.Linker(kb).link(documents), arbo.Linker().discover(documents)
    >>> report = compare({"linked": with_kb, "discovered": without})
    >>> report.systems["discovered"]["ARI"].comparison.difference < 0
    True

    Args:
        results: the results by name.
        train: documents whose gold entities count as seen.
        how: the settings of intervals and tests; None for neither.

    Raises:
        UsageError: the results have different mentions or gold annotations.

    """
    evaluations = evaluate_together(results, train=None if train is None else Corpus.of(train))
    return Report.of({name: evaluation.lines for name, evaluation in evaluations.items()}, how=how)


def evaluate_candidates(
    candidates: Ints, documents: Corpus, kb: KnowledgeBase, *, train: Corpus | None = None
) -> LinkingScores:
    """Score candidates: the first of each mention as its link, without graph or NIL, and the lists by recall@k.

    Args:
        candidates: (mentions, k) rows of the knowledge base, best first, filled up with -1.
        documents: the documents of the candidates, with gold annotations.
        kb: the knowledge base of the candidates.
        train: documents whose gold entities count as seen; adds scores for seen and unseen entities.

    """
    gold, k = Gold.of(documents, kb), candidates.shape[1]
    return linking_scores(
        *gold.accepted,
        candidates[:, 0] if k else np.full(len(candidates), -1),
        annotated=gold.annotated,
        candidates=candidates,
        k=[at for at in RECALL_AT if at <= k],
        seen=None if train is None else gold.seen(train),
        groups={
            "type": [mention.type for mention in documents.mentions],
            "domain": [document.domain for document in documents for _ in document.mentions],
        },
    )


class _Links(NamedTuple):
    linking: LinkingScores | None = None
    nil: NilScores | None = None
    nil_curve: NilCurve | None = None
    with_nil: LinkingCounts | None = None
    lines: tuple[Line, ...] = ()


def _score_links(run: Run, gold: Gold, row_of: Mapping[str, int], document: Ints, seen: Bools | None) -> _Links:
    predicted = numbers_of(row_of, run.link_table["entity_id"])
    candidates = _candidates(row_of, run.link_table["candidates"])
    given = {"type", "domain"} & set(run.mention_table.column_names)  # runs of an earlier arbo have no domain
    groups = {name: run.mention_table[name].to_pylist() for name in sorted(given, reverse=True)}
    outcomes = linking_outcomes(*gold.accepted, predicted, annotated=gold.annotated, candidates=candidates)
    ks = [k for k in RECALL_AT if k <= candidates.shape[1]]
    linking = LinkingScores.of(outcomes, k=ks, seen=seen, groups=groups)
    is_nil = gold.is_nil
    curve = nil_curve(is_nil, best_scores(run), annotated=gold.annotated)
    with_nil = nil_as_class(outcomes, predicted < 0)
    return _Links(
        linking,
        nil_scores(is_nil, predicted < 0, annotated=gold.annotated),
        curve,
        with_nil.count(k=ks),
        (
            *linking_lines(outcomes, document, groups, seen),
            *nil_lines(with_nil, is_nil, predicted < 0, document, curve),
        ),
    )


class _Clusters(NamedTuple):
    clustering: ClusteringScores | None = None
    unseen: ClusteringScores | None = None
    coreference: CoreferenceScores | None = None
    lines: tuple[Line, ...] = ()


def _score_clusters(cluster: Ints, truth: Ints, known: Bools, document: Ints, seen: Bools | None) -> _Clusters:
    lines = cluster_lines(truth, cluster, document, known, "")
    unseen = None
    if seen is not None and (known & ~seen).any():
        unseen = clustering_scores(truth[known & ~seen], cluster[known & ~seen])
        lines += cluster_lines(truth, cluster, document, known & ~seen, ", unseen")[:1]
    table = Contingency.from_labels(truth[known], cluster[known])
    return _Clusters(
        clustering_scores(truth[known], cluster[known]),
        unseen,
        scores_from_counts(counts_from_contingency(table)),
        tuple(lines),
    )


def _codes(ids: pa.ChunkedArray) -> Ints:
    codes: Ints = ids.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def nearest(run: Run, column: str, missing: object) -> pa.ChunkedArray:
    """Return the first of each mention's candidates or candidate scores; ``missing`` without one."""
    lists = run.link_table[column]
    empty = pc.equal(pc.list_value_length(lists), 0)
    return pc.list_element(pc.if_else(empty, pa.scalar([missing], lists.type), lists), 0)


def best_scores(run: Run) -> npt.NDArray[np.float64]:
    """Return the similarity of the nearest entity of each mention; -inf without one."""
    values: npt.NDArray[np.float64] = nearest(run, "candidate_scores", -np.inf).to_numpy().astype(np.float64)
    return values


def gold_of(run: Run) -> tuple[Gold, dict[str, int]]:
    """Read the gold annotations of a run, and number the entities that are correct, predicted or candidates."""
    in_kb = run.mention_table["gold_entities"]
    ids = entities_in(run.link_table, pc.list_flatten(in_kb).combine_chunks())
    row_of = {id_: number for number, id_ in enumerate(ids.to_pylist())}
    return Gold.of_ids(run.mention_table["gold"].to_pylist(), in_kb.to_pylist(), row_of), row_of


def numbers_of(row_of: Mapping[str, int], ids: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Return the numbers of entities, see `gold_of`; -1 for null."""
    return np.array([-1 if id_ is None else row_of[id_] for id_ in ids.to_pylist()], np.int64)


def _candidates(row_of: Mapping[str, int], lists: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    rows = lists.to_pylist()
    table = np.full((len(rows), max(map(len, rows), default=0)), -1, np.int64)
    for row, ids in enumerate(rows):
        table[row, : len(ids)] = [row_of[id_] for id_ in ids]
    return table
