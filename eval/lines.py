"""Lines of a report: coreference, clusters across documents, and other counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .arrays import FloatArray, IntArray, Labels, encode_labels
from .clustering import adjusted_rand, pair_counts_from_contingency
from .contingency import Contingency
from .coreference import METRICS, Counts, Metric
from .figures import Comparison, Figure, Interval, OfClusters, Ratio, Resampling, Summed, half_samples
from .ratio import divide, f_measure, nan_to_zero, proportion


@dataclass(frozen=True)
class Line:
    """A line of a report: a score, and the ratios and counts behind it; `Report.of` adds its uncertainty."""

    name: str  # such as MUC, accuracy or ARI
    score: Figure  # the main score, such as F1, accuracy or ARI
    recall: Figure | None = None
    precision: Figure | None = None
    over: str = ""  # what was counted, such as `743 of 960 with a concept`
    interval: Interval | None = None
    comparison: Comparison | None = None  # comparison with the first system
    method: dict[str, str] | None = None  # description of how interval and comparison are computed

    @classmethod
    def of_counts(cls, name: str, counts: npt.ArrayLike, *, over: str = "") -> Self:
        """Make a line with recall, precision and F1 from the counts of each document.

        ``counts`` has the shape (documents, 4): numerator and denominator of recall, then of precision. The F1 is not
        defined if there is nothing to recall. Raise ValueError for another shape, or if a count is not finite.

        >>> line = Line.of_counts("NIL", [[1, 2, 1, 1], [1, 2, 1, 3]])
        >>> line.recall.value, line.precision.value, line.score.value
        (0.5, 0.5, 0.5)
        """
        table = np.asarray(counts, np.float64)
        if table.ndim != 2 or table.shape[1] != 4:
            raise ValueError(f"counts has shape {table.shape}, not (documents, 4)")
        recall, precision = Summed(table[:, :2], proportion), Summed(table[:, 2:], proportion)
        return cls(name, Summed(table, f_measure), recall, precision, over)

    @property
    def stars(self) -> str:
        """One star for p < 0.05 against the first system, two stars for p < 0.01."""
        return "" if self.comparison is None else "*" * sum(self.comparison.p_value < limit for limit in (0.05, 0.01))

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, ready for JSON."""
        compared = self.comparison
        return {
            "score": _finite(self.score.score),
            "recall": None if self.recall is None else _finite(self.recall.score),
            "precision": None if self.precision is None else _finite(self.precision.score),
            "interval": None if self.interval is None else [*map(_finite, self.interval)],
            "against_first": None if compared is None else {k: _finite(v) for k, v in compared._asdict().items()},
            "over": self.over,
            "documents": self.score.n_documents,
            "method": self.method,
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


_TOGETHER = 1 << 18  # number of mentions of all halves that are counted at once, which bounds the memory
_CONLL: tuple[Metric, ...] = ("muc", "b3", "ceafe")
_NAMES: dict[Metric, str] = {"muc": "MUC", "b3": "B-cubed", "ceafm": "CEAF-m", "ceafe": "CEAF-e", "lea": "LEA"}


def coreference_lines(documents: Sequence[Mapping[str, Counts]]) -> list[Line]:
    """Make the lines of MUC, B-cubed, CEAF-m, CEAF-e, LEA, BLANC and CoNLL F1 from the counts of each document.

    The values are those of `scores_from_counts` for the sum of the documents.

    >>> from eval.coreference import coreference_counts
    >>> same, apart = [["a", "b"]], [["a"], ["b"]]
    >>> lines = coreference_lines([coreference_counts(same, same), coreference_counts(same, apart)])
    >>> {line.name: round(line.score.value, 4) for line in lines if line.name in ("MUC", "LEA", "CoNLL")}
    {'MUC': 0.6667, 'LEA': 0.5, 'CoNLL': 0.7302}
    """
    rows = {metric: np.array([document[metric] for document in documents], np.float64) for metric in METRICS}
    return _lines({metric: of.reshape(-1, 8 if metric == "blanc" else 4) for metric, of in rows.items()})


def _lines(counts: Mapping[Metric, FloatArray]) -> list[Line]:
    """Make the lines of `coreference_lines` from the counts of each metric, (documents, counts)."""
    parts: tuple[Ratio, ...] = f_measure, lambda of: proportion(of[..., :2]), lambda of: proportion(of[..., 2:])
    score, recall, precision = (Summed(counts["blanc"], _blanc(ratio)) for ratio in parts)
    return [
        *(Line.of_counts(name, counts[metric]) for metric, name in _NAMES.items()),
        Line("BLANC", score, recall, precision),
        Line("CoNLL", Summed(np.hstack([counts[metric] for metric in _CONLL]), conll_f1)),
    ]


def conll_f1(counts: FloatArray) -> FloatArray:
    """Return the mean F1 of MUC, B-cubed and CEAF-e from 12 columns: for each, the four columns of `f_measure`."""
    scores = f_measure(counts.reshape(*counts.shape[:-1], 3, 4))
    return np.where(np.isnan(scores).all(axis=-1), np.nan, nan_to_zero(scores).mean(axis=-1))


def _blanc(ratio: Ratio) -> Ratio:
    """Return a function for the mean of a ratio over the kinds of link in the key, coreferent or not."""

    def mean(counts: FloatArray) -> FloatArray:
        links = counts.reshape(*counts.shape[:-1], 2, 4)
        is_in_key = links[..., 1] > 0
        return divide(np.where(is_in_key, nan_to_zero(ratio(links)), 0).sum(axis=-1), is_in_key.sum(axis=-1))

    return mean


def cluster_lines(labels_true: Labels, labels_pred: Labels, document: Labels, *, singletons: bool = True) -> list[Line]:
    """Make the lines of ARI and of `coreference_lines` for clusters across documents.

    Each argument holds a label for each mention: its true cluster, its predicted cluster and its document. The errors
    are those of `clustering_scores`. ARI is not defined if all mentions are of one true cluster, or no two are. Without
    ``singletons``, clusters of one mention are removed from either side, and ARI is left out, since it needs the same
    mentions on both sides. An interval counts half of the mentions for every half-sample.

    >>> lines = cluster_lines([0, 0, 1, 1], [0, 0, 1, 2], ["a", "a", "b", "b"])
    >>> {line.name: round(line.score.value, 4) for line in lines if line.name in ("ARI", "B-cubed", "CoNLL")}
    {'ARI': 0.5714, 'B-cubed': 0.8571, 'CoNLL': 0.7302}
    """
    true, pred = encode_labels(labels_true, name="labels_true"), encode_labels(labels_pred, name="labels_pred")
    where = encode_labels(document, name="document")
    if not len(true) == len(pred) == len(where):
        lengths = f"labels_true has length {len(true)}, labels_pred {len(pred)} and document {len(where)}"
        raise ValueError(f"{lengths}; give one value for each mention")
    if not singletons:
        true, pred = without_singletons(true, pred)
    n_documents = int(where.max(initial=-1)) + 1
    has_both = 1 < np.bincount(true[true >= 0]).max(initial=0) < len(true)  # pairs of the same and of other clusters

    @cache
    def halves(how: Resampling) -> FloatArray:
        """Return the scores of each half, (halves, lines); 0 for 0/0."""
        drawn = half_samples(n_documents, how)
        parts = np.split(drawn, range(step := max(1, _TOGETHER // max(len(true), 1)), len(drawn), step))
        tables = map(Contingency.of_samples(true, pred, where), parts)
        figures = ([line.score for line in _of_table(table, singletons)] for table in tables)
        return nan_to_zero(np.concatenate([np.stack([one.ratio(one.counts) for one in of], axis=1) for of in figures]))

    def figure(place: int, line: Any) -> OfClusters:
        value = float(line.score.ratio(line.score.counts)[0]) if line.name != "ARI" or has_both else np.nan
        return OfClusters(true, where, n_documents, value, lambda how: halves(how)[:, place])

    lines = _of_table(Contingency.from_codes(true, pred), singletons)
    return [replace(line, score=figure(place, line)) for place, line in enumerate(lines)]


def without_singletons(true: IntArray, pred: IntArray) -> tuple[IntArray, IntArray]:
    """Replace the code of each cluster of one mention by -1, on either side, as coval and the CorefUD scorer can."""
    true, pred = (np.where(np.bincount(codes)[codes] > 1, codes, -1) for codes in (true, pred))
    return true, pred


def _of_table(table: Contingency, ari: bool) -> list[Any]:
    """Make the lines of a table; each sample of its documents counts as a document."""
    counts = {metric: np.column_stack([*map(np.atleast_1d, count(table))]) for metric, count in METRICS.items()}
    lines = _lines({metric: of.astype(np.float64) for metric, of in counts.items()})
    if not ari:
        return lines
    pairs = np.column_stack([*map(np.atleast_1d, pair_counts_from_contingency(table))])
    return [Line("ARI", Summed(pairs, lambda of: adjusted_rand(*np.moveaxis(of, -1, 0)))), *lines]
