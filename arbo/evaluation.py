"""Scores of a result against the gold annotations of its mentions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.documents import Corpus
from arbo.errors import UsageError
from eval import (
    ClusteringScores,
    Contingency,
    CoreferenceScores,
    Line,
    LinkingCounts,
    LinkingOutcomes,
    LinkingScores,
    NilCurve,
    NilScores,
    Report,
    Resampling,
    Summed,
    cluster_lines,
    clustering_scores,
    counts_from_contingency,
    gold_is_nil,
    linking_outcomes,
    nil_as_class,
    nil_curve,
    nil_scores,
    proportion,
    scores_from_counts,
)

if TYPE_CHECKING:
    from arbo.documents import Document
    from arbo.result import Result

RECALL_AT = (1, 2, 4, 8, 16, 32, 64)
_RECALL_SHOWN = (4, 16, 64)
_RECALL_WITH_NIL_SHOWN = (1, 64)
_USUAL = Resampling()
MOST_WITH_INTERVALS = 50_000
"""Mentions above which the scores of clusters have no intervals: each is hundreds of passes over half of them."""

Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Classes: TypeAlias = "list[frozenset[str] | None]"


@dataclass(frozen=True, slots=True)
class Gold:
    """Gold annotations as arrays, with the entities that occur in them numbered."""

    entity: dict[str, int]
    """Number of each entity id that is gold, predicted or a candidate."""
    indptr: Ints
    indices: Ints
    """Entities accepted for each mention; -1 for an id outside the knowledge base."""
    annotated: Bools
    classes: Classes
    """Set of gold ids of each mention, those in the knowledge base by its own ids; None without an id."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well mentions were linked, called NIL, and clustered; None where that does not apply."""

    mentions: int
    linking: LinkingScores | None
    nil: NilScores | None
    nil_curve: NilCurve | None
    """NIL by a threshold on the nearest entity's similarity alone, at every threshold."""
    clustering: ClusteringScores | None
    """Agreement of the clusters with the sets of gold ids, over the mentions that have one."""
    clustering_unseen: ClusteringScores | None
    """The same over the mentions whose gold ids training did not have (ALL/UNSEEN of the ArboEL paper, section 3.5)."""
    coreference: CoreferenceScores | None
    with_nil: LinkingCounts | None
    """Links and NIL decisions together, over all annotated mentions: NIL is a class beside the entities."""
    clustered: int
    """Mentions that clustering and coreference are over."""
    lines: tuple[Line, ...]
    """The headline figures; each knows how uncertain it is."""

    @property
    def accuracy_with_nil(self) -> float | None:
        """Share of the annotated mentions that are linked to a gold entity, or are NIL and called so."""
        return self.with_nil.accuracy if self.with_nil else None

    def report(self, name: str = "", how: Resampling | None = _USUAL) -> Report:
        """Return the headline figures as a table, under a name, with intervals unless ``how`` is None."""
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
        return str(self.report()) if self.lines else "nothing to score: no mention has a gold annotation"


def evaluate(result: Result, *, train: Iterable[Document] | None = None, classes: Classes | None = None) -> Evaluation:
    """Score a result; see `Result.evaluate`.

    Args:
        result: what was linked or discovered.
        train: see `Result.evaluate`.
        classes: what the mentions are of, for clusters, where not as the result's own knowledge base names it.

    """
    gold = gold_of(result)
    document = _codes(result.mention_table["document_id"])
    seen = None if train is None else _seen(result, gold, train)
    classes = gold.classes if classes is None else classes
    links = _Links()
    if result.manifest["knowledge_base"] is not None and gold.annotated.any():
        links = _score_links(result, gold, document, seen)
    clusters = _Clusters()
    known = np.array([ids is not None for ids in classes], np.bool_)
    if known.any():
        clusters = _score_clusters(_codes(result.link_table["cluster_id"]), classes, known, document, seen)
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


