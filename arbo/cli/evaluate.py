"""The verb `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import arbo
from arbo.cli import console, options, reporting
from arbo.cli.fields import READING, Chosen, Group, Shown
from arbo.cli.inputs import ReadingConfig, read_documents
from arbo.cli.reporting import SCORING, ScoringConfig
from arbo.errors import UsageError
from arbo.formats import DocumentFormat
from arbo.settings import Settings

if TYPE_CHECKING:
    from arbo.engine import Table
    from arbo.results.evaluation import Evaluation
    from arbo.spans.evaluation import FoundScores

_GOLD = "Annotated documents against which to score the spans and links of found mentions; clusters are not scored."
_KB = "The knowledge base of the runs, for --gold. [default: the file that the first run names]"
_BY_TOPIC_SHOWN = ("accuracy", "ARI", "MUC", "B-cubed", "CEAF-e", "LEA", "CoNLL")
_PLOT = (
    "Draw precision and recall of NIL decisions at every threshold on the similarity of the nearest entity, to a .png "
    "or .svg file."
)
_RUNS = "Run folders, written by `arbo link` or `arbo discover`, also as NAME=PATH; each is compared with the first."


@dataclass(frozen=True, slots=True)
class EvaluationConfig(Settings):
    """What is scored besides."""

    per_document: bool = False
    """Split clusters by document before scoring coreference."""
    by_topic: bool = False
    """Also score the documents of each topic, the `topic` in their metadata, separately. With several runs, the table
    by topic has only CoNLL F1."""


_EVALUATION = Group("evaluation", __name__, "EvaluationConfig")
_SETTINGS = Shown((_EVALUATION, SCORING, READING))


def evaluate(
    runs: Annotated[list[Path], Argument(metavar="RUN", help=_RUNS)],
    how: Annotated[Chosen, _SETTINGS],
    train: Annotated[
        Path | None, Option(help="Training documents, to score seen and unseen entities separately too.")
    ] = None,
    gold: Annotated[Path | None, Option(help=_GOLD)] = None,
    kb: Annotated[Path | None, Option("--kb", help=_KB)] = None,
    format_: Annotated[DocumentFormat | None, options.document_format("--train or --gold")] = None,
    types: options.Types = None,
    save: reporting.Save = None,
    plot: Annotated[Path | None, Option(metavar="FILE", help=_PLOT)] = None,
    as_json: options.Json = False,
) -> None:
    """Score runs against the gold annotations of their documents, or of the documents in --gold.

    For example, `arbo evaluate run`, or `arbo evaluate baseline ours --save table.md`; after `arbo link
    --find-mentions`, `arbo evaluate run --gold gold.txt`.

    Confidence intervals come from resampled documents. With several runs of the same documents, stars mark scores that
    differ significantly from those of the first run.
    """
    from arbo.engine import Report, Resampling
    from arbo.pipeline.saved_run import SavedRun
    from arbo.results.evaluation import Coreference, evaluate_together, evaluate_topics
    from arbo.spans.evaluation import run_scores

    reading, scoring = how.of(READING, ReadingConfig()), how.of(SCORING, ScoringConfig())
    evaluation = how.of(_EVALUATION, EvaluationConfig())
    _check(train, gold, kb, plot, {"--format": format_, "--types": types, "ids": reading.ids})
    names = reporting.name_systems(runs)
    reporting.check_outputs([*names.values(), train, gold, kb], save, plot)
    results = {name: arbo.Result.load(run) for name, run in names.items()}
    annotated = None if (given := train or gold) is None else read_documents(given, format_, types, reading)
    evaluations: Mapping[str, Evaluation | FoundScores]
    topics: Mapping[str, Mapping[str, Evaluation]] = {}
    if gold and annotated is not None:
        run, result = next(iter(results.items()))
        base = SavedRun(names[run], result).knowledge_base(kb, tell=console.say)
        if base is None:
            raise UsageError(f"--gold needs runs with a knowledge base, and {run} has none")
        evaluations = {name: run_scores(result, annotated, base) for name, result in results.items()}
    else:
        counted = Coreference(evaluation.per_document, singletons=not scoring.remove_singletons)
        evaluations = evaluate_together(results, train=annotated, how=counted)
        topics = evaluate_topics(results, train=annotated, how=counted) if evaluation.by_topic else {}
    report = Report.of(
        {name: evaluation.lines for name, evaluation in evaluations.items()}, how=Resampling(seed=scoring.seed)
    )
    reporting.save_report(report, save)
    if as_json:
        told = {"topics": {topic: _figures(own) for topic, own in topics.items()}} if topics else {}
        console.print_json({**_figures(evaluations), "report": report.as_dict(), **told})
    else:
        empty = [evaluation for evaluation in evaluations.values() if not evaluation.lines]
        console.show(empty[0] if empty else report)
        if topics:
            console.show(f"\n{_by_topic(topics)}")
    if plot is not None:
        _plot(evaluations, plot)


def _figures(evaluations: Mapping[str, Evaluation | FoundScores]) -> dict[str, Any]:
    return reporting.of_systems({name: one.as_dict() for name, one in evaluations.items()})


def _by_topic(topics: Mapping[str, Mapping[str, Evaluation]]) -> Table:
    shown = {
        topic: {name: [line for line in one.lines if line.name in _BY_TOPIC_SHOWN] for name, one in of.items()}
        for topic, of in topics.items()
    }
    several = any(len(systems) > 1 for systems in shown.values())
    return reporting.table_of_groups(shown, "CoNLL by topic" if several else "Scores by topic", "CoNLL")


def _check(
    train: Path | None, gold: Path | None, kb: Path | None, plot: Path | None, reading: Mapping[str, object]
) -> None:
    """Raise UsageError for options that exclude each other or need another one; those of ``reading`` need documents."""
    lost = next((option for option, given in reading.items() if given and not (train or gold)), None)
    refused = {
        "--train and --gold exclude each other; leave one out": train and gold,
        f"{lost} needs --train or --gold; give one of them, or leave {lost} out": lost,
        "--kb is used only with --gold; give --gold, or leave --kb out": kb and not gold,
        "--plot needs annotated runs, and cannot be used with --gold; leave one of them out": gold and plot,
    }
    if problem := next((problem for problem, is_so in refused.items() if is_so), None):
        raise UsageError(problem)


def _plot(evaluations: Mapping[str, Evaluation | FoundScores], path: Path) -> None:
    from arbo.engine import plot_precision_recall

    found = {name: getattr(evaluation, "nil_curve", None) for name, evaluation in evaluations.items()}
    curves = {name: curve for name, curve in found.items() if curve}
    if not any(curve.gold for curve in curves.values()):
        raise UsageError("--plot needs a run of `arbo link` with gold mentions that are NIL; leave --plot out")
    with reporting.drawing(path):
        plot_precision_recall(curves, path)
