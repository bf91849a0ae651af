"""Metrics for coreference, clustering, entity linking and NIL: arrays in, results out.

>>> from eval import clustering_scores, coreference_scores, linking_scores
>>> key = [["Paris", "the capital"], ["France", "the country"]]
>>> response = [["Paris", "the capital", "France"], ["the country"]]
>>> scores = coreference_scores(key, response)
>>> scores["b3"]["recall"], scores["b3"]["counts"]
(0.75, [3.0, 4, 2.6666666666666665, 4])
>>> clustering_scores([0, 0, 1, 1], [5, 5, 5, 6])["ari"]
0.0
>>> linking_scores([0, 1, 2], [7, 3], [7, 4]).accuracy
0.5

Truth comes before prediction in every signature. Metrics whose counts can be added over documents are computed as
counts first, and then as ratios. The ratio 0/0 counts as 0.
"""

from .clustering import ClusteringScores, PairCounts, adjusted_rand_index, clustering_scores
from .contingency import Contingency
from .coreference import (
    CoreferenceCounts,
    CoreferenceScores,
    Score,
    coreference_counts,
    coreference_scores,
    counts_from_contingency,
    scores_from_counts,
)
from .cuts import Curves, Cuts, all_cuts
from .figures import Comparison, Figure, Interval, Resampling, Summed
from .lines import Line, cluster_lines, coreference_lines
from .linking import LinkingCounts, LinkingOutcomes, LinkingScores, MacroScores, linking_outcomes, linking_scores
from .nil import BestThreshold, NilScores, ThresholdCurve, nil_as_class, nil_curve, nil_scores, threshold_curve
from .ratio import f_measure, proportion
from .report import Report
from .spans import SpanCounts, SpanRatios, SpanScores, span_scores

# fmt: off
__all__ = [
    "BestThreshold", "ClusteringScores", "Comparison", "Contingency", "CoreferenceCounts",
    "CoreferenceScores", "Curves", "Cuts", "Figure", "Interval", "Line", "LinkingCounts",
    "LinkingOutcomes", "LinkingScores", "MacroScores", "NilScores", "PairCounts", "Report", "Resampling", "Score",
    "SpanCounts", "SpanRatios", "SpanScores", "Summed", "ThresholdCurve", "adjusted_rand_index", "all_cuts",
    "cluster_lines", "clustering_scores", "coreference_counts", "coreference_lines", "coreference_scores",
    "counts_from_contingency", "f_measure", "linking_outcomes", "linking_scores", "nil_as_class", "nil_curve",
    "nil_scores", "proportion", "scores_from_counts", "span_scores", "threshold_curve",
]
# fmt: on
