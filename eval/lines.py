"""Lines of a report: coreference, clusters across documents, and other counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import numpy as np
import numpy.typing as npt

from .arrays import BoolArray, FloatArray, IntArray, Labels, encode_labels
from .clustering import adjusted_rand_from_pairs, pair_counts_from_contingency
from .contingency import Contingency
from .coreference import Counts, Metric, counts_from_contingency
from .figures import Figure, OfClusters, Summed
from .ratio import divide, f_measure, nan_to_zero, proportion
from .uncertainty import Ratio, Resampling, half_samples


@dataclass(frozen=True)
class Line:
    """A line of a report: a score, and the ratios and counts behind it."""

    name: str  # such as MUC, accuracy or ARI
    score: Figure  # the main score, such as F1, accuracy or ARI
    recall: Figure | None = None
    precision: Figure | None = None
    over: str = ""  # what was counted, such as `743 of 960 with a concept`

    @classmethod
    def of_counts(cls, name: str, counts: npt.ArrayLike, *, over: str = "") -> Self:
        """Make a line with recall, precision and F1 from the counts of each document.

        ``counts`` has the shape (documents, 4): numerator and denominator of recall, then of precision. Raise
        ValueError if the counts have another shape, a count is not finite, or a numerator exceeds its denominator.

        >>> line = Line.of_counts("NIL", [[1, 2, 1, 1], [1, 2, 1, 3]])
        >>> line.recall.value, line.precision.value, line.score.value
        (0.5, 0.5, 0.5)
        """
        table = np.asarray(counts, np.float64)
        if table.ndim != 2 or table.shape[1] != 4:
            raise ValueError(f"counts has shape {table.shape}, not (documents, 4)")
        recall, precision = Summed(table[:, :2], proportion), Summed(table[:, 2:], proportion)
        return cls(name, Summed(table, f_measure), recall, precision, over)


_CONLL: tuple[Metric, ...] = ("muc", "b3", "ceafe")
_NAMES: dict[Metric, str] = {"muc": "MUC", "b3": "B-cubed", "ceafm": "CEAF-m", "ceafe": "CEAF-e", "lea": "LEA"}


def coreference_lines(documents: Sequence[Mapping[str, Counts]]) -> list[Line]:
    """Make the lines of MUC, B-cubed, CEAF-m, CEAF-e, LEA, BLANC and CoNLL F1 from the counts of each document.

    The values are those of `scores_from_counts` for the sum of the documents. Raise TypeError if ``documents`` is a
    mapping.

    >>> from eval.coreference import coreference_counts
    >>> same, apart = [["a", "b"]], [["a"], ["b"]]
    >>> lines = coreference_lines([coreference_counts(same, same), coreference_counts(same, apart)])
    >>> {line.name: round(line.score.value, 4) for line in lines if line.name in ("MUC", "LEA", "CoNLL")}
    {'MUC': 0.6667, 'LEA': 0.5, 'CoNLL': 0.7302}
    """
    if isinstance(documents, Mapping):
        kind = type(documents).__name__
        raise TypeError(f"documents is of type {kind}; give a list of counts per document, [counts] for one document")

    def table(*metrics: Metric, width: int = 4) -> FloatArray:
        rows = [[count for metric in metrics for count in document[metric]] for document in documents]
        return np.array(rows, np.float64).reshape(len(documents), width * len(metrics))

    def blanc(ratio: Ratio) -> Summed:
        return Summed(table("blanc", width=8), _blanc(ratio))

    return [
        *(Line.of_counts(name, table(metric)) for metric, name in _NAMES.items()),
        Line("BLANC", blanc(f_measure), blanc(_recall), blanc(_precision)),
        Line("CoNLL", Summed(table(*_CONLL), conll_f1)),
    ]


def conll_f1(counts: FloatArray) -> FloatArray:
    """Return the mean F1 of MUC, B-cubed and CEAF-e from 12 columns: for each, the four columns of `f_measure`.

    >>> conll_f1(np.array([1, 1, 1, 1, 1, 2, 1, 2, 0, 0, 0, 0]))
    array(0.5)
    """
    scores = f_measure(counts.reshape(*counts.shape[:-1], 3, 4))
    return np.where(np.isnan(scores).all(axis=-1), np.nan, nan_to_zero(scores).mean(axis=-1))


def _blanc(ratio: Ratio) -> Ratio:
    """Return a function for the mean of a ratio over the kinds of link in the key, coreferent or not."""

    def mean(counts: FloatArray) -> FloatArray:
        links = counts.reshape(*counts.shape[:-1], 2, 4)
        is_in_key = links[..., 1] > 0
        return divide(np.where(is_in_key, nan_to_zero(ratio(links)), 0).sum(axis=-1), is_in_key.sum(axis=-1))

    return mean


def _recall(counts: FloatArray) -> FloatArray:
    return proportion(counts[..., :2])


def _precision(counts: FloatArray) -> FloatArray:
    return proportion(counts[..., 2:])


def cluster_lines(labels_true: Labels, labels_pred: Labels, document: Labels, *, singletons: bool = True) -> list[Line]:
    """Make the lines of ARI and of `coreference_lines` for clusters across documents.

    Each argument holds a label for each mention: its true cluster, its predicted cluster and its document. The errors
    are those of `clustering_scores`. Without ``singletons``, clusters of one mention are removed from
    either side (see `without_singletons`), and ARI is left out, since it needs the same mentions on both sides. An
    interval takes long for a million mentions, since it scores half of them for every half-sample; `Report.of` with
    ``how=None`` leaves intervals out.

    >>> lines = cluster_lines([0, 0, 1, 1], [0, 0, 1, 2], ["a", "a", "b", "b"])
    >>> {line.name: round(line.score.value, 4) for line in lines if line.name in ("ARI", "B-cubed", "CoNLL")}
    {'ARI': 0.5714, 'B-cubed': 0.8571, 'CoNLL': 0.7302}
    """
    true, pred, where = (
        encode_labels(labels, name=name).codes
        for labels, name in ((labels_true, "labels_true"), (labels_pred, "labels_pred"), (document, "document"))
    )
    if not len(true) == len(pred) == len(where):
        lengths = f"labels_true has length {len(true)}, labels_pred {len(pred)} and document {len(where)}"
        raise ValueError(f"{lengths}; give one value for each mention")
    if not singletons:
        true, pred = without_singletons(true, pred)
    return lines_of_codes(true, pred, where, ari=singletons)


def without_singletons(true: IntArray, pred: IntArray) -> tuple[IntArray, IntArray]:
    """Replace the code of each cluster of one mention by -1, on either side.

    coval does so without `keep_singletons`, and the CorefUD scorer by default.

    >>> without_singletons(np.array([0, 0, 1]), np.array([0, 1, 1]))
    (array([ 0,  0, -1]), array([-1,  1,  1]))
    """
    true, pred = (np.where(np.bincount(codes)[codes] > 1, codes, -1) for codes in (true, pred))
    return true, pred


def lines_of_codes(true: IntArray, pred: IntArray, document: IntArray, *, ari: bool) -> list[Line]:
    """Make the lines of `cluster_lines` from codes; -1 means that the mention is on the other side only."""

    def of(drawn: BoolArray) -> list[Line]:
        table = Contingency.from_codes(true[drawn], pred[drawn])
        value = [adjusted_rand_from_pairs(pair_counts_from_contingency(table))] if ari else []
        agreement = [Line("ARI", Summed(np.array([value]), lambda counts: counts[..., 0]))] if ari else []
        return agreement + coreference_lines([counts_from_contingency(table)])

    return resampled(true, document, of)


def resampled(true: IntArray, document: IntArray, lines_of: Callable[[BoolArray], list[Line]]) -> list[Line]:
    """Return the lines of all mentions; intervals and tests call ``lines_of`` with random halves of the documents."""

    def scores(lines: list[Line]) -> list[float]:
        return [line.score.value if line.score.is_defined else np.nan for line in lines]

    @cache
    def halves(how: Resampling) -> FloatArray:
        drawn = (half[document] for half in half_samples(int(document.max(initial=-1)) + 1, how))
        return np.array([scores(lines_of(half)) for half in drawn])

    def figure(place: int, value: float) -> OfClusters:
        return OfClusters(true, document, value, lambda how: halves(how)[:, place])

    whole = lines_of(np.ones(len(true), np.bool_))
    values = zip(whole, scores(whole), strict=True)
    return [replace(line, score=figure(place, value)) for place, (line, value) in enumerate(values)]
