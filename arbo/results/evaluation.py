"""Scores of runs and of candidates against gold annotations, and the lines of a report with their counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo import engine
from arbo.data import RECALL_AT, Corpus, Gold, coded, rows_among
from arbo.engine import Bools, Ids, Line, LinkingCounts, LinkingScores, Report, Resampling, ThresholdCurve
from arbo.errors import UsageError, counted
from arbo.results.run import Run

_USUAL = Resampling()
_NOTHING = "nothing to score: no mention has a gold id or cluster; add `entities` or `cluster`, or --gold DOCS"
_COMPARED = {"mention_id": "mention ids", "document_id": "document ids", "gold": "gold ids or clusters"}
MOST_WITH_INTERVALS = 50_000
"""Above this number of mentions, cluster scores have no intervals, since each needs hundreds of passes over them."""


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation:
    """Scores of links, NIL decisions and clusters; a score that does not apply is None."""

    mentions: int
    linking: LinkingScores | None = None
    nil: engine.NilScores | None = None
    """NIL decisions of the run."""
    nil_curve: ThresholdCurve | None = None
    """NIL decisions by the similarity of the nearest entity alone, at every threshold on this similarity."""
    clustering: engine.ClusteringScores | None = None
    """Agreement of the clusters with the gold classes, over the mentions with a gold id or cluster."""
    clustering_unseen: engine.ClusteringScores | None = None
    """`clustering` of the mentions whose gold entities are not in training (ALL/UNSEEN in ArboEL, section 3.5)."""
    coreference: engine.CoreferenceScores | None = None
    with_nil: LinkingCounts | None = None
    """Links and NIL decisions of all annotated mentions; NIL counts as one more entity."""
    clustered: int = 0
    """Number of mentions over which clustering and coreference are scored."""
    lines: tuple[Line, ...] = ()
    """The headline figures, with the counts for their intervals."""

    @property
    def accuracy_with_nil(self) -> float | None:
        """Share of the annotated mentions with a correct link or a correct NIL decision."""
        return self.with_nil.accuracy if self.with_nil else None

    def report(self, name: str = "", how: Resampling | None = _USUAL) -> Report:
        """Return the headline figures of the system ``name`` as a table, with intervals unless ``how`` is None.

        Scores of clusters of more than 50,000 mentions have no intervals.
        """
        return Report.of({name: self.lines}, how=how)

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by name, ready for JSON; those of NIL are None if no annotated mention is NIL."""
        curve, nil = self.nil_curve, self.nil if self.nil and self.nil.gold else None
        return {
            "mentions": self.mentions,
            "accuracy_with_nil": self.accuracy_with_nil,
            "recall_with_nil": self.with_nil.recall if self.with_nil else None,
            "linking": self.linking.as_dict() if self.linking else None,
            "nil": nil.as_dict() if nil else None,
            "nil_by_threshold": {"average_precision": curve.average_precision, "best": curve.best._asdict()}
            if curve and nil and nil.gold < nil.mentions
            else None,
            "clustering": dict(self.clustering) if self.clustering else None,
            "clustering_unseen": dict(self.clustering_unseen) if self.clustering_unseen else None,
            "coreference": dict(self.coreference) if self.coreference else None,
            "clustered_mentions": self.clustered,
        }

    def __str__(self) -> str:
        return str(self.report()) if self.lines else _NOTHING

    def __repr__(self) -> str:  # without intervals, which take time
        return str(self.report(how=None)) if self.lines else _NOTHING

    def _repr_html_(self) -> str:
        return self.report(how=None)._repr_html_() if self.lines else _NOTHING