def evaluate_together(
    results: Mapping[str, Result], *, train: Iterable[Document] | None = None
) -> dict[str, Evaluation]:
    """Score several results of the same documents so that they can be compared, linked or discovered.

    What the mentions are of, for clusters, is what the first result with a knowledge base says: it may know that two
    gold ids are of one entity.

    Raises:
        UsageError: the results are of other mentions, or of other gold annotations.

    """
    name, first = next(iter(results.items()))
    for other, result in results.items():
        for column in ("mention_id", "document_id", "gold"):
            if result.mention_table[column] != first.mention_table[column]:
                raise UsageError(f"{name} and {other} differ in {column}; only results of the same documents compare")
    with_kb = (result for result in results.values() if result.manifest["knowledge_base"] is not None)
    classes = gold_of(next(with_kb, first)).classes if len(results) > 1 else None
    documents = None if train is None else list(train)
    return {name: evaluate(result, train=documents, classes=classes) for name, result in results.items()}


def compare(
    results: Mapping[str, Result], *, train: Iterable[Any] | None = None, how: Resampling | None = _USUAL
) -> Report:
    """Put the scores of several results of the same documents side by side, each tested against the first.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> with_kb, without = arbo.Linker(kb).link(documents), arbo.Linker().discover(documents)
    >>> report = compare({"linked": with_kb, "discovered": without})
    >>> report.systems["discovered"]["ARI"].comparison.difference < 0
    True

    Args:
        results: by name.
        train: documents whose gold entities count as seen.
        how: how uncertainty is found; None for no tests.

    Raises:
        UsageError: the results are of other mentions, or of other gold annotations.

    """
    evaluations = evaluate_together(results, train=None if train is None else Corpus.of(train))
    return Report.of({name: evaluation.lines for name, evaluation in evaluations.items()}, how=how)


class _Links(NamedTuple):
    linking: LinkingScores | None = None
    nil: NilScores | None = None
    nil_curve: NilCurve | None = None
    with_nil: LinkingCounts | None = None
    lines: tuple[Line, ...] = ()


def _score_links(result: Result, gold: Gold, document: Ints, seen: Bools | None) -> _Links:
    predicted = _numbers(gold.entity, result.link_table["entity_id"])
    candidates = _candidates(gold.entity, result.link_table["candidates"])
    given = {"type", "domain"} & set(result.mention_table.column_names)  # runs of an earlier arbo have no domain
    groups = {name: result.mention_table[name].to_pylist() for name in sorted(given, reverse=True)}
    outcomes = linking_outcomes(gold.indptr, gold.indices, predicted, annotated=gold.annotated, candidates=candidates)
    ks = [k for k in RECALL_AT if k <= candidates.shape[1]]
    linking = LinkingScores.of(outcomes, k=ks, seen=seen, groups=groups)
    is_nil = gold_is_nil(gold.indptr, gold.indices, annotated=gold.annotated)
    curve = nil_curve(is_nil, _best_scores(result), annotated=gold.annotated)
    with_nil = nil_as_class(outcomes, predicted < 0)
    return _Links(
        linking,
        nil_scores(is_nil, predicted < 0, annotated=gold.annotated),
        curve,
        with_nil.count(k=ks),
        (
            *_linking_lines(outcomes, document, groups, seen),
            *_nil_lines(with_nil, is_nil, predicted < 0, document, curve),
        ),
    )


class _Clusters(NamedTuple):
    clustering: ClusteringScores | None = None
    unseen: ClusteringScores | None = None
    coreference: CoreferenceScores | None = None
    lines: tuple[Line, ...] = ()


def _score_clusters(cluster: Ints, classes: Classes, known: Bools, document: Ints, seen: Bools | None) -> _Clusters:
    number: dict[frozenset[str], int] = {}
    truth = np.array([-1 if ids is None else number.setdefault(ids, len(number)) for ids in classes])
    lines = _cluster_lines(truth, cluster, document, known, "")
    unseen = None
    if seen is not None and (known & ~seen).any():
        unseen = clustering_scores(truth[known & ~seen], cluster[known & ~seen])
        lines += _cluster_lines(truth, cluster, document, known & ~seen, ", unseen")[:1]
    table = Contingency.from_labels(truth[known], cluster[known])
    return _Clusters(
        clustering_scores(truth[known], cluster[known]),
        unseen,
        scores_from_counts(counts_from_contingency(table)),
        tuple(lines),
    )


