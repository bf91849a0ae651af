"""The verbs that make runs: `demo`, `link`, `discover` and `add`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import DOCS, ENCODER, JOB, LINKER, READING, Chosen, Shown
from arbo.cli.find import find_in
from arbo.cli.inputs import AS_READ, ReadingConfig, check_output
from arbo.cli.models import FINDING, JobConfig, LinkingModels, Models, load_finder, load_linker
from arbo.data.objects import document_line, entity_line
from arbo.errors import UsageError
from arbo.progress import bars

if TYPE_CHECKING:
    from arbo.pipeline.saved_run import SavedRun

_FILES = "Folder to write the sample to, as documents.jsonl and entities.jsonl."
_EXPLAINED = ("D06-3", "D20-4", "D01-4")
"""Mentions of the sample: one that is linked through other names, one by its long form, and one by its name alone."""


def demo(
    files: Annotated[Path | None, Option(help=_FILES)] = None,
    out: options.Out = Path("demo-run"),
) -> None:
    """Link the embedded sample; show scores, explained decisions and discovered entities; save the run.

    The sample is a small invented collection of bulletins from an island research station. The demo needs no network
    and no model weights.
    """
    console.say("linking the embedded sample; the first run compiles the engine, which takes about 20 seconds")
    Output(out=out).check()
    documents, kb = arbo.load_sample()
    if files is not None:
        sample = {"documents": map(document_line, documents), "entities": map(entity_line, kb.entities)}
        for name, lines in sample.items():
            file, content = files / f"{name}.jsonl", "".join(f"{line}\n" for line in lines)
            if file.exists() and file.read_bytes() != content.encode():
                raise UsageError(f"{file} exists and is not the sample; choose another folder")
        documents.to_jsonl(files / "documents.jsonl")
        kb.to_jsonl(files / "entities.jsonl")
        console.say(f"wrote {files / 'documents.jsonl'} and {files / 'entities.jsonl'}")
    result = arbo.Linker(kb, announce=bars).link(documents)
    result.save(out)
    evaluation = result.evaluate()
    if console.as_json:
        console.print_json({"run": str(out), **evaluation.as_dict()})
        return
    console.show(f"{len(documents)} documents, {len(kb)} entities in the knowledge base")
    console.print_summary(result)
    console.print_title("Scores against the gold annotations")
    console.show(evaluation)
    console.print_title("Three linked mentions, and why")
    for mention in _EXPLAINED:
        console.show(result.explain(mention))
    console.print_title("Three discovered entities")
    console.print_discovered(result, 3)
    console.print_next(out, ["show", "--nil"], ["explain", _EXPLAINED[0]])
    console.show("  arbo link --help  (your own documents)")
    page = shlex.join(["explore", str(out), "--out", f"{out.name}.html"])
    console.show(f"  arbo {page}  (a page to open in a browser)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where a run goes, and how it is made."""

    out: options.Out
    corrections: options.Corrections = None
    preview: options.Preview = False

    def check(self) -> None:
        """Raise UsageError if the run cannot be written, or there are no corrections to preview."""
        from arbo.results.run_folder import FORMAT

        FORMAT.check_replaceable(self.out)
        if self.preview and self.corrections is None:
            raise UsageError("--preview shows what corrections change; give them to --corrections")


_LINKING = Shown(
    (LINKER, ENCODER, READING, FINDING, JOB),
    {
        "Documents": "docs_format types text_column",
        "Knowledge base": "kb_format kb_types kb_xrefs",
        "Clustering": "method k",
        "Processes": "workers ray",
    },
)


def link(
    docs: options.Documents,
    kb: options.Kb,
    *,
    find_mentions: options.FindMentions = None,
    learn_from: options.LearnFrom = None,
    how: Annotated[Chosen, _LINKING],
    threshold: options.Threshold = None,
    models: LinkingModels,
    output: Output,
) -> None:
    """Link each mention to an entity of the knowledge base, or to NIL; cluster the NIL mentions.

    Documents with mentions: `arbo link notes.jsonl --kb kb.obo --out run`.

    A table of names: `arbo link names.csv --text-column name --kb kb.csv --out run`.

    Texts without mentions: `arbo link notes.txt --kb kb.obo --out run`; see `--find-mentions`.

    With some annotated by hand: `arbo link notes.txt --kb kb.obo --learn-from marked.jsonl --out run`.

    Then look at the links: `arbo show run`, or `arbo explore run`.
    """
    output.check()
    reading, job = how.of(READING, ReadingConfig()), how.of(JOB, JobConfig())
    linker = load_linker(models, how, threshold)
    expand, as_read = linker.config.expand_abbreviations, reading.as_read()
    found_by = partial(load_finder, how=how, option="--find-mentions", expand_abbreviations=expand)
    name, finder = find_mentions or "dictionary", None if find_mentions is None else found_by(find_mentions)
    linker = linker.configured(kb=reading.knowledge_base(kb))
    documents = reading.documents(docs, mentions=False if finder else None)
    if finder is None and not documents.n_mentions:
        console.say("the texts have no mentions: the dictionary finds names of the knowledge base in them")
        finder = found_by(name)
    if learn_from:
        teachers = replace(reading, ids=None, docs_format=None).documents(learn_from)
        finds, tunes = isinstance(finder, arbo.DictionaryFinder), threshold is None and models.config is None
        linker, tagger = _learnt(linker, teachers, output, finds=finds, tunes=tunes)
        if tagger:
            name, finder = f"{output.out}.finder", tagger
    if finder is not None:
        name = name if isinstance(finder, arbo.DictionaryFinder) else os.path.abspath(name)
        as_read |= {"finder": name, FINDING.name: {**how.changes(FINDING)}}
        assert linker.kb is not None
        documents = find_in(documents, linker.kb, finder).corpus
    _run(linker, documents, output, job, as_read)