def evaluate(
    run: Run,
    *,
    train: Iterable[Any] | None = None,
    classes: Ids | None = None,
    per_document: bool = False,
    singletons: bool = True,
) -> Evaluation:
    """Score a run; see `Result.evaluate`.

    ``classes``, of shape (mentions,), are the gold classes against which clusters are scored, -1 for none; by default
    `Gold.classes` with the run's own knowledge base.
    """
    gold, ids = gold_of(run)
    document = coded(run.mention_table["document_id"])[0]
    seen = None if train is None else gold.seen(Corpus.of(train))
    classes = gold.classes if classes is None else classes
    figures: dict[str, Any] = {"lines": ()}
    if run.manifest["knowledge_base"] is not None and gold.annotated.any():
        figures = _of_links(run, gold, ids, document, seen)
    if (classes >= 0).any():
        clusters, how = coded(run.link_table["cluster_id"])[0], {"per_document": per_document, "singletons": singletons}
        of_clusters = _of_clusters(clusters, classes, document, seen, **how)
        figures |= {**of_clusters, "lines": (*figures["lines"], *of_clusters["lines"])}
    return Evaluation(len(classes), **figures)


def evaluate_together(runs: Mapping[str, Run], *, train: Corpus | None = None, **how: bool) -> dict[str, Evaluation]:
    """Score several runs of the same documents with the same gold classes: those of the first with a knowledge base.

    For ``how`` see `evaluate`. Raise UsageError if the runs have different mentions or gold annotations, or are none.
    """
    if not runs:
        raise UsageError("there are no results to compare; give one or more by name")
    name, first = next(iter(runs.items()))
    for other, run in runs.items():
        for column, what in _COMPARED.items():
            one, its = (of.gold_labels if column == "gold" else of.mention_table[column] for of in (first, run))
            if one != its:
                wrong = f"{name} and {other} differ in {what}; compare only results of the same documents and mentions,"
                raise UsageError(f"{wrong} or, if arbo found the mentions, give `arbo evaluate` the option --gold")
    with_kb = (run for run in runs.values() if run.manifest["knowledge_base"] is not None)
    classes = gold_of(next(with_kb, first))[0].classes if len(runs) > 1 else None
    return {name: evaluate(run, train=train, classes=classes, **how) for name, run in runs.items()}


def compare(
    results: Mapping[str, Run], *, train: Iterable[Any] | None = None, how: Resampling | None = _USUAL
) -> Report:
    """Compare the scores of several results of the same documents, and test each against the first.

    ``train`` are documents whose gold entities count as seen. With ``how=None``, there are no intervals and no tests.
    Raise UsageError if the results have different mentions or gold annotations, or there are none.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> with_kb, without = arbo.Linker(kb).link(documents), arbo.Linker().discover(documents)
    >>> report = compare({"linked": with_kb, "discovered": without})
    >>> report.systems["discovered"]["ARI"].comparison.difference < 0
    True
    """
    evaluations = evaluate_together(results, train=None if train is None else Corpus.of(train))
    return Report.of({name: evaluation.lines for name, evaluation in evaluations.items()}, how=how)


def _of_links(run: Run, gold: Gold, ids: pa.ChunkedArray, document: Ids, seen: Bools | None) -> dict[str, Any]:
    """Return the fields of an `Evaluation` that are about links and NIL decisions."""
    predicted, lists = _linked_rows(run, gold, ids), run.link_table["candidates"]
    length = pc.list_value_length(lists).to_numpy()[:, None]
    candidates = np.full((len(length), length.max(initial=0)), -1, np.int64)
    candidates[np.arange(candidates.shape[1]) < length] = rows_among(pc.list_flatten(lists), ids)
    groups = {name: run.mention_table[name].to_pylist() for name in ("type", "domain")}
    outcomes = engine.linking_outcomes(*gold.accepted, predicted, annotated=gold.annotated, candidates=candidates)
    ks = [k for k in RECALL_AT if k <= candidates.shape[1]]
    is_nil = gold.is_nil
    curve = engine.nil_curve(is_nil, best_scores(run), annotated=gold.annotated)
    with_nil = engine.nil_as_class(outcomes, predicted < 0)
    lines = _nil_lines(with_nil, is_nil, predicted < 0, document, curve)
    return {
        "linking": LinkingScores.of(outcomes, k=ks, seen=seen, groups=groups),
        "nil": engine.nil_scores(is_nil, predicted < 0, annotated=gold.annotated),
        "nil_curve": curve,
        "with_nil": with_nil.count(k=ks),
        "lines": (*_linking_lines(outcomes, document, groups, seen), *lines),
    }


