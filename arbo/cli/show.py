"""The verbs that read runs: `show`, `explain`, `diff`, `export` and `evaluate`; and `score`, which reads clusters."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import DOCS, READING, Chosen, Group, Shown
from arbo.cli.inputs import ReadingConfig, check_no_input, check_output
from arbo.errors import UsageError
from arbo.files import write_lines
from arbo.formats import FOLDERS, WRITERS, ExportFormat, Ids
from arbo.settings import Number, Settings

if TYPE_CHECKING:
    from arbo.engine import Report
    from arbo.results.evaluation import Evaluation
    from arbo.spans.evaluation import FoundScores

_TEXT = "Only mentions whose text, long form or entity name contains WORDS."
_MARGIN = "Sort by the margin between the two nearest entities, lowest first."
_WRONG = "Only mentions whose link differs from the gold annotation, sorted by the reason."
_WHAT = "Only mentions given by their id, document, entity, cluster or text. [default: all]"


def show(
    run: options.Run,
    what: Annotated[list[str] | None, Argument(metavar="[WHAT]...", help=_WHAT)] = None,
    nil: Annotated[bool, Option("--nil", help="Only mentions that are NIL.")] = False,
    text: Annotated[str | None, Option(metavar="WORDS", help=_TEXT)] = None,
    lowest_margin: Annotated[bool, Option("--lowest-margin", help=_MARGIN)] = False,
    wrong: Annotated[bool, Option("--wrong", help=_WRONG)] = False,
    clusters: Annotated[bool, Option("--clusters", help="Show clusters instead of mentions.")] = False,
    limit: options.Limit = None,
) -> None:
    """Show the mentions of a run with their links, or its clusters.

    `arbo show run --lowest-margin --limit 10` lists the ten least certain mentions, `arbo show run --wrong` the errors
    of a run with gold annotations, and `arbo show run --clusters --nil` the discovered entities. The output is a table
    on a terminal, and tab-separated in a pipe. `--json` prints mentions and clusters.
    """
    import numpy as np

    from arbo.results.views import WRONG, cluster_view, mention_view, rows_called, selected, wrong_kinds

    result = arbo.Result.load(run)
    rows = selected(result, nil=nil, words=text, lowest_margin=lowest_margin)
    kinds = wrong_kinds(result) if wrong else {}
    if wrong:
        some = (row for row in rows.tolist() if row in kinds)
        rows = np.array(sorted(some, key=lambda row: WRONG.index(kinds[row])), np.int64)
    if what:
        rows = rows[np.isin(rows, [row for name in what for row in rows_called(result, name)])]
    if console.as_json:
        views = {"mentions": mention_view(result, rows[:limit], kinds)}
        views["clusters"] = cluster_view(result, np.unique(result.cluster_rows[rows])[:limit])
        console.print_json({name: view.to_pylist() for name, view in views.items()})
        return
    on_terminal = sys.stdout.isatty()
    if on_terminal:
        console.print_summary(result)
    if on_terminal and wrong:
        n = Counter(kinds[row] for row in rows.tolist())
        console.show(f"{len(rows):,} wrong: {', '.join(f'{n[kind]:,} {kind}' for kind in WRONG if n[kind])}")
    if clusters:
        rows = np.unique(result.cluster_rows[rows])
    shown = rows[: console.rows_shown(limit)]
    view = cluster_view(result, shown) if clusters else mention_view(result, shown, kinds)
    console.print_view(view, as_table=on_terminal, total=len(rows))


_MENTIONS = "Mentions, given by id, document, entity, cluster or text."


def explain(
    run: options.Run,
    what: Annotated[list[str], Argument(metavar="MENTION...", help=_MENTIONS)],
) -> None:
    """Explain decisions on mentions of a run: the path from the entity, or why no entity was reached.

    `arbo explain run D06-3` explains one mention. If a document, an entity, a cluster or a text has several mentions,
    they are listed, and you choose one by its id; `--json` explains all of them.
    """
    from arbo.results.views import mention_view, rows_called

    result = arbo.Result.load(run)
    rows = {name: rows_called(result, name) for name in what}
    if console.as_json:
        links = [result.links[row] for name in rows for row in rows[name]]
        console.print_json({"explanations": [asdict(result.explain(link)) for link in links]})
        return
    for name in rows:
        if len(rows[name]) == 1:
            console.show(result.explain(result.links[rows[name][0]]))
    for name in rows:
        if len(rows[name]) > 1:
            console.say(f"{len(rows[name]):,} mentions of {name}; choose one by its mention_id:")
            console.print_view(mention_view(result, rows[name]), as_table=sys.stdout.isatty())


_OTHER = "The run folder to compare with RUN; without it, RUN is the later one."


def diff(
    run: options.Run,
    other: Annotated[Path | None, Argument(metavar="[RUN2]", help=_OTHER)] = None,
    limit: options.Limit = None,
) -> None:
    """Compare two runs, and show the clusters and mentions that changed from RUN to RUN2.

    Without RUN2, what changed in RUN since the run of which `arbo add` made it. The runs may differ in
    settings, model or documents. Mentions are matched by id. Both predictions of a mention are
    shown side by side, with its gold ids and its sentence. In a pipe, the output is only the table of changed mentions,
    tab-separated. `--json` prints all rows of both tables.
    """
    if other is not None:
        changes = arbo.diff(run, other)
    else:
        after = arbo.open_run(run)
        if (before := after.parent()) is None:
            raise UsageError(f"give two runs: {run} was not made of another run")
        changes = arbo.diff(before, after.result)
    if console.as_json:
        console.print_json(changes.as_dict())
    elif sys.stdout.isatty():
        console.show(changes)
        console.print_changes(changes, 20 if limit is None else limit)
    else:
        console.say(str(changes))
        console.print_view(changes.mention_view(limit), as_table=False)


_TO = f"Format to write: {', '.join(WRITERS)}."
_IDS = (
    "Ids to write in documents and clusters: links (for NIL, the discovered entity), entities (for NIL none or -1), or "
    "gold (the annotated ids). "
    "Tables have both."
)


def export(
    run: options.Run,
    to: Annotated[ExportFormat, Option(metavar="FORMAT", case_sensitive=False, help=_TO)],
    out: Annotated[Path, Option(metavar="PATH", help="File to write or replace; for brat and graphs, a new folder.")],
    ids: Annotated[Ids, Option(case_sensitive=False, help=_IDS)] = "links",
) -> None:
    """Write a run for a spreadsheet, for other programs, or for scoring.

    `arbo export run --to csv --out links.csv`, or `arbo export run --to brat --out folder`.

    The tables **csv** and **tsv** have a row for each mention, with its sentence, its link and the runner-up;
    **clusters** are clusters across documents, and **conll** those of each document, for `arbo score`; **graphrag**,
    **lightrag** and **neo4j** are the graph of which the run was made, each cluster one node; the other
    formats hold the documents, with links in place of gold ids unless `--ids gold`.

    Notes on stderr count the items that a format cannot hold, for example discontinuous mentions in PubTator.
    """
    check_no_input(out, run) if to in FOLDERS else check_output(out, to, ("",), run)
    result = arbo.Result.load(run)
    notes = result.export(out, to, ids=ids)
    console.say_notes(notes)
    n = result.link_table.num_rows
    value = {"out": str(out), "to": to, "mentions": n, "notes": notes}
    console.answer(value, f"run of {n:,} mentions written to {out}")


_SAVE = "Also write the table to FILE, in the format of its ending: .md, .tex, .csv, .txt or .json; may be repeated."
Save = Annotated[list[Path] | None, Option("--save", metavar="FILE", help=_SAVE)]


@dataclass(frozen=True, slots=True)
class ScoringConfig(Settings):
    """How clusters are scored."""

    remove_singletons: bool = False
    """Leave out clusters of one mention, both true and predicted ones, as the CorefUD scorer does, and coval with
    `remove_singletons`."""
    seed: Number = 0
    """Random seed of confidence intervals and significance tests."""
    per_document: bool = False
    """Let `evaluate` split clusters by document before it scores coreference, and `score` also show the scores of each
    document: for one system, the F1 of all metrics; for several, the CoNLL F1; with ``--json``, all scores."""


SCORING = Group("scoring", __name__, "ScoringConfig")


def _name_systems(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the path of each system by its name: the NAME of `NAME=PATH`, or else the name of the file or folder.

    If two files or folders have the same name, their paths are the names. Raise UsageError if two systems get the same
    name.
    """
    pairs = [str(path).partition("=")[::2] if "=" in str(path) and not path.exists() else ("", path) for path in paths]
    files = [Path(place).name for _, place in pairs]
    named = [
        name or (file if file and files.count(file) == 1 else str(place))
        for (name, place), file in zip(pairs, files, strict=True)
    ]
    if twice := next((name for name in named if named.count(name) > 1), None):
        raise UsageError(f"two systems are named {twice}; leave one out, or rename it as NAME=PATH")
    return {name: Path(place) for name, (_, place) in zip(named, pairs, strict=True)}