def _learnt(
    linker: arbo.Linker, documents: arbo.Corpus, output: Output, **how: bool
) -> tuple[arbo.Linker, arbo.Tagger | None]:
    """Learn from documents, say what, and keep it beside the run, where `arbo add` finds it."""
    names, finder = (Path(f"{output.out}.{ending}") for ending in ("kb.jsonl", "finder"))
    if not output.preview:
        check_output(names, "entities", (".jsonl",))
        check_output(finder, "tagger", ("",))
    learnt = arbo.learn(linker, documents, **how)
    for line in learnt.lines:
        console.say(f"learnt {line}")
    if output.preview or learnt.linker.kb is None:
        return learnt.linker, learnt.tagger
    learnt.linker.kb.to_jsonl(names)
    if learnt.tagger:
        learnt.tagger.save(finder)
    return learnt.linker.configured(kb=ReadingConfig().knowledge_base(names)), learnt.tagger


_DISCOVERY = Shown(
    (LINKER, ENCODER, READING, JOB),
    {"Documents": "docs_format types text_column evidence", "Clustering": "k treat_as", "Processes": "workers ray"},
)


def discover(
    docs: options.Documents,
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
    output.check()
    reading, job = how.of(READING, ReadingConfig()), how.of(JOB, JobConfig())
    linker = load_linker(models, how, threshold)
    _run(linker, reading.documents(docs), output, job, reading.as_read())


def _run(
    linker: arbo.Linker, documents: arbo.Corpus, output: Output, job: JobConfig, as_read: Mapping[str, Any]
) -> None:
    """Link documents or, without a knowledge base, discover entities, and save the result.

    With ``output.preview``, only show what ``output.corrections`` change, and save nothing. The manifest keeps how the
    documents were read (``as_read``), for `arbo add`.
    """
    with nullcontext(linker) if output.preview else job.over(linker, output.out) as linker:
        decide = linker.discover if linker.kb is None else linker.link
        result = decide(documents, output.corrections or ())
        result.manifest["reading"] = as_read
        if output.preview:
            say_corrections(result)
            changes = arbo.diff(decide(documents), result)
            console.answer({"corrections": result.manifest.get("corrections"), **changes.as_dict()}, changes)
            if not console.as_json:
                console.print_changes(changes, 20)
            return
        result.save(output.out, texts=job.texts)
    _print(result, documents, linker.kb, output.out)


def say_corrections(result: arbo.Result) -> None:
    """Print how many corrections were obeyed and what followed, and each that waits or contradicts another."""
    if (counts := result.manifest.get("corrections")) is None:
        return
    numbers = ", ".join(f"{counts[name]:,} {name}" for name in ("obeyed", "replaced", "waiting", "conflict"))
    several = "; several people decided on {by_several:,} mentions, and agree on {agreed:,}"
    console.say(
        f"{counts['corrections']:,} corrections: {numbers}; they name {counts['mentions']:,} mentions, "
        f"{counts['same_name']:,} follow by their name and {counts['graph']:,} by the graph"
        + (several.format(**counts) if "by_several" in counts else "")
    )
    for row in result.corrections:
        if row["status"] in ("conflict", "waiting"):
            line = json.dumps(row["record"], ensure_ascii=False)
            console.warn(f"{row['file']}, line {row['line']}: {line}: {row['status']}: {row['reason']}")


def _print(result: arbo.Result, documents: arbo.Corpus, kb: arbo.KnowledgeBase | None, folder: Path) -> None:
    """Print notes, what became of the mentions, and what to do next."""
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
    console.warn(*result.warnings)
    if kb is not None and (problem := Gold.of(documents, kb).missing(documents, kb)):
        console.warn(problem)
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
    look, wrong = ("--clusters", []) if manifest["knowledge_base"] is None else ("--doubtful", [["show", "--wrong"]])
    first, annotated = result.mention_table["mention_id"][:1].to_pylist(), any(gold for gold in result.gold_labels)
    scored = [["evaluate"], *wrong] if annotated else []
    console.print_next(folder, ["show", look], *(["explain", id_] for id_ in first), *scored)


_KB = (
    "The knowledge base of the run, if its file has moved, or a new release of it; read like that of the run, but for "
    "the options given."
)
_YES = "Take a --kb in which more than half of the entities are gone or have changed."
_DOCS = "Files, folders, patterns in quotes, or `-`."
_ANEW = "Search all documents of the run again; nothing should change."
_REMOVE = "Remove the document or mention with this id; may be repeated."


def add(
    run: options.Run,
    out: Annotated[Path, Option(help="Run folder to write; RUN is not changed.")],
    how: Annotated[Chosen, Shown((READING, JOB), {**DOCS, "Processes": "workers ray"})],
    docs: Annotated[list[Path] | None, Argument(metavar="[DOCS]", help=_DOCS)] = None,
    remove: Annotated[list[str] | None, Option(metavar="ID", help=_REMOVE)] = None,
    anew: Annotated[bool, Option("--anew", help=_ANEW)] = False,
    kb: Annotated[Path | None, Option("--kb", help=_KB)] = None,
    yes: Annotated[bool, Option("--yes", help=_YES)] = False,
    corrections: options.Corrections = None,
    edges: options.Edges = None,
) -> None:
    """Add documents, corrections or a new knowledge base to a run, or remove documents from it; say what changed.

    Settings, encoder, neighbours, corrections and scores of a reranker are those that RUN keeps. DOCS are read as the
    documents of RUN were read (format, types, column, finder), but for the options given. Only what is new is
    encoded, searched and reranked, but an edge model weighs all pairs again. Lines of --corrections come after those
    of RUN: a later line of an author replaces earlier ones that it contradicts. With `--kb`, a new release of the
    knowledge base takes the place of that of the run. `--anew` of the new run should change nothing.
    """
    grows = bool(docs) or corrections is not None
    if grows + bool(remove) + anew > 1:
        raise UsageError("--remove, --anew, and documents or --corrections exclude each other; run `arbo add` for each")
    if not (grows or remove or anew or kb):
        wrong = "nothing to add: give documents, --corrections, or a new release of the knowledge base (--kb)"
        raise UsageError(f"{wrong}, or give --remove or --anew")
    saved = arbo.open_run(run)
    saved.check_out(out)
    before, reading, job = saved.result, how.of(READING, ReadingConfig()), how.of(JOB, JobConfig())
    base = saved.knowledge_base(kb, tell=console.say, **reading.of_kb)
    linker = saved.linker(base, edges=edges, cache=None if job.cache is None else Path(job.cache), announce=bars)
    with job.over(linker, out, run) as linker:
        if remove:
            after = linker.remove(before, remove)
        elif anew:
            after = linker.refit(before)
        else:
            documents = _read_more(saved, docs, reading, base) if docs else ()
            after = linker.add(before, documents, corrections or (), other_kb=yes)
        _save_child(saved, after, out)


def _save_child(saved: SavedRun, after: arbo.Result, out: Path) -> None:
    """Save the run that was made of another, and print what changed."""
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(saved.save_child, after, out)
        changes = arbo.diff(saved.result, after)  # meanwhile
        saving.result()
    say_corrections(after)
    console.warn(*after.warnings)
    if console.as_json:
        figures: dict[str, Any] = {
            name: after.manifest[name] for name in ("corrections", "seconds") if name in after.manifest
        }
        console.print_json({"run": str(out), **figures, **changes.as_dict()})
        return
    console.print_summary(after)
    console.show(changes)
    console.print_next(out, ["diff"], ["show", "--nil"])


def _read_more(saved: SavedRun, docs: list[Path], how: ReadingConfig, kb: arbo.KnowledgeBase | None) -> arbo.Corpus:
    """Read documents as those of the run were read, but for the options given, and find mentions if the run did."""
    was = saved.result.manifest.get("reading", {})
    changes = {name: getattr(how, name) or was[key] for name, key in AS_READ.items() if key in was}
    finder = was.get("finder")
    documents = replace(how, **changes).documents(docs, mentions=finder is None)
    if finder is None or kb is None:
        return documents
    expand, finding = saved.result.manifest["config"]["expand_abbreviations"], Chosen({FINDING.name: was[FINDING.name]})
    model = load_finder(finder, finding, "--find-mentions", expand_abbreviations=expand)
    return find_in(documents, kb, model).corpus