def _linking_lines(
    outcomes: LinkingOutcomes, document: Ints, groups: Mapping[str, list[str | None]], seen: Bools | None
) -> list[Line]:
    def line(name: str, right: Bools, among: Bools, what: str) -> Line:
        over = f"{int((right & among).sum()):,} of {int(among.sum()):,} {what}"
        return Line(name, _share(right & among, among, document), over=over)

    assert outcomes.rank is not None
    concept, correct = outcomes.concept, outcomes.correct
    lines = [
        line("accuracy", correct, concept, "with a concept"),
        line("accuracy in KB", correct, outcomes.in_kb, "in the KB"),
        line("accuracy normalised", correct, concept & (outcomes.rank < outcomes.width), "among the candidates"),
    ]
    lines += [
        line(f"recall@{k}", outcomes.rank < k, concept, "with a concept") for k in _RECALL_SHOWN if k <= outcomes.width
    ]
    if seen is not None:
        lines += [line("accuracy, seen", correct, concept & seen, "in training")]
        lines += [line("accuracy, unseen", correct, concept & ~seen, "not in training")]
    lines += [
        macro for name, labels in groups.items() if (macro := _macro_line(name, labels, correct, concept, document))
    ]
    return lines


def _macro_line(name: str, labels: list[str | None], correct: Bools, concept: Bools, document: Ints) -> Line | None:
    """Make the line of a mean over groups; None where there are fewer than two."""
    found = {label for label, has_one in zip(labels, concept, strict=True) if has_one and label is not None}
    if len(found) < 2:
        return None
    number: dict[str | None, int] = {label: i for i, label in enumerate(sorted(found))}
    group = np.array([number.get(label, -1) for label in labels])
    grouped = concept & (group >= 0)
    counts = [_per_document_and_kind(chosen, document, group, len(number)) for chosen in (grouped & correct, grouped)]
    return Line(
        f"accuracy by {name}", Summed(np.hstack(counts), _mean_proportion), over=f"mean over {len(number)} {name}s"
    )


def _nil_lines(with_nil: LinkingOutcomes, is_nil: Bools, called: Bools, document: Ints, curve: NilCurve) -> list[Line]:
    assert with_nil.rank is not None
    annotated = with_nil.annotated
    ks = [k for k in _RECALL_WITH_NIL_SHOWN if k <= with_nil.width]
    right = is_nil & called & annotated
    counts = np.column_stack([right, is_nil & annotated, right, called & annotated])
    over = f"{int(counts[:, 3].sum()):,} called NIL, {int(counts[:, 1].sum()):,} are"
    decisions = f"of {int(annotated.sum()):,} links and NIL decisions"
    return [
        Line("accuracy with NIL", _share(with_nil.correct, annotated, document), over=decisions),
        *(Line(f"recall@{k} with NIL", _share(with_nil.rank < k, annotated, document), over=decisions) for k in ks),
        Line.of_counts(
            "NIL", _per_document(counts, document), over=f"{over}; area by threshold {curve.average_precision:.3f}"
        ),
    ]


def _cluster_lines(truth: Ints, cluster: Ints, document: Ints, chosen: Bools, suffix: str) -> list[Line]:
    if not chosen.any():
        return []
    over = f"{int(chosen.sum()):,} mentions with gold ids"
    if chosen.sum() > MOST_WITH_INTERVALS:
        document = np.zeros_like(document)  # with one document there is no interval
        over += f"; no interval above {MOST_WITH_INTERVALS:,}"
    ari, *others = cluster_lines(truth[chosen], cluster[chosen], document[chosen])
    return [Line(ari.name + suffix, ari.score, over=over), *others]


def _share(right: Bools, among: Bools, document: Ints) -> Summed:
    return Summed(_per_document(np.column_stack([right, among]), document), proportion)


