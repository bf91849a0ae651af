"""The verb `evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arbo.cli import console, options
from arbo.cli.inputs import read_documents
from arbo.cli.reporting import Save, Seed, check_outputs, drawing, name_systems, of_systems, save_report
from arbo.errors import UsageError
from arbo.readers import DocumentFormat

if TYPE_CHECKING:
    from arbo.results.evaluation import Evaluation


def evaluate(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Run folders, written by `arbo link` or `arbo discover`; each is compared with the first.",
        ),
    ],
    train: Annotated[
        Path | None,
        typer.Option("--train", help="Training documents: also score seen and unseen entities separately."),
    ] = None,
    format_: Annotated[DocumentFormat | None, options.document_format("the training documents")] = None,
    save: Save = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw the precision-recall curve of NIL decisions by a threshold on the similarity of the nearest "
            "entity; .png or .svg.",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Score runs against the gold annotations of their documents.

    `arbo evaluate run`, or `arbo evaluate baseline ours --save table.md`.

    Intervals come from samples of the documents; with several runs of the same documents, stars mark scores that differ
    from those of the first.
    """
    from arbo import Result
    from arbo.metrics import Report, Resampling
    from arbo.results.evaluation import evaluate_together

    if format_ is not None and train is None:
        raise UsageError("--format is that of the documents of --train; give --train, or leave --format out")
    names = name_systems(runs)
    check_outputs(runs, save, plot)
    seen = None if train is None else read_documents(train, format_, None, "fail")
    evaluations = evaluate_together({name: Result.load(run) for name, run in names.items()}, train=seen)
    report = Report.of({name: evaluation.lines for name, evaluation in evaluations.items()}, how=Resampling(seed=seed))
    save_report(report, save)
    if as_json:
        systems = {name: evaluation.as_dict() for name, evaluation in evaluations.items()}
        console.print_json({**of_systems(systems), "report": report.as_dict()})
    else:
        empty = [evaluation for evaluation in evaluations.values() if not evaluation.lines]
        console.out.print(console.plain(str(empty[0] if empty else report)))
    if plot is not None:
        _plot(evaluations, plot)


def _plot(evaluations: Mapping[str, Evaluation], path: Path) -> None:
    from arbo.metrics import plot_precision_recall

    curves = {name: evaluation.nil_curve for name, evaluation in evaluations.items() if evaluation.nil_curve}
    if not any(curve.gold for curve in curves.values()):
        raise UsageError("--plot: no mention is annotated as NIL, so there is no curve")
    with drawing(path):
        plot_precision_recall(curves, path)