def _linked_rows(run: Run, gold: Gold, ids: pa.ChunkedArray) -> Ids:
    """Return the row of each link's entity, -1 for NIL; of several entities, of one that is right if any is."""
    linked = run.link_table["entity_id"]
    rows = rows_among(linked, ids)
    for id_, parts in run.several.items():
        several = rows_among(pa.chunked_array([parts]), ids).tolist()
        for mention in pc.indices_nonzero(pc.equal(linked, id_).combine_chunks()).to_pylist():
            right = gold.rows[slice(*gold.indptr[mention : mention + 2])]
            rows[mention] = next((row for row in several if row in right), rows[mention])
    return rows


def _of_clusters(
    cluster: Ids, truth: Ids, document: Ids, seen: Bools | None, *, per_document: bool, singletons: bool
) -> dict[str, Any]:
    """Return the fields of an `Evaluation` that are about clusters."""
    n = int((known := truth >= 0).sum())
    parts = document[known] if per_document else np.zeros(n, np.int64)
    counts = _counts_by_document(truth[known], cluster[known], parts, singletons=singletons)
    scored = {"coreference": engine.scores_from_counts(sum(counts[1:], counts[0])), "clustered": n}
    if per_document:
        first, *others = engine.coreference_lines(counts)
        lines = [replace(first, over=f"{counted(n, 'mentions')} with gold ids, within documents"), *others]
    else:
        lines = _cluster_lines(truth, cluster, document, known, "", singletons=singletons)
    if singletons and not per_document:
        scored["clustering"] = engine.clustering_scores(truth[known], cluster[known])
        if seen is not None and (new := known & ~seen).any():
            scored["clustering_unseen"] = engine.clustering_scores(truth[new], cluster[new])
            lines += _cluster_lines(truth, cluster, document, new, ", unseen")[:1]
    return {**scored, "lines": lines}


def best_scores(run: Run) -> npt.NDArray[np.float64]:
    """Return the similarity of each mention's nearest entity, or -inf if it has none."""
    scores = run.link_table["candidate_scores"]
    first = pc.list_flatten(pc.list_slice(scores, 0, 1, return_fixed_size_list=True))  # null without any
    return np.asarray(pc.fill_null(first, -np.inf).to_numpy(), np.float64)


def gold_of(run: Run) -> tuple[Gold, pa.ChunkedArray]:
    """Return the gold annotations of a run, and the ids of gold entities, links and candidates by their number."""
    in_kb = run.mention_table["gold_entities"]
    every = pc.list_flatten(in_kb), run.entity_table["entity_id"]
    ids = pc.unique(pa.concat_arrays([ids.combine_chunks() for ids in every]))
    row_of = {id_: row for row, id_ in enumerate(ids.to_pylist())}
    gold = Gold.of_ids(run.mention_table["gold"].to_pylist(), run.gold_labels, in_kb.to_pylist(), row_of)
    return gold, pa.chunked_array([ids])


def _linking_lines(
    outcomes: engine.LinkingOutcomes, document: Ids, groups: Mapping[str, list[str | None]], seen: Bools | None
) -> list[Line]:
    """Return accuracy and recall of links: overall, for seen and unseen entities, and as means over groups."""
    assert outcomes.rank is not None
    concept, correct, rank = outcomes.concept, outcomes.correct, outcomes.rank
    shares = {
        "accuracy": (correct, concept, "with a gold id"),
        "accuracy in KB": (correct, outcomes.in_kb, "in the KB"),
        "accuracy normalised": (correct, concept & (rank < outcomes.width), "among the candidates"),
    }
    shares |= {f"recall@{k}": (rank < k, concept, "with a gold id") for k in (4, 16, 64) if k <= outcomes.width}
    if seen is not None:
        shares["accuracy, seen"] = correct, concept & seen, "in training"
        shares["accuracy, unseen"] = correct, concept & ~seen, "not in training"
    lines = []
    for name, (right, among, what) in shares.items():
        over = f"{int((right & among).sum()):,} of {int(among.sum()):,} {what}"
        lines.append(Line(name, _share(right & among, among, document), over=over))
    macro = (_macro_line(name, labels, correct, concept, document) for name, labels in groups.items())
    return [*lines, *filter(None, macro)]