def _answer(report: Report, scores: Mapping[str, Any], text: object, save: Sequence[Path] | None, **more: str) -> None:
    """Print the scores of one system, or of several under the key ``systems``, and write the report to files."""
    from arbo.engine import report as reports

    by_name = {"systems": scores} if len(scores) > 1 else next(iter(scores.values()))
    console.answer({**more, **by_name, "report": report.as_dict()}, text)
    for file in save or ():
        write_lines([reports.FORMATS[file.suffix.lower()](report)], file)


_GOLD = "Annotated documents against which to score the spans and links of found mentions; clusters are not scored."
_KB = "The knowledge base of the runs, for --gold. [default: the file that the first run names]"
_RUNS = "Run folders, written by `arbo link` or `arbo discover`, also as NAME=PATH; each is compared with the first."
_TRAIN = "Training documents, to score seen and unseen entities separately too."


def evaluate(
    runs: Annotated[list[Path], Argument(metavar="RUN", help=_RUNS)],
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

    if gold and train:
        raise UsageError("--train and --gold exclude each other; leave one out")
    reading, scoring = how.of(READING, ReadingConfig()), how.of(SCORING, ScoringConfig())
    unused = {"--format": reading.docs_format, "--types": reading.types, "--kb": kb}
    if not (gold or train) and (option := next((name for name, value in unused.items() if value), None)):
        raise UsageError(f"{option} needs --train or --gold; give one of them, or leave {option} out")
    names = _name_systems(runs)
    for file in save or ():
        check_output(file, "report", report.FORMATS, *names.values(), train, gold)
    results = {name: arbo.Result.load(run) for name, run in names.items()}
    for name, result in results.items():
        for warning in result.warnings:
            console.warn(f"{name}: {warning}" if len(results) > 1 else warning)
    documents = next((reading.documents([path]) for path in (train, gold) if path), None)
    evaluations: Mapping[str, Evaluation | FoundScores]
    if gold and documents:
        evaluations = _found_scores(results, names, documents, kb)
    else:
        parts = {"per_document": scoring.per_document, "singletons": not scoring.remove_singletons}
        evaluations = evaluate_together(results, train=documents, **parts)
    table = Report.of({name: one.lines for name, one in evaluations.items()}, how=Resampling(seed=scoring.seed))
    text = next((one for one in evaluations.values() if not one.lines), table)
    _answer(table, {name: one.as_dict() for name, one in evaluations.items()}, text, save)


def _found_scores(
    results: Mapping[str, arbo.Result], folders: Mapping[str, Path], gold: arbo.Corpus, kb: Path | None
) -> dict[str, FoundScores]:
    from arbo.pipeline.saved_run import SavedRun
    from arbo.spans.evaluation import run_scores

    name, result = next(iter(results.items()))
    base = SavedRun(folders[name], result).knowledge_base(kb, tell=console.say)
    if base is None:
        raise UsageError(f"--gold needs runs with a knowledge base, and {name} has none")
    return {name: run_scores(result, gold, base) for name, result in results.items()}


ClusterFormat = Literal["conll", "jsonl"]
_RESPONSES = "Response files, one for each system, also as NAME=PATH; each is compared with the first."
_FORMAT = "Format of all files. [default: jsonl for .jsonl and .jsonl.gz, else conll]"


def score(
    key: Annotated[Path, Argument(metavar="KEY", help="File with the true clusters.")],
    responses: Annotated[list[Path], Argument(metavar="RESPONSE", help=_RESPONSES)],
    how: Annotated[Chosen, Shown((SCORING,))],
    format_: Annotated[ClusterFormat | None, Option("--format", case_sensitive=False, help=_FORMAT)] = None,
    save: Save = None,
) -> None:
    """Score coreference: MUC, B-cubed, CEAF, LEA, BLANC and CoNLL F1 of one system or several.

    `arbo score key.conll ours.conll`, or `arbo score key.conll baseline.conll ours.conll --save table.md`. `--set
    per_document=true` also shows the scores of each document.

    The values equal those of the CoNLL reference scorer 8.01 and, for LEA, of its authors' scorer. With several
    systems, stars mark scores that differ significantly from those of the first.

    A file is in the layout of CoNLL-2011/2012, or has a cluster on each line: `{"document": "d1", "mentions": ["m1",
    "m2"]}`. A mention is a string, an integer, or a span such as `[0, 4]`, from the first word to the fifth. `arbo
    export RUN --to clusters` writes the clusters of a run, and with `--ids gold` the key.

    The documents of KEY are scored. One that is missing from the response counts as an empty response; others are
    ignored, as is all but the first of repeated mentions. Notes on stderr report such cases.
    """
    from arbo.engine import report
    from arbo.results.coreference_files import score_files

    names = _name_systems(responses)
    for file in save or ():
        check_output(file, "report", report.FORMATS, key, *names.values())
    scoring = how.of(SCORING, ScoringConfig())
    singletons = not scoring.remove_singletons
    scores = score_files(
        key, names, format_, singletons=singletons, seed=scoring.seed, tell=console.say, warn=console.warn
    )
    text = f"{scores.report}\n\n{scores.table}" if scoring.per_document else scores.report
    _answer(scores.report, scores.as_dict(names, scoring.per_document), text, save, key=str(key))
