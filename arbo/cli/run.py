"""Run a linker over documents, for `arbo link` and `arbo discover`."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arbo.cli import console
from arbo.cli.inputs import warn_of_missing_ids

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus
    from arbo.linker import Linker
    from arbo.results.result import Result
    from arbo.spans.evaluation import FoundScores


def run(
    linker: Linker,
    documents: Corpus,
    out: Path,
    *,
    texts: bool,
    dry_run: bool,
    as_json: bool,
    annotated: Corpus | None = None,
) -> None:
    """Link documents, or discover entities without a knowledge base, and save the run.

    With ``dry_run``, only estimate memory and time. If ``annotated`` has mentions, score the found mentions against
    them.
    """
    from arbo.data.gold import Gold
    from arbo.spans.evaluation import run_scores

    if dry_run:
        read = time.process_time()  # everything so far
        estimate = linker.estimate(documents)
        estimate = replace(estimate, seconds=estimate.seconds + read)
        if as_json:
            console.print_json(estimate.as_dict())
        else:
            console.out.print(str(estimate))
        return
    result = linker.discover(documents) if linker.kb is None else linker.link(documents)
    scores = None
    if annotated is not None and annotated.mentions and linker.kb is not None:
        scores = run_scores(result, annotated, linker.kb)
    result.save(out, texts=texts)
    _tell_notes(result)
    if linker.kb is not None:
        warn_of_missing_ids(documents, linker.kb, Gold.of(documents, linker.kb))
    if as_json:
        console.print_json(_summary(result, out, scores))
    else:
        _show(result, out, scores)


def _tell_notes(result: Result) -> None:
    gold = result.mention_table["gold"]
    if annotated := len(gold) - gold.null_count:
        console.say(
            f"{annotated:,} mentions have gold ids (`entities`), which are only used to score the links; if arbo made "
            "these ids, remove them"
        )
    for note, count in result.manifest["notes"]["gold"].items():
        console.say(f"{count:,} {note}")
    search = result.manifest["search"]
    for what, recall in search["recall"].items():
        how = "the first stage" if search["method"] == "exact" else search["method"]
        console.say(f"{how} found {recall:.1%} of the nearest {what} (on a sample)")
    for warning in (*result.warnings, *result.giants):
        console.warn(str(warning))


def _summary(result: Result, folder: Path, scores: FoundScores | None) -> dict[str, Any]:
    nil = result.link_table["entity_id"].null_count
    return {
        "run": str(folder),
        "mentions": result.link_table.num_rows,
        "linked": result.link_table.num_rows - nil,
        "nil": nil,
        "discovered": len(result.discovered),
        "giants": result.manifest["giants"],
        "seconds": result.manifest["seconds"],
        **({"against_annotated": scores.as_dict()} if scores else {}),
    }


def _show(result: Result, folder: Path, scores: FoundScores | None) -> None:
    console.print_summary(result)
    if len(result.discovered):
        console.print_title("Largest discovered entities")
        console.print_clusters(result.discovered[:5])
    if scores:
        console.print_title("Scores against the mentions of the documents")
        console.out.print(console.plain(str(scores)))
    look = "--clusters" if result.manifest["knowledge_base"] is None else "--lowest-margin"
    verbs = [["show", look], *(["explain", link.mention.id] for link in result.links[:1])]
    console.print_next(folder, *verbs, *([["evaluate"]] if any(own is not None for own in result.labels) else []))
