"""The verbs that score: `evaluate` reads runs, `score` files of clusters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

import arbo
from arbo.cli import console
from arbo.cli.inputs import READING, check_output
from arbo.cli.options import DOCS, Chosen, Group, Shown
from arbo.errors import UsageError, counted, listed
from arbo.files import write_lines
from arbo.formats import ClusterFormat
from arbo.settings import Number, Settings

if TYPE_CHECKING:
    from arbo.engine import CoreferenceCounts, Line, Report
    from arbo.results.coreference_files import PairedCounts
    from arbo.results.evaluation import Evaluation
    from arbo.spans.evaluation import FoundScores

_SAVE = "Also write the table to FILE, in the format of its ending: .md, .tex, .csv, .txt or .json; may be repeated."
Save = Annotated[list[Path] | None, Option("--save", metavar="FILE", help=_SAVE)]


@dataclass(frozen=True, slots=True)
class ScoringConfig(Settings):
    """How clusters are scored."""

    remove_singletons: bool = False
    """Leave out clusters of one mention, both true and predicted ones, as the CorefUD scorer does, and coval with
    `remove_singletons`."""
    match: Literal["head", "exact"] = "head"
    """How `score` compares mentions of CorefUD: by the same head, equal mentions first, as the CorefUD scorer does by
    default, or only equal words."""
    seed: Number = 0
    """Random seed of confidence intervals and significance tests."""
    per_document: bool = False
    """Let `evaluate` split clusters by document before it scores coreference, and `score` also show the CoNLL F1 of
    each document; with ``--json``, all scores."""


SCORING: Group[ScoringConfig] = Group("scoring", __name__, "ScoringConfig")


def _name_systems(paths: Sequence[Path]) -> dict[str, Path]:
    """Return each path by the name of its file or folder or, if another has this name too, by itself."""
    if len({*paths}) < len(paths):
        raise UsageError("two systems are the same file or folder; leave one out")
    names = [path.name for path in paths]
    return {path.name if names.count(path.name) == 1 and path.name else str(path): path for path in paths}


def _answer(report: Report, scores: Mapping[str, Any], text: object, save: Sequence[Path] | None, **more: str) -> None:
    """Print the scores of one system, or of several under the key ``systems``, and write the report to files."""
    from arbo.engine import report as reports

    by_name = {"systems": scores} if len(scores) > 1 else next(iter(scores.values()))
    console.answer({**more, **by_name, "report": report.as_dict()}, text)
    for file in save or ():
        write_lines([reports.FORMATS[file.suffix.lower()](report)], file)


_GOLD = "Annotated documents against which to score the spans and links of found mentions; clusters are not scored."
_KB = "The knowledge base of the runs, for --gold. [default: the file that the first run names]"
_RUNS = "Run folders, written by `arbo link` or `arbo discover`; each is compared with the first."
_TRAIN = "Training documents, to score seen and unseen entities separately too."


def evaluate(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help=_RUNS)],
    how: Annotated[Chosen, Shown((SCORING, READING), DOCS)],
    train: Annotated[Path | None, Option(help=_TRAIN)] = None,
    gold: Annotated[Path | None, Option(help=_GOLD)] = None,
    kb: Annotated[Path | None, Option("--kb", help=_KB)] = None,
    save: Save = None,
) -> None:
    """Score runs against the gold annotations of their documents, or of the documents in --gold.

    For example, `arbo evaluate run`, or `arbo evaluate baseline ours --save table.md`; after `arbo link
    --find-mentions`, `arbo evaluate run --gold gold.txt`.

    Confidence intervals come from resampled documents. With several runs of the same documents, stars mark scores that
    differ significantly from those of the first run.
    """
    from arbo.engine import Report, Resampling, report
    from arbo.results.evaluation import evaluate_together
    from arbo.results.views import errors_by_kind

    if gold and train:
        raise UsageError("--train and --gold exclude each other; leave one out")
    reading, scoring = how.of(READING), how.of(SCORING)
    unused = {"--format": reading.docs_format, "--types": reading.types, "--kb": kb}
    if not (gold or train) and (option := next((name for name, value in unused.items() if value), None)):
        raise UsageError(f"{option} needs --train or --gold; give one of them, or leave {option} out")
    names = _name_systems(runs)
    for file in save or ():
        check_output(file, "report", report.FORMATS, *names.values(), train, gold)
    results = {name: arbo.Result.load(run) for name, run in names.items()}
    for name, result in results.items():
        console.warn(*(f"{name}: {warning}" if len(results) > 1 else warning for warning in result.warnings))
    documents = next((reading.documents([path]) for path in (train, gold) if path), None)
    evaluations: Mapping[str, Evaluation | FoundScores]
    if gold and documents:
        from arbo.pipeline.saved_run import SavedRun
        from arbo.spans.evaluation import run_scores

        name, first = next(iter(results.items()))
        base = SavedRun(names[name], first).knowledge_base(kb, tell=console.say, **reading.of_kb)
        if base is None:
            raise UsageError(f"--gold needs runs with a knowledge base, and {name} has none")
        evaluations = {name: run_scores(result, documents, base) for name, result in results.items()}
    else:
        parts = {"per_document": scoring.per_document, "singletons": not scoring.remove_singletons}
        evaluations = evaluate_together(results, train=documents, **parts)
    table = Report.of({name: one.lines for name, one in evaluations.items()}, how=Resampling(seed=scoring.seed))
    text = next((one for one in evaluations.values() if not one.lines), table)
    errors = {name: {} if gold else errors_by_kind(result) for name, result in results.items()}
    scores = {name: {**one.as_dict(), "errors": errors[name]} for name, one in evaluations.items()}
    _answer(table, scores, text, save)
    for name, of_kind in errors.items() if not console.as_json else ():
        if wrong := ", ".join(f"{n:,} {kind}" for kind, n in of_kind.items() if n):
            console.show(f"errors: {wrong}; {console.command('show', names[name], '--wrong')} lists them")


_RESPONSES = "Response files, one for each system; each is compared with the first."
_FORMAT = "Format of all files. [default: jsonl for .jsonl, corefud for .conllu, else conll]"


def score(
    key: Annotated[Path, Argument(metavar="KEY", help="File with the true clusters.")],
    responses: Annotated[list[Path], Argument(metavar="RESPONSE...", help=_RESPONSES)],
    how: Annotated[Chosen, Shown((SCORING,))],
    format_: Annotated[ClusterFormat | None, Option("--format", case_sensitive=False, help=_FORMAT)] = None,
    save: Save = None,
) -> None:
    """Score coreference: MUC, B-cubed, CEAF, LEA, BLANC and CoNLL F1 of one system or several.

    `arbo score key.conll ours.conll`, or `arbo score key.conll baseline.conll ours.conll --save table.md`.

    The values equal those of the CoNLL reference scorer 8.01 and, for LEA, of its authors' scorer. With several
    systems, stars mark scores that differ significantly from those of the first.

    A file is in the layout of CoNLL-2011/2012 or CorefUD, or has a cluster on each line: `{"document": "d1",
    "mentions": ["m1", "m2"]}`. A mention is a string, an integer, or a span such as `[0, 4]`, from the first word to
    the fifth. `arbo export RUN --to clusters` writes the clusters of a run, and with `--ids gold` the key.

    The documents of KEY are scored. One that is missing from the response counts as an empty response; others are
    ignored, as is all but the first of repeated mentions. Notes on stderr report such cases.
    """
    from arbo.engine import Report, Resampling, report
    from arbo.results.coreference_files import Clusters, paired_counts, read_clusters

    def read(path: Path) -> Clusters:
        how_read = {"singletons": not scoring.remove_singletons, "heads": scoring.match == "head"}
        clusters, notes = read_clusters(path, format_, **how_read)
        console.say_notes(notes, f"{path.name}: ")
        if not any(clusters.values()):
            console.warn(f"{path.name}: no mentions")
        return clusters

    systems = _name_systems(responses)
    for file in save or ():
        check_output(file, "report", report.FORMATS, key, *systems.values())
    scoring = how.of(SCORING)
    pairs: dict[str, PairedCounts] = {}
    true = read(key)
    for name, path in systems.items():
        pairs[name] = paired_counts(true, read(path))
        _say_unpaired(name, pairs[name])
    if len(true) == 1:
        console.say(f"{key.name}: one document; intervals and significance tests need two or more")
    title = f"{'F1' if len(pairs) > 1 else next(iter(pairs))} against {key.name}, {counted(len(true), 'documents')}"
    lines = {name: _lines(pair.documents.values()) for name, pair in pairs.items()}
    table = Report.of(lines, title=title, how=Resampling(seed=scoring.seed))
    scores = dict[str, dict[str, Any]]()
    for name, pair in pairs.items():
        unpaired = {"missing_documents": list(pair.missing), "ignored_documents": list(pair.ignored)}
        scores[name] = {"response": str(systems[name]), **_scores(pair.total), **unpaired}
        if scoring.per_document:
            scores[name]["documents"] = {document: _scores(of) for document, of in pair.documents.items()}
    _answer(table, scores, table, save, key=str(key))
    if scoring.per_document and not console.as_json:
        _print_by_document(pairs)


def _say_unpaired(name: str, pair: PairedCounts) -> None:
    """Print the documents that only one file has, and warn if no mention is in both."""
    what = {"missing, which count as empty responses": pair.missing, "ignored, not in the key": pair.ignored}
    for wrong, ids in what.items():
        if ids:
            shown = listed((f"{one!r:.60}" for one in ids), 3)
            console.say(f"{name}: {counted(len(ids), 'documents')} {wrong}: {shown}")
    right, in_key = pair.total["mentions"][:2]
    if in_key and not right:
        console.warn(f"{name}: no mention is in the key; check that both files have the same documents and words")


def _scores(counts: CoreferenceCounts) -> dict[str, Any]:
    from arbo.engine import recall_precision_f1, scores_from_counts

    return {"mentions": recall_precision_f1(counts["mentions"]), "coreference": scores_from_counts(counts)}


def _lines(documents: Collection[CoreferenceCounts]) -> list[Line]:
    from arbo.engine import Line, coreference_lines

    counts = [document["mentions"] for document in documents]
    right, in_key, _, in_response = map(sum, zip(*counts, strict=True))
    over = f"{right:,} right, {in_key:,} in the key, {in_response:,} in the response"
    return [Line.of_counts("mentions", counts, over=over), *coreference_lines([*documents])]


def _print_by_document(pairs: Mapping[str, PairedCounts]) -> None:
    from arbo.engine import text_of

    documents = next(iter(pairs.values())).documents
    rows = [[one, *(text_of(_lines([pair.documents[one]])[-1].score) for pair in pairs.values())] for one in documents]
    console.print_title("CoNLL F1 by document")
    console.print_table(["", *pairs], rows)
