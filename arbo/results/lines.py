"""The headline figures of a run, with the counts from which their intervals are computed."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from arbo import engine
from arbo.data.gold import Bools, Ints
from arbo.engine import CoreferenceCounts, Line, LinkingOutcomes, Summed, ThresholdCurve

_RECALL_SHOWN = (4, 16, 64)
_RECALL_WITH_NIL_SHOWN = (1, 64)
MOST_WITH_INTERVALS = 50_000
"""Above this number of mentions, cluster scores have no intervals, since each needs hundreds of passes over them."""


def linking_lines(
    outcomes: LinkingOutcomes, document: Ints, groups: Mapping[str, list[str | None]], seen: Bools | None
) -> list[Line]:
    """Return accuracy and recall of links: overall, for seen and unseen entities, and as means over groups."""

    def line(name: str, right: Bools, among: Bools, what: str) -> Line:
        over = f"{int((right & among).sum()):,} of {int(among.sum()):,} {what}"
        return Line(name, _share(right & among, among, document), over=over)

    assert outcomes.rank is not None
    concept, correct = outcomes.concept, outcomes.correct
    lines = [
        line("accuracy", correct, concept, "with a gold id"),
        line("accuracy in KB", correct, outcomes.in_kb, "in the KB"),
        line("accuracy normalised", correct, concept & (outcomes.rank < outcomes.width), "among the candidates"),
    ]
    lines += [
        line(f"recall@{k}", outcomes.rank < k, concept, "with a gold id") for k in _RECALL_SHOWN if k <= outcomes.width
    ]
    if seen is not None:
        lines += [line("accuracy, seen", correct, concept & seen, "in training")]
        lines += [line("accuracy, unseen", correct, concept & ~seen, "not in training")]
    lines += [
        macro for name, labels in groups.items() if (macro := _macro_line(name, labels, correct, concept, document))
    ]
    return lines


def _macro_line(name: str, labels: list[str | None], correct: Bools, concept: Bools, document: Ints) -> Line | None:
    """Return the mean accuracy over groups, or None if there are fewer than two."""
    known = {label for label, has_one in zip(labels, concept, strict=True) if has_one and label is not None}
    if len(known) < 2:
        return None
    number: dict[str | None, int] = {label: i for i, label in enumerate(sorted(known))}
    group = np.array([number.get(label, -1) for label in labels])
    counts = np.zeros((document.max() + 1, 2, len(number)))
    for place, chosen in enumerate((concept & correct & (group >= 0), concept & (group >= 0))):
        np.add.at(counts, (document[chosen], place, group[chosen]), 1)
    score = Summed(counts.reshape(len(counts), -1), _mean_proportion)
    return Line(f"accuracy by {name}", score, over=f"mean over {len(number)} {name}s")


def nil_lines(
    with_nil: LinkingOutcomes, is_nil: Bools, called: Bools, document: Ints, curve: ThresholdCurve
) -> list[Line]:
    """Return the scores of NIL decisions, both alone and together with links."""
    assert with_nil.rank is not None
    annotated = with_nil.annotated
    ks = [k for k in _RECALL_WITH_NIL_SHOWN if k <= with_nil.width]
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


def cluster_lines(
    truth: Ints, cluster: Ints, document: Ints, chosen: Bools, suffix: str, *, singletons: bool = True
) -> list[Line]:
    """Return the agreement of clusters with gold classes, over the chosen mentions, of which there are some.

    Above `MOST_WITH_INTERVALS` mentions, there are no intervals.
    """
    over = f"{int(chosen.sum()):,} mentions with a gold id or cluster"
    if chosen.sum() > MOST_WITH_INTERVALS:
        document = np.zeros_like(document)  # with one document there is no interval
        over += f"; no interval above {MOST_WITH_INTERVALS:,}"
    first, *others = engine.cluster_lines(truth[chosen], cluster[chosen], document[chosen], singletons=singletons)
    return [replace(first, name=first.name + suffix, over=over), *others]


def counts_by_document(truth: Ints, cluster: Ints, document: Ints, *, singletons: bool) -> list[CoreferenceCounts]:
    """Count the agreement within each document: clusters across documents are split."""
    order = np.argsort(document, kind="stable")
    counts = []
    for rows in np.split(order, np.flatnonzero(np.diff(document[order])) + 1):
        true, predicted = truth[rows], cluster[rows]
        if not singletons:
            true, predicted = engine.without_singletons(true, predicted)
        counts.append(engine.counts_from_contingency(engine.Contingency.from_codes(true, predicted)))
    return counts


def _share(right: Bools, among: Bools, document: Ints) -> Summed:
    return Summed(_per_document(np.column_stack([right, among]), document), engine.proportion)


def _per_document(flags: Bools, document: Ints) -> npt.NDArray[np.float64]:
    """Sum flags, (mentions, columns), by document; returns (documents, columns)."""
    n = int(document.max(initial=-1)) + 1
    return np.column_stack([np.bincount(document, column, minlength=n) for column in flags.T])


def _mean_proportion(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Divide the first half of the columns by the second half, and return the mean over non-empty groups."""
    right, among = np.split(counts, 2, axis=-1)
    share = np.divide(right, among, out=np.zeros_like(among), where=among > 0)
    n_groups = (among > 0).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray(share.sum(axis=-1) / n_groups)
