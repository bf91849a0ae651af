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

Truth comes before prediction in every signature. Counts come before ratios: those of documents add.
A ratio of nothing to nothing is 0.
"""

from eval.clustering import (
    ClusteringScores,
    PairCounts,
    PairwiseScores,
    adjusted_mutual_information,
    adjusted_rand_index,
    clustering_scores,
    completeness,
    fowlkes_mallows,
    homogeneity,
    normalized_mutual_information,
    pair_counts,
    pairwise,
    rand_index,
    v_measure,
)
from eval.contingency import Contingency
from eval.coreference import (
    CoreferenceCounts,
    CoreferenceScores,
    Score,
    b_cubed,
    blanc,
    ceaf_e,
    ceaf_m,
    coreference_counts,
    coreference_scores,
    counts_from_contingency,
    lea,
    muc,
    scores_from_counts,
)
from eval.cuts import BestCut, Curves, CutMetric, Cuts, all_cuts, dendrogram_purity
from eval.linking import LinkingCounts, LinkingScores, linking_scores
from eval.nil import NilScores, gold_is_nil, nil_scores

__all__ = [
    "BestCut",
    "ClusteringScores",
    "Contingency",
    "CoreferenceCounts",
    "CoreferenceScores",
    "Curves",
    "CutMetric",
    "Cuts",
    "LinkingCounts",
    "LinkingScores",
    "NilScores",
    "PairCounts",
    "PairwiseScores",
    "Score",
    "adjusted_mutual_information",
    "adjusted_rand_index",
    "all_cuts",
    "b_cubed",
    "blanc",
    "ceaf_e",
    "ceaf_m",
    "clustering_scores",
    "completeness",
    "coreference_counts",
    "coreference_scores",
    "counts_from_contingency",
    "dendrogram_purity",
    "fowlkes_mallows",
    "gold_is_nil",
    "homogeneity",
    "lea",
    "linking_scores",
    "muc",
    "nil_scores",
    "normalized_mutual_information",
    "pair_counts",
    "pairwise",
    "rand_index",
    "scores_from_counts",
    "v_measure",
]
