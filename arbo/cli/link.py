"""The verbs `link` and `discover`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import arbo
from arbo.cli import console, options
from arbo.cli.fields import ENCODER, JOB, LINKER, READING, Chosen, Shown
from arbo.cli.find import find_in
from arbo.cli.inputs import Docs, Kb, ReadingConfig
from arbo.cli.models import FINDING, JobConfig, LinkingModels, Models, load_finder, load_linker
from arbo.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a run goes, and how it is made."""

    out: options.Out
    corrections: options.Corrections = None
    preview: options.Preview = False


_LINKING = Shown(
    (LINKER, ENCODER, READING, FINDING, JOB),
    {
        "Documents": "text_column ids",
        "Knowledge base": "kb_types kb_xrefs",
        "Clustering": "method k",
        "Processes": "workers ray",
    },
)


def link(
    docs: Docs,
    kb: Kb,
    *,
    find_mentions: options.FindMentions = None,
    how: Annotated[Chosen, _LINKING],
    threshold: options.Threshold = None,
    models: LinkingModels,
    output: Output,
) -> None:
    """Link each mention to an entity of the knowledge base, or to NIL; cluster the NIL mentions.

    Documents with mentions: `arbo link notes.jsonl --kb kb.obo --out run`.

    A table of names: `arbo link names.csv --text-column name --kb kb.csv --out run`.

    Texts without mentions: `arbo link notes.txt --kb kb.obo --out run`; see `--find-mentions`.

    Then look at the links: `arbo show run`, or `arbo explore run`.
    """
    linker = load_linker(models, how, threshold)
    expand = linker.config.expand_abbreviations
    found_by = partial(load_finder, how=how, option="--find-mentions", expand_abbreviations=expand)
    finder = None if find_mentions is None else found_by(find_mentions)
    reading = how.of(READING, ReadingConfig())
    base, as_read = kb.read(reading), docs.as_read(reading)

    def read() -> arbo.Corpus:
        documents = docs.read(reading, mentions=False if finder else None)
        if finder is None and documents.n_mentions:
            return documents
        if finder is None:
            console.say("the texts have no mentions: the dictionary finds names of the knowledge base in them")
        as_read.update({"finder": find_mentions or "dictionary", FINDING.name: {**how.changes(FINDING)}})
        return find_in(documents, base, finder or found_by("dictionary")).corpus

    _run(linker.configured(kb=base), read, output, how, as_read)


_DISCOVERY = Shown(
    (LINKER, ENCODER, READING, JOB),
    {"Documents": "text_column evidence", "Clustering": "k treat_as", "Processes": "workers ray"},
)


def discover(
    docs: Docs,
    *,
    how: Annotated[Chosen, _DISCOVERY],
    threshold: options.Threshold = None,
    models: Models,
    output: Output,
) -> None:
    """Cluster mentions across documents without a knowledge base; each cluster is a discovered entity.

    A file of names, one a line: `arbo discover names.txt --out run`. Rows of a table: `arbo discover firms.csv
    --text-column name --evidence country,vat:exact --out run`. Nodes of a knowledge graph: `arbo discover
    ragtest/output --out run`, then `arbo export run --to graphrag`.
    """
    reading = how.of(READING, ReadingConfig())
    read = partial(docs.read, reading)
    _run(load_linker(models, how, threshold), read, output, how, docs.as_read(reading))


def _run(
    linker: arbo.Linker, read: Callable[[], arbo.Corpus], output: Output, how: Chosen, as_read: Mapping[str, Any]
) -> None:
    """Read documents, link them or, without a knowledge base, discover entities, and save the result.

    With ``output.preview``, only show what ``output.corrections`` change, and save nothing. The manifest keeps how the
    documents were read (``as_read``), for `arbo add`.
    """
    from arbo.results.run_folder import check_replaceable

    check_replaceable(output.out)
    job = how.of(JOB, JobConfig())
    if output.preview and output.corrections is None:
        raise UsageError("--preview shows what corrections change; give them to --corrections")
    with nullcontext(linker) if output.preview else job.over(linker, output.out) as linker:
        documents = read()
        decide = linker.discover if linker.kb is None else linker.link
        result = decide(documents, output.corrections or ())
        result.manifest["reading"] = as_read
        if output.preview:
            _print_preview(decide(documents), result)
            return
        result.save(output.out, texts=job.texts)
    _say_notes(result, documents, linker.kb)
    _print(result, output.out)


def _print_preview(before: arbo.Result, after: arbo.Result) -> None:
    """Print what corrections change."""
    say_corrections(after)
    changes = arbo.diff(before, after)
    if console.as_json:
        console.print_json({"corrections": after.manifest["corrections"], **changes.as_dict()})
    else:
        console.show(changes)
        console.print_changes(changes, 20)


def say_corrections(result: arbo.Result) -> None:
    """Print how many corrections were obeyed and what followed, and each that waits or contradicts another."""
    if (counts := result.manifest.get("corrections")) is None:
        return
    numbers = ", ".join(f"{counts[name]:,} {name}" for name in ("obeyed", "replaced", "waiting", "conflict"))
    console.say(
        f"{counts['corrections']:,} corrections: {numbers}; they name {counts['mentions']:,} mentions, "
        f"{counts['same_name']:,} follow by their name and {counts['graph']:,} by the graph"
    )
    for row in result.corrections:
        if row["status"] in ("conflict", "waiting"):
            line = json.dumps(row["record"], ensure_ascii=False)
            console.warn(f"{row['file']}, line {row['line']}: {line}: {row['status']}: {row['reason']}")


def _say_notes(result: arbo.Result, documents: arbo.Corpus, kb: arbo.KnowledgeBase | None) -> None:
    from arbo.data.gold import Gold

    say_corrections(result)
    for line in result.choices:
        console.say(line)
    gold = result.mention_table["gold"]
    if annotated := len(gold) - gold.null_count:
        console.say(
            f"{annotated:,} mentions have gold ids (`entities`), which are only used to score the links; if arbo made "
            "these ids, remove them"
        )
    console.say_notes(result.manifest["notes"]["gold"])
    for warning in result.warnings:
        console.warn(warning)
    if kb is not None and (problem := Gold.of(documents, kb).missing(documents, kb)):
        console.warn(problem)


def _print(result: arbo.Result, folder: Path) -> None:
    """Print what became of the mentions, and what to do next."""
    manifest, n, nil = result.manifest, result.mention_table.num_rows, result.n_nil
    if console.as_json:
        numbers = {"mentions": n, "linked": n - nil, "nil": nil, "discovered": len(result.discovered)}
        more: dict[str, Any] = {key: manifest[key] for key in ("corrections", "giants", "seconds") if key in manifest}
        console.print_json({"run": str(folder), **numbers, **more})
        return
    console.print_summary(result)
    if len(result.discovered):
        console.print_title("Largest discovered entities")
        console.print_discovered(result, 5)
    look = "--clusters" if manifest["knowledge_base"] is None else "--lowest-margin"
    first, annotated = result.mention_table["mention_id"][:1].to_pylist(), any(gold for gold in result.gold_labels)
    console.print_next(
        folder, ["show", look], *(["explain", id_] for id_ in first), *([["evaluate"]] if annotated else [])
    )
