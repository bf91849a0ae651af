"""The verb `add`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import arbo
from arbo.cli import console, options
from arbo.cli.fields import JOB, READING, TABLE, Chosen, Shown
from arbo.cli.find import find_in
from arbo.cli.inputs import Reading, ReadingConfig
from arbo.cli.link import say_corrections
from arbo.cli.models import FINDING, JobConfig, load_finder
from arbo.errors import UsageError
from arbo.progress import bars

if TYPE_CHECKING:
    from arbo.pipeline.saved_run import SavedRun

_KB = (
    "The knowledge base of the run, if its file has moved, or a new release of it; read like that of the run, but for "
    "the options given."
)
_YES = "Take a --kb in which more than half of the entities are gone or have changed."
_DOCS = "Files, folders, patterns in quotes, or `-`."
_REMOVE = "Remove the document or mention with this id; may be repeated."


def add(
    run: options.Run,
    out: Annotated[Path, Option(help="Run folder to write; RUN is not changed.")],
    formats: Reading,
    how: Annotated[Chosen, Shown((READING, JOB), {**TABLE, "Processes": "workers ray"})],
    docs: Annotated[list[Path] | None, Argument(metavar="[DOCS]", help=_DOCS)] = None,
    remove: Annotated[list[str] | None, Option(metavar="ID", help=_REMOVE)] = None,
    anew: Annotated[
        bool, Option("--anew", help="Search all documents of the run again; nothing should change.")
    ] = False,
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
            documents = _read(saved, docs, formats, reading, base) if docs else ()
            after = linker.add(before, documents, corrections or (), other_kb=yes)
        _save(saved, after, out)


def _save(saved: SavedRun, after: arbo.Result, out: Path) -> None:
    """Save the run that was made of another, and print what changed."""
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(saved.save_child, after, out)
        changes = arbo.diff(saved.result, after)  # meanwhile
        saving.result()
    say_corrections(after)
    for warning in after.warnings:
        console.warn(warning)
    if console.as_json:
        figures: dict[str, Any] = {
            name: after.manifest[name] for name in ("corrections", "seconds") if name in after.manifest
        }
        console.print_json({"run": str(out), **figures, **changes.as_dict()})
        return
    console.print_summary(after)
    console.show(changes)
    console.print_next(out, ["diff"], ["show", "--nil"])


def _read(
    saved: SavedRun, docs: list[Path], formats: Reading, how: ReadingConfig, kb: arbo.KnowledgeBase | None
) -> arbo.Corpus:
    """Read documents as those of the run were read, but for the options given, and find mentions if the run did."""
    was = saved.result.manifest.get("reading", {})
    formats = replace(formats, format_=formats.format_ or was.get("format"), types=formats.types or was.get("types"))
    changes = {name: getattr(how, name) or was[name] for name in ("text_column", "by_topic") if name in was}
    finder = was.get("finder")
    documents = formats.read_from(docs, replace(how, **changes), mentions=finder is None)
    if finder is None or kb is None:
        return documents
    expand, finding = saved.result.manifest["config"]["expand_abbreviations"], Chosen({FINDING.name: was[FINDING.name]})
    model = load_finder(finder, finding, "--find-mentions", expand_abbreviations=expand)
    return find_in(documents, kb, model).corpus
