"""The verb `score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from arbo.cli import console, options, reporting
from arbo.cli.fields import Chosen, Shown
from arbo.cli.reporting import SCORING, ScoringConfig

ClusterFormat = Literal["conll", "jsonl"]
_RESPONSES = "Response files, one for each system, also as NAME=PATH; each is compared with the first."
_FORMAT = "Format of all files. [default: jsonl for .jsonl and .jsonl.gz, else conll]"
_PER_DOCUMENT = (
    "Also show the scores of each document: for one system, the F1 of all metrics; for several, the CoNLL "
    "F1; with --json, all scores."
)


def score(
    key: Annotated[Path, Argument(metavar="KEY", help="File with the true clusters.")],
    responses: Annotated[list[Path], Argument(metavar="RESPONSE", help=_RESPONSES)],
    how: Annotated[Chosen, Shown((SCORING,))],
    format_: Annotated[ClusterFormat | None, Option("--format", case_sensitive=False, help=_FORMAT)] = None,
    per_document: Annotated[bool, Option("--per-document", help=_PER_DOCUMENT)] = False,
    save: reporting.Save = None,
    as_json: options.Json = False,
) -> None:
    """Score coreference: MUC, B-cubed, CEAF, LEA, BLANC and CoNLL F1 of one system or several.

    `arbo score key.conll ours.conll`, or `arbo score key.conll baseline.conll ours.conll --save table.md`.

    The values equal those of the CoNLL reference scorer 8.01 and, for LEA, of its authors' scorer. Confidence intervals
    come from resampled documents. With several systems, stars mark scores that differ significantly from those of the
    first.

    **conll** is the layout of CoNLL-2011/2012: one word per line, chains as brackets such as `(12|(7)` in the last
    column, and each document between `#begin document NAME` and `#end document`.

    **jsonl** has one cluster per line: `{"document": "d1", "mentions": ["m1", "m2"]}`. A mention is a string, an
    integer, or a list such as `[0, 4]`: the span in CoNLL from the first word of a document to the fifth, so that the
    two formats can be mixed.

    `arbo export RUN --to clusters` writes the clusters of a run, and with `--ids gold` the key.

    The documents of KEY are scored. A document that is missing from the response counts as an empty response, and a
    document that is missing from KEY is ignored. Only the first of repeated mentions counts. Notes on stderr report
    these cases, files without mentions, and documents whose number of words differs from KEY.
    """
    from arbo.progress import bars
    from arbo.results.coreference_files import score_files

    names = reporting.name_systems(responses)
    reporting.check_outputs([key, *names.values()], save)
    scoring = how.of(SCORING, ScoringConfig())
    scores = score_files(
        key,
        names,
        format_,
        singletons=not scoring.remove_singletons,
        seed=scoring.seed,
        tell=console.say,
        warn=console.warn,
        announce=bars,
    )
    reporting.save_report(scores.report, save)
    if as_json:
        systems = reporting.of_systems(scores.as_dict(names, per_document))
        console.print_json({"key": str(key), **systems, "report": scores.report.as_dict()})
        return
    console.show(scores.report)
    if per_document:
        title = "CoNLL F1 by document" if len(names) > 1 else "F1 by document"
        console.show(f"\n{reporting.table_of_groups(scores.by_document(), title, 'CoNLL')}")