def _per_document(flags: Bools, document: Ints) -> npt.NDArray[np.float64]:
    """Count the columns of flags, (mentions, columns), in each document; (documents, columns)."""
    n = int(document.max(initial=-1)) + 1
    return np.column_stack([np.bincount(document, column, minlength=n) for column in flags.T])


def _per_document_and_kind(chosen: Bools, document: Ints, kind: Ints, n_kinds: int) -> npt.NDArray[np.float64]:
    """Count the mentions that a boolean each chooses; (documents, kinds)."""
    n = int(document.max(initial=-1)) + 1
    counts = np.bincount(document[chosen] * n_kinds + kind[chosen], minlength=n * n_kinds)
    return counts.reshape(n, n_kinds).astype(np.float64)


def _mean_proportion(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean over groups of the first half of the columns as shares of the second; groups without any are left out."""
    right, among = np.split(counts, 2, axis=-1)
    share = np.divide(right, among, out=np.zeros_like(among), where=among > 0)
    n_groups = (among > 0).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        mean: npt.NDArray[np.float64] = share.sum(axis=-1) / n_groups
    return mean


def _codes(ids: pa.ChunkedArray) -> Ints:
    codes: Ints = ids.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes


def _best_scores(result: Result) -> npt.NDArray[np.float64]:
    """Similarity of the nearest entity of each mention, -inf where none was found."""
    scores = result.link_table["candidate_scores"]
    best = pc.list_element(
        pc.if_else(pc.equal(pc.list_value_length(scores), 0), pa.scalar([-np.inf], scores.type), scores), 0
    )
    values: npt.NDArray[np.float64] = best.to_numpy().astype(np.float64)
    return values


def gold_of(result: Result) -> Gold:
    """Read the gold annotations of a result's mentions."""
    as_annotated = result.mention_table["gold"].to_pylist()
    in_kb = result.mention_table["gold_entities"].to_pylist()
    ids = pc.unique(
        pa.concat_arrays(
            [
                pc.list_flatten(result.mention_table["gold_entities"]).combine_chunks(),
                result.link_table["entity_id"].drop_null().combine_chunks(),
                pc.list_flatten(result.link_table["candidates"]).combine_chunks(),
            ]
        )
    )
    entity = {id_: number for number, id_ in enumerate(ids.to_pylist())}
    rows = [
        [entity[id_] for id_ in inside] or ([-1] if ids else [])
        for ids, inside in zip(as_annotated, in_kb, strict=True)
    ]
    return Gold(
        entity,
        np.cumsum([0, *map(len, rows)]),
        np.array([number for row in rows for number in row], np.int64),
        np.array([ids is not None for ids in as_annotated], np.bool_),
        [frozenset(inside or ids) if ids else None for ids, inside in zip(as_annotated, in_kb, strict=True)],
    )


def _numbers(entity: dict[str, int], ids: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.array([-1 if id_ is None else entity[id_] for id_ in ids.to_pylist()], np.int64)


def _candidates(entity: dict[str, int], lists: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    rows = lists.to_pylist()
    table = np.full((len(rows), max(map(len, rows), default=0)), -1, np.int64)
    for row, ids in enumerate(rows):
        table[row, : len(ids)] = [entity[id_] for id_ in ids]
    return table


def _seen(result: Result, gold: Gold, train: Iterable[Document]) -> npt.NDArray[np.bool_]:
    """Mentions with a gold id that some training mention has, be it under an alternative id."""
    as_annotated = result.mention_table["gold"].to_pylist()
    in_kb = result.mention_table["gold_entities"].to_pylist()
    own_id = {ids[0]: inside[0] for ids, inside in zip(as_annotated, in_kb, strict=True) if ids and len(inside) == 1}
    trained = {id_ for document in train for mention in document.mentions for id_ in mention.gold or ()}
    trained |= {own_id[id_] for id_ in trained if id_ in own_id}
    return np.array(
        [
            not trained.isdisjoint(ids or ()) or not trained.isdisjoint(own or ())
            for ids, own in zip(as_annotated, gold.classes, strict=True)
        ],
        np.bool_,
    )