def _macro_line(name: str, labels: list[str | None], correct: Bools, concept: Bools, document: Ids) -> Line | None:
    """Return the mean accuracy over groups, or None if there are fewer than two."""
    known = [mention for mention in np.flatnonzero(concept).tolist() if labels[mention] is not None]
    number, group = np.unique(np.array(labels, np.object_)[known], return_inverse=True)
    if len(number) < 2:
        return None
    counts = np.zeros((document.max() + 1, len(number), 2))
    np.add.at(counts, (document[known], group), np.column_stack([correct[known], concept[known]]))
    score = engine.Summed(counts.reshape(len(counts), -1), _mean_proportion)
    return Line(f"accuracy by {name}", score, over=f"mean over {len(number)} {name}s")


def _nil_lines(
    with_nil: engine.LinkingOutcomes, is_nil: Bools, called: Bools, document: Ids, curve: ThresholdCurve
) -> list[Line]:
    """Return the scores of NIL decisions, both alone and together with links."""
    assert with_nil.rank is not None
    annotated = with_nil.annotated
    ks = [k for k in (1, 64) if k <= with_nil.width]
    right = is_nil & called & annotated
    counts = np.column_stack([right, is_nil & annotated, right, called & annotated])
    n_gold, n = int(counts[:, 1].sum()), int(annotated.sum())
    over = f"{int(counts[:, 3].sum()):,} predicted, {n_gold:,} annotated"
    if 0 < n_gold < n:
        over += f"; average precision {curve.average_precision:.3f}"
    decisions = f"of {n:,} links and NIL decisions"
    return [
        Line("accuracy with NIL", _share(with_nil.correct, annotated, document), over=decisions),
        *(Line(f"recall@{k} with NIL", _share(with_nil.rank < k, annotated, document), over=decisions) for k in ks),
        Line.of_counts("NIL", _per_document(counts, document), over=over),
    ]


def _cluster_lines(
    truth: Ids, cluster: Ids, document: Ids, chosen: Bools, suffix: str, *, singletons: bool = True
) -> list[Line]:
    """Return the agreement of clusters with gold classes over the chosen mentions, of which there are some."""
    over = counted(int(chosen.sum()), "mentions with a gold id or cluster")
    if chosen.sum() > MOST_WITH_INTERVALS:
        document = np.zeros_like(document)  # with one document there is no interval
        over += f"; no interval above {MOST_WITH_INTERVALS:,}"
    first, *others = engine.cluster_lines(truth[chosen], cluster[chosen], document[chosen], singletons=singletons)
    return [replace(first, name=first.name + suffix, over=over), *others]


def _counts_by_document(truth: Ids, cluster: Ids, document: Ids, *, singletons: bool) -> list[engine.CoreferenceCounts]:
    """Count the agreement within each document: clusters across documents are split."""
    order = np.argsort(document, kind="stable")
    counts = []
    for rows in np.split(order, np.flatnonzero(np.diff(document[order])) + 1):
        both = truth[rows], cluster[rows]
        table = engine.Contingency.from_codes(*(both if singletons else engine.without_singletons(*both)))
        counts.append(engine.counts_from_contingency(table))
    return counts


def _share(right: Bools, among: Bools, document: Ids) -> engine.Summed:
    return engine.Summed(_per_document(np.column_stack([right, among]), document), engine.proportion)


def _per_document(flags: Bools, document: Ids) -> npt.NDArray[np.float64]:
    """Sum flags, (mentions, columns), by document; returns (documents, columns)."""
    n = int(document.max(initial=-1)) + 1
    return np.column_stack([np.bincount(document, column, minlength=n) for column in flags.T])


def _mean_proportion(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Divide each first of two columns by the second, and return the mean over non-empty groups."""
    share = engine.proportion(counts.reshape(*counts.shape[:-1], -1, 2))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nansum(share, axis=-1) / (~np.isnan(share)).sum(axis=-1))
