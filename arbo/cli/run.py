"""Run a linker over documents, for `arbo link` and `arbo discover`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import arbo
from arbo.cli import console, options
from arbo.cli.fields import JOB, Chosen, Group
from arbo.cli.work import JobConfig
from arbo.errors import UsageError
from arbo.settings import Settings

if TYPE_CHECKING:
    from arbo.spans.evaluation import FoundScores


_CHANGES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class PreviewConfig(Settings):
    """What a run shows."""

    preview: bool = False
    """Show what --corrections changes, and write nothing."""


PREVIEW = Group("preview", __name__, "PreviewConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a run goes, and how it is made."""

    out: options.Out
    corrections: options.Corrections = None
    as_json: options.Json = False


def run(
    linker: arbo.Linker, read: Callable[[], tuple[arbo.Corpus, arbo.Corpus | None]], output: Output, how: Chosen
) -> None:
    """Read documents and perhaps the same with annotations, link them or, without a base, discover entities; save that.

    With ``preview``, only show what ``corrections`` change, and save
    nothing. If the annotated documents have mentions, score the found mentions against them.
    """
    from arbo.data.gold import Gold
    from arbo.spans.evaluation import run_scores

    job, preview = how.of(JOB, JobConfig()), how.of(PREVIEW, PreviewConfig()).preview
    if preview and output.corrections is None:
        raise UsageError("--preview shows what corrections change; give them to --corrections")
    with nullcontext(linker) if preview else job.over(linker, output.out) as linker:
        documents, annotated = read()
        decide = linker.discover if linker.kb is None else linker.link
        result = decide(documents, output.corrections or ())
        if preview:
            tell_corrections(result)
            _preview(decide(documents), result, as_json=output.as_json)
            return
        result.save(output.out, texts=job.texts)  # before links are made to score them
    scores = None
    if annotated is not None and annotated.mentions and linker.kb is not None:
        scores = run_scores(result, annotated, linker.kb)
    _tell_notes(result)
    if linker.kb is not None and (problem := Gold.of(documents, linker.kb).missing(documents, linker.kb)):
        console.warn(problem)
    if output.as_json:
        console.print_json(_summary(result, output.out, scores))
    else:
        _show(result, output.out, scores)


def _preview(before: arbo.Result, after: arbo.Result, *, as_json: bool) -> None:
    """Print what changes from one result to another."""
    changes = arbo.diff(before, after)
    if as_json:
        console.print_json({"corrections": after.manifest["corrections"], **changes.as_dict()})
    else:
        console.show(changes)
        console.print_changes(changes, _CHANGES_SHOWN, "--json prints all")


def tell_corrections(result: arbo.Result, before: arbo.Result | None = None) -> None:
    """Print how many corrections were obeyed and what followed, and each correction that was not obeyed.

    One that was replaced is printed only if the run ``before`` obeyed it.
    """
    if "corrections" not in result.manifest:
        return
    counts = result.manifest["corrections"]
    told = ", ".join(f"{counts[name]:,} {name}" for name in ("obeyed", "replaced", "waiting", "conflict"))
    console.say(
        f"{counts['corrections']:,} corrections: {told}; they name {counts['mentions']:,} mentions, "
        f"{counts['same_name']:,} follow by their name and {counts['graph']:,} by the graph"
    )
    earlier = before.corrections if before else ()
    obeyed = {json.dumps(row["record"], ensure_ascii=False) for row in earlier if row["status"] == "obeyed"}
    for row in result.corrections:
        line = json.dumps(row["record"], ensure_ascii=False)
        if row["status"] in ("conflict", "waiting") or (row["status"] == "replaced" and line in obeyed):
            console.warn(f"{row['file']}, line {row['line']}: {line}: {row['status']}: {row['reason']}")


def _tell_notes(result: arbo.Result) -> None:
    tell_corrections(result)
    gold = result.mention_table["gold"]
    if annotated := len(gold) - gold.null_count:
        console.say(
            f"{annotated:,} mentions have gold ids (`entities`), which are only used to score the links; if arbo made "
            "these ids, remove them"
        )
    console.say_notes(result.manifest["notes"]["gold"])
    search = result.manifest["search"]
    for what, recall in search["recall"].items():
        how = "the first stage" if search["method"] == "exact" else search["method"]
        console.say(f"{how} found {recall:.1%} of the nearest {what} (on a sample)")
    for warning in (*result.warnings, *result.giants):
        console.warn(str(warning))


def _summary(result: arbo.Result, folder: Path, scores: FoundScores | None) -> dict[str, Any]:
    return {
        "run": str(folder),
        "mentions": result.mention_table.num_rows,
        "linked": result.mention_table.num_rows - result.n_nil,
        "nil": result.n_nil,
        "discovered": len(result.discovered),
        **({"corrections": result.manifest["corrections"]} if "corrections" in result.manifest else {}),
        "giants": result.manifest["giants"],
        "seconds": result.manifest["seconds"],
        **({"against_annotated": scores.as_dict()} if scores else {}),
    }


def _show(result: arbo.Result, folder: Path, scores: FoundScores | None) -> None:
    console.print_summary(result)
    if len(result.discovered):
        console.print_title("Largest discovered entities")
        console.print_clusters(result.discovered[:5])
    if scores:
        console.print_title("Scores against the mentions of the documents")
        console.show(scores)
    look = "--clusters" if result.manifest["knowledge_base"] is None else "--lowest-margin"
    verbs = [["show", look], *(["explain", id_] for id_ in result.mention_table["mention_id"][:1].to_pylist())]
    console.print_next(folder, *verbs, *([["evaluate"]] if any(own is not None for own in result.labels) else []))
