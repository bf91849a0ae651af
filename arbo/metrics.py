"""The metrics, `eval`, as arbo uses them: safe from a module of that name that a user has, see `arbo.siblings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arbo.siblings import attribute

if TYPE_CHECKING:
    from eval import (
        ClusteredDocuments as ClusteredDocuments,
        ClusteringScores as ClusteringScores,
        Contingency as Contingency,
        CoreferenceScores as CoreferenceScores,
        DocumentCounts as DocumentCounts,
        FileFormatError as FileFormatError,
        Line as Line,
        LinkingCounts as LinkingCounts,
        LinkingOutcomes as LinkingOutcomes,
        LinkingScores as LinkingScores,
        NilCurve as NilCurve,
        NilScores as NilScores,
        PairedCounts as PairedCounts,
        Report as Report,
        Resampling as Resampling,
        SpanCounts as SpanCounts,
        SpanScores as SpanScores,
        Summed as Summed,
        all_cuts as all_cuts,
        cluster_lines as cluster_lines,
        clustering_scores as clustering_scores,
        coreference_by_document as coreference_by_document,
        coreference_lines as coreference_lines,
        counts_from_contingency as counts_from_contingency,
        linking_outcomes as linking_outcomes,
        linking_scores as linking_scores,
        nil_as_class as nil_as_class,
        nil_curve as nil_curve,
        nil_scores as nil_scores,
        plot_precision_recall as plot_precision_recall,
        plot_thresholds as plot_thresholds,
        plots as plots,
        proportion as proportion,
        read_clusters as read_clusters,
        read_conll as read_conll,
        report as report,
        scores_from_counts as scores_from_counts,
        span_scores as span_scores,
        threshold_curve as threshold_curve,
    )
    from eval.arrays import Brief as Brief
    from eval.conll import (
        BracketError as BracketError,
        Chains as Chains,
        columns_of as columns_of,
        is_comment as is_comment,
    )
    from eval.ratio import ratio as ratio
    from eval.report import Value as Value
    from eval.table import Cell as Cell, Table as Table

# The module of each name; it is imported when the name is first asked for.
_HOME = {
    "BracketError": "conll",
    "Brief": "arrays",
    "Cell": "table",
    "Chains": "conll",
    "ClusteredDocuments": "",
    "ClusteringScores": "",
    "Contingency": "",
    "CoreferenceScores": "",
    "DocumentCounts": "",
    "FileFormatError": "",
    "Line": "",
    "LinkingCounts": "",
    "LinkingOutcomes": "",
    "LinkingScores": "",
    "NilCurve": "",
    "NilScores": "",
    "PairedCounts": "",
    "Report": "",
    "Resampling": "",
    "SpanCounts": "",
    "SpanScores": "",
    "Summed": "",
    "Table": "table",
    "Value": "report",
    "all_cuts": "",
    "cluster_lines": "",
    "clustering_scores": "",
    "columns_of": "conll",
    "coreference_by_document": "",
    "coreference_lines": "",
    "counts_from_contingency": "",
    "is_comment": "conll",
    "linking_outcomes": "",
    "linking_scores": "",
    "nil_as_class": "",
    "nil_curve": "",
    "nil_scores": "",
    "plot_precision_recall": "",
    "plot_thresholds": "",
    "plots": "",
    "proportion": "",
    "ratio": "ratio",
    "read_clusters": "",
    "read_conll": "",
    "report": "",
    "scores_from_counts": "",
    "span_scores": "",
    "threshold_curve": "",
}


def __getattr__(name: str) -> Any:
    return attribute(__name__, "eval", _HOME, name)
