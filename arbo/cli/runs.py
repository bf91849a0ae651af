"""The verbs that read a run folder: evaluate and explain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arbo.cli.inputs import read_documents
from arbo.cli.options import DocumentFormat, Json, OnError, Run
from arbo.cli.reporting import Save, Seed, check_outputs, drawing, name_systems, save_report

if TYPE_CHECKING:
    from arbo.results.evaluation import Evaluation


def evaluate(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="A run folder, written by `arbo link` or `discover`; of several each is compared with the first.",
        ),
    ],
    train: Annotated[
        Path | None,
        typer.Option("--train", help="Training documents: split the scores into seen and unseen entities."),
    ] = None,
    format_: Annotated[
        DocumentFormat | None, typer.Option("--format", help="Format of the training documents.")
    ] = None,
    save: Save = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw precision over recall of NIL, were it decided by a threshold on the nearest entity's similarity "
            "alone; .png or .svg.",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Score runs against the gold annotations that their documents had.

    `arbo evaluate run`, or `arbo evaluate baseline ours --save table.md`.

    Intervals come from samples of the documents; with several runs of the same documents, stars mark scores that differ
    from those of the first.
    """
    from arbo import Result, UsageError
    from arbo.cli import console
    from arbo.results.evaluation import evaluate_together
    from eval import Report, Resampling

    if (train is None) != (format_ is None):
        raise UsageError("--train and --format go together")
    names = name_systems(runs)
    check_outputs(runs, save, plot)
    seen = None if train is None or format_ is None else read_documents(train, format_, None, OnError.fail)
    evaluations = evaluate_together({name: Result.load(run) for name, run in names.items()}, train=seen)
    report = Report.of({name: evaluation.lines for name, evaluation in evaluations.items()}, how=Resampling(seed=seed))
    save_report(report, save)
    if as_json:
        systems = {name: evaluation.as_dict() for name, evaluation in evaluations.items()}
        scores = {"systems": systems} if len(systems) > 1 else next(iter(systems.values()))
        console.print_json({**scores, "report": report.as_dict()})
    else:
        empty = [evaluation for evaluation in evaluations.values() if not evaluation.lines]
        console.out.print(console.plain(str(empty[0] if empty else report)))
    if plot is not None:
        _plot(evaluations, plot)


def _plot(evaluations: Mapping[str, Evaluation], path: Path) -> None:
    from arbo import UsageError
    from eval import plot_precision_recall

    curves = {name: evaluation.nil_curve for name, evaluation in evaluations.items() if evaluation.nil_curve}
    if not any(curve.gold for curve in curves.values()):
        raise UsageError("--plot: no mention is NIL in truth, so that there is no curve")
    with drawing(path):
        plot_precision_recall(curves, path)


def explain(
    run: Run,
    mention: Annotated[list[str], typer.Argument(metavar="MENTION...", help="Ids of mentions.")],
    as_json: Json = False,
) -> None:
    """Say why mentions of a run were decided as they were: the path from the entity, or what kept it away."""
    from dataclasses import asdict

    from arbo import Result, UsageError
    from arbo.cli import console

    result = Result.load(run)
    unknown = [id_ for id_ in mention if id_ not in result.row_of]
    if unknown:
        raise UsageError(f"the run has no mention {', '.join(map(repr, unknown))}; see its mentions.parquet")
    links = [result.link_of(id_) for id_ in mention]
    if as_json:
        console.print_json({"explanations": [asdict(result.explain(at)) for at in links]})
    else:
        console.print_links(result, links)
