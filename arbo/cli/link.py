"""The verbs that find and link: `demo`, `find`, `link`, `discover` and `add`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import AS_READ, CORRECTIONS, FINDING, JOB, MODELS, READING, check_output, load_finder, load_linker
from arbo.cli.options import ABBREVIATIONS, DOCS, ENCODER, KB, LINKER, Chosen, Shown
from arbo.errors import UsageError, counted
from arbo.formats import TABLES
from arbo.progress import bars

if TYPE_CHECKING:
    from arbo.cli.inputs import ReadingConfig
    from arbo.pipeline.saved_run import SavedRun
    from arbo.spans.finding import Finder, Found

_FILES = "Folder to write the sample to, as documents.jsonl and entities.jsonl."
_EXPLAINED = ("D06-3", "D20-4", "D01-4")
"""Mentions of the sample: one that is linked through other names, one by its long form, and one by its name alone."""


def demo(files: Annotated[Path | None, Option(help=_FILES)] = None, out: options.Out = Path("demo-run")) -> None:
    """Link the embedded sample; show scores, explained decisions and discovered entities; save the run.

    The sample is a small invented collection of bulletins from an island research station. The demo needs no network
    and no model weights.
    """
    console.say("linking the embedded sample; the first run compiles the engine, which takes about 20 seconds")
    documents, kb = arbo.load_sample()
    if files is not None:
        texts, entities = files / "documents.jsonl", files / "entities.jsonl"
        check_output(texts, "jsonl", ("",))
        check_output(entities, "entities", ("",))
        documents.to_jsonl(texts)
        kb.to_jsonl(entities)
        console.say(f"wrote {texts} and {entities}")
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
    console.print_next(out, ["show", "--nil"], ["explain", _EXPLAINED[0]], ["explore", "--out", f"{out.name}.html"])
    console.show("  arbo link --help  (your own documents)")


_OUT = "File to write the documents with the found mentions to, as JSON lines for `arbo link`."


def find(
    docs: options.Documents,
    kb: options.Kb,
    how: Annotated[Chosen, Shown((READING, FINDING, ABBREVIATIONS), DOCS + KB)],
    finder: options.Finder = "dictionary",
    out: Annotated[Path | None, Option(help=_OUT)] = None,
    limit: options.Limit = None,
) -> None:
    """Find mentions of the entities of a knowledge base in documents without mentions.

    Run `arbo find notes/ --kb kb.obo --out found.jsonl`, correct found.jsonl, and link it with `arbo link found.jsonl
    --kb kb.obo --out run`. To find and link mentions in one step, use `arbo link --find-mentions dictionary`.

    If DOCS have mentions already, these are only used to score the found mentions. `--types` limits the mentions to
    score against, not the found mentions.
    """
    from arbo.spans.evaluation import found_scores

    if out is not None:
        check_output(out, "jsonl", (".jsonl", ".jsonl.gz"), kb, *docs)
    model = load_finder(finder, how, "--finder", expand_abbreviations=how.of(ABBREVIATIONS).expand_abbreviations)
    reading = how.of(READING)
    base = reading.knowledge_base(kb)
    documents = reading.documents(docs, mentions=False)
    found = find_in(documents, base, model)
    ids = [base.entities[proposal.entity].id for proposal in found.proposals]
    scores = found_scores(documents, found.corpus, base, ids) if documents.n_mentions else None
    if out is not None:
        found.corpus.to_jsonl(out)
    if console.as_json:
        mentions = [
            {"document": mention.document_id, "mention": mention.id, "spans": mention.spans, "text": mention.text}
            | {"entity": id_, "score": proposal.score}
            for mention, id_, proposal in zip(found.corpus.mentions, ids, found.proposals, strict=True)
        ]
        counts = {"documents": len(found.corpus), "mentions": len(mentions), "out": None if out is None else str(out)}
        console.print_json(counts | {"found": mentions, "against_annotated": scores.as_dict() if scores else None})
        return
    n_mentions, n_entities = counted(len(ids), "mentions"), counted(len({*ids}), "entities")
    console.show(f"{n_mentions} of {n_entities} found in {counted(len(documents), 'documents')}")
    if rows := [*islice(_rows(found, base), console.rows_shown(limit))]:
        console.print_table(("document", "in context", "found as", "", "score"), rows, total=len(ids))
    if scores:
        console.print_title("Scores against the mentions of the documents, with the entities that the finder proposes")
        console.show(scores)
    if out is not None:
        console.show(f"\nwritten to {out}; next: {console.command('link', out, '--kb', kb, '--out', 'run')}")


def find_in(documents: arbo.Corpus, kb: arbo.KnowledgeBase, finder: Finder) -> Found:
    """Find mentions in documents; print how many existing mentions are left out, and warn if no mention is found."""
    from arbo.data.fingerprint import warnings_of
    from arbo.spans.finding import LEFT_OUT, find as find_mentions

    console.warn(*warnings_of(documents.tables, {"the finder": getattr(finder, "model", finder)}))
    found = find_mentions(finder, documents, kb, announce=bars)
    if isinstance(finder, arbo.DictionaryFinder) and (generic := finder.left_out(kb)):
        console.say(f"generic names are not looked for: {', '.join(generic)} (--set find_generic=true overrides)")
    if LEFT_OUT in found.corpus.notes:
        console.say(counted(found.corpus.notes[LEFT_OUT], LEFT_OUT))
    if not found.proposals:
        console.warn("no mentions found; check the texts and their language, or lower the find_threshold of a model")
    return found


def _rows(found: Found, kb: arbo.KnowledgeBase) -> Iterator[tuple[str, ...]]:
    """Yield a row for each found mention, which stands in brackets among 30 characters of context on either side."""
    texts = {document.id: document.text for document in found.corpus}
    for mention, proposal in zip(found.corpus.mentions, found.proposals, strict=True):
        text, begin, end = texts[mention.document_id], mention.start, mention.spans[-1][1]
        context = f"{text[max(0, begin - 30) : begin]}[{text[begin:end]}]{text[end : end + 30]}"
        entity = kb.entities[proposal.entity]
        yield mention.document_id, console.on_one_line(context), entity.name, entity.id, f"{proposal.score:.3f}"


_LINKED = (*DOCS, *KB, "kb_types", "kb_xrefs", "method", "k", "workers", "ray")


def link(
    docs: options.Documents,
    kb: options.Kb,
    *,
    find_mentions: options.FindMentions = None,
    learn_from: options.LearnFrom = None,
    how: Annotated[Chosen, Shown((LINKER, MODELS, ENCODER, READING, FINDING, CORRECTIONS, JOB), _LINKED)],
    out: options.OutUnlessPreview = None,
) -> None:
    """Link each mention to an entity of the knowledge base, or to NIL; cluster the NIL mentions.

    Documents with mentions: `arbo link notes.jsonl --kb kb.obo --out run`.

    A table of names: `arbo link names.csv --text-column name --kb kb.csv --out run`.

    Texts without mentions: `arbo link notes.txt --kb kb.obo --out run`; see `--find-mentions`.

    With some annotated by hand: `arbo link notes.txt --kb kb.obo --learn-from marked.jsonl --out run`.

    Then look at the links: `arbo show run`, or `arbo explore run`.
    """
    models, out, preview = how.changes(MODELS), _place(out, how), how.of(CORRECTIONS).preview
    reading, linker = how.of(READING), load_linker(how)
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
        finds, tunes = isinstance(finder, arbo.DictionaryFinder), "threshold" not in models and "config" not in models
        linker, tagger = _learnt(linker, teachers, out, preview, finds=finds, tunes=tunes)
        if tagger:
            name, finder = f"{out}.finder", tagger
        if linker.edges is not None and "edges" not in models:
            as_read["edges"] = os.path.abspath(f"{out}.edges.json")
    if finder is not None:
        name = name if isinstance(finder, arbo.DictionaryFinder) else os.path.abspath(name)
        as_read |= {"finder": name, FINDING.name: {**how.changes(FINDING)}}
        assert linker.kb is not None
        documents = find_in(documents, linker.kb, finder).corpus
    _run(linker, documents, out, how, as_read)


def _place(out: Path | None, how: Chosen) -> Path:
    given = how.of(CORRECTIONS)
    if given.preview and given.corrections is None:
        raise UsageError("--preview shows what corrections change; give them to --corrections")
    if out is None and not given.preview:
        raise UsageError("the run needs a folder; give it to --out, or preview corrections with --preview")
    return out or Path()


def _learnt(
    linker: arbo.Linker, documents: arbo.Corpus, out: Path, preview: bool, **how: bool
) -> tuple[arbo.Linker, arbo.Tagger | None]:
    """Learn from documents, say what, and keep it beside the run, where `arbo add` finds it."""
    names, finder, edges = (Path(f"{out}.{ending}") for ending in ("kb.jsonl", "finder", "edges.json"))
    if not preview:
        for file, kind in ((names, "entities"), (finder, "tagger"), (edges, "edges")):
            check_output(file, kind, ("",))
    learnt = arbo.learn(linker, documents, **how)
    for line in learnt.lines:
        console.say(f"learnt {line}")
    if preview or learnt.linker.kb is None:
        return learnt.linker, learnt.tagger
    learnt.linker.kb.to_jsonl(names)
    if learnt.tagger:
        learnt.tagger.save(finder)
    if isinstance(learnt.linker.edges, arbo.EdgeModel) and linker.edges is None:
        learnt.linker.edges.save(edges)
    return learnt.linker.configured(kb=READING.defaults.knowledge_base(names)), learnt.tagger


_DISCOVERED = (*DOCS, "evidence", "k", "treat_as", "workers", "ray")
_ALONE = MODELS._replace(only="encoder edges config threshold")


def discover(
    docs: options.Documents,
    *,
    how: Annotated[Chosen, Shown((LINKER, _ALONE, ENCODER, READING, CORRECTIONS, JOB), _DISCOVERED)],
    out: options.OutUnlessPreview = None,
) -> None:
    """Cluster mentions across documents without a knowledge base; each cluster is a discovered entity.

    A file of names, one a line: `arbo discover names.txt --out run`. Rows of a table: `arbo discover firms.csv
    --text-column name --evidence country,vat:exact --out run`. Nodes of a knowledge graph: `arbo discover
    ragtest/output --out run`, then `arbo export run --to graphrag`.
    """
    out, reading, linker = _place(out, how), how.of(READING), load_linker(how, discovers=True)
    _run(linker, reading.documents(docs), out, how, reading.as_read())


def _run(linker: arbo.Linker, documents: arbo.Corpus, out: Path, how: Chosen, as_read: Mapping[str, Any]) -> None:
    """Link documents or, without a knowledge base, discover entities; save the result, or only preview corrections."""
    given, job = how.of(CORRECTIONS), how.of(JOB)
    with nullcontext(linker) if given.preview else job.over(linker, out) as linker:
        decide = linker.discover if linker.kb is None else linker.link
        result = decide(documents, given.corrections or ())
        result.manifest["reading"] = as_read
        if given.preview:
            say_corrections(result)
            changes = arbo.diff(decide(documents), result)
            console.answer({"corrections": result.manifest.get("corrections"), **changes.as_dict()}, changes)
            if not console.as_json:
                console.print_changes(changes, 20)
            return
        result.save(out, texts=job.texts)
    _print(result, documents, linker.kb, out)


def say_corrections(result: arbo.Result) -> None:
    """Print how many corrections were obeyed and what followed, and each that waits or contradicts another."""
    if (counts := result.manifest.get("corrections")) is None:
        return
    numbers = ", ".join(f"{counts[name]:,} {name}" for name in ("obeyed", "replaced", "waiting", "conflict"))
    several = "; several people decided on {by_several:,} of them, and agree on {agreed:,}"
    console.say(
        f"{counted(counts['corrections'], 'corrections')}: {numbers}; {counted(counts['mentions'], 'mentions')} named, "
        f"{counts['same_name']:,} more by their name and {counts['graph']:,} by the graph"
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
        console.say_notes({"mentions with gold ids, which only score the links; remove ids that arbo made": annotated})
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
    look, wrong = ([["show", "--clusters"]], []) if kb is None else ([], [["show", "--wrong"]])
    first, annotated = result.mention_table["mention_id"][:1].to_pylist(), any(gold for gold in result.gold_labels)
    scored = [["evaluate"], *wrong] if annotated else []
    console.print_next(folder, *look, ["show", "--doubtful"], *(["explain", id_] for id_ in first), *scored)


_KB = "The knowledge base of the run, if its file has moved, or a new release, read as the run read its own."
_YES = "Take a --kb in which more than half of the entities are gone or have changed."
_DOCS = "Files, folders, patterns in quotes, or `-`."
_GIVEN = CORRECTIONS._replace(only="corrections")
_ANEW = "Search all documents of the run again; nothing should change."
_REMOVE = "Remove the document or mention with this id; may be repeated."


def add(
    run: options.Run,
    out: Annotated[Path, Option(help="Run folder to write; RUN is not changed.")],
    how: Annotated[Chosen, Shown((READING, MODELS._replace(only="edges"), _GIVEN, JOB), (*DOCS, "workers", "ray"))],
    docs: Annotated[list[Path] | None, Argument(metavar="[DOCS]...", help=_DOCS)] = None,
    remove: Annotated[list[str] | None, Option(metavar="ID", help=_REMOVE)] = None,
    anew: Annotated[bool, Option("--anew", help=_ANEW)] = False,
    kb: Annotated[Path | None, Option("--kb", help=_KB)] = None,
    yes: Annotated[bool, Option("--yes", help=_YES)] = False,
) -> None:
    """Add documents, corrections or a new knowledge base to a run, or remove documents from it; say what changed.

    Settings, encoder, neighbours, corrections and scores of a reranker are those that RUN keeps. DOCS are read as the
    documents of RUN were read (format, types, column, finder), but for the options given. Only what is new is
    encoded, searched and reranked, but an edge model weighs all pairs again. Lines of --corrections come after those
    of RUN: a later line of an author replaces earlier ones that it contradicts.
    """
    corrections, edges = how.of(CORRECTIONS).corrections, how.of(MODELS).edges
    grows = bool(docs) or corrections is not None
    if grows + bool(remove) + anew > 1:
        raise UsageError("--remove, --anew, and documents or --corrections exclude each other; run `arbo add` for each")
    if not (grows or remove or anew or kb):
        raise UsageError("nothing to add: give documents, --corrections, --remove, --anew, or a new release to --kb")
    saved = arbo.open_run(run)
    saved.check_out(out)
    before, reading, job = saved.result, how.of(READING), how.of(JOB)
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
        more: dict[str, Any] = {key: after.manifest[key] for key in ("corrections", "seconds") if key in after.manifest}
        console.print_json({"run": str(out), **more, **changes.as_dict()})
        return
    console.print_summary(after)
    console.show(changes)
    console.print_next(out, ["diff"], ["show", "--clusters" if after.manifest["knowledge_base"] is None else "--nil"])


def _read_more(saved: SavedRun, docs: list[Path], how: ReadingConfig, kb: arbo.KnowledgeBase | None) -> arbo.Corpus:
    """Read documents as those of the run were read, but for the options given, and find mentions if the run did."""
    was = saved.result.manifest.get("reading", {})
    changes = {name: getattr(how, name) or was[key] for name, key in AS_READ.items() if key in was}
    if how.docs_format not in (None, "parquet", *TABLES):  # such as lines for a run of a table
        changes["text_column"] = how.text_column
    finder = was.get("finder")
    documents = replace(how, **changes).documents(docs, mentions=finder is None)
    if finder is None or kb is None:
        return documents
    expand, finding = saved.result.manifest["config"]["expand_abbreviations"], Chosen({FINDING.name: was[FINDING.name]})
    return find_in(documents, kb, load_finder(finder, finding, "--find-mentions", expand_abbreviations=expand)).corpus
