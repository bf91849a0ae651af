"""The verbs `add`, `remove` and `refit`: runs that grow and shrink."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import arbo
from arbo.cli import console, options
from arbo.cli.inputs import KbReading, Reading, read_kb
from arbo.cli.run import tell_corrections
from arbo.cli.work import Shards
from arbo.errors import DataError, UsageError
from arbo.files import real, sha256_of

_Kb = Annotated[Path | None, Option("--kb", help="The knowledge base of the run, if its file has moved.")]
_NEW_KB = "A knowledge base to exchange that of the run for; read like that, but for the options given."
_NewKb = Annotated[Path | None, Option("--kb", help=_NEW_KB)]
_Documents = Annotated[
    list[Path] | None, Argument(metavar="[DOCS]", help="Files, folders, patterns in quotes, or `-`.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growing:
    """A run, and the run that it becomes."""

    run: options.Run
    out: Annotated[Path, Option(help="Run folder to write; RUN is not changed.")]
    edges: options.EdgesFile = None
    cache: options.Cache = None
    as_json: options.Json = False

    def opened(self, **given: Any) -> tuple[arbo.Result, arbo.Linker]:
        """Read the run, and make the linker that made it; what is ``given`` replaces the `source` of its base."""
        check_out(self.run, self.out)
        result = arbo.Result.load(self.run)
        kb = kb_of(self.run, result.manifest, {name: value for name, value in given.items() if value})
        return result, linker_of(self.run, result.manifest, kb, self.edges, self.cache)

    def save(self, before: arbo.Result, after: arbo.Result) -> None:
        """Save the run that was made of ``before``, and print what changed."""
        from arbo.results.diff import diff

        with ThreadPoolExecutor(1) as pool:
            saving = pool.submit(save_child, after, self.run, self.out)
            changes = diff(before, after)  # meanwhile
            saving.result()
        tell_corrections(after, before)
        for warning in after.warnings:
            console.warn(warning)
        if self.as_json:
            told: dict[str, Any] = {
                name: after.manifest[name] for name in ("corrections", "seconds") if name in after.manifest
            }
            console.print_json({"run": str(self.out), **told, **changes.as_dict()})
            return
        console.print_summary(after)
        console.show(changes)
        console.print_next(self.out, ["show", "--nil"], before=self.run)


def add(
    growing: Growing,
    how: Reading,
    kb_how: KbReading,
    shards: Shards,
    docs: _Documents = None,
    kb: _NewKb = None,
    corrections: options.CorrectionsFile = None,
    no_generic_names: options.NoGenericNames = False,
    by_topic: options.ByTopic = False,
) -> None:
    """Add documents to a run, and say what changed; `arbo refit` of the new run should change nothing.

    Settings, encoder, neighbours, corrections and scores of a reranker are those that RUN keeps. Only what is new is
    encoded, searched and reranked, but an edge model weighs all pairs again. Lines of --corrections come after those
    of RUN: a later line of an author replaces earlier ones that it contradicts. With `--kb`, a new release of the
    knowledge base takes the place of that of the run.
    """
    if not docs and corrections is None and kb is None:
        raise UsageError("nothing to add: give documents, --corrections, or a new release of the knowledge base (--kb)")
    reading = {"format": kb_how.kb_format, "xrefs": kb_how.kb_xrefs, "types": kb_how.kb_types}
    result, linker = growing.opened(path=kb, no_generic_names=no_generic_names, **reading)
    with shards.over(linker, growing.out, growing.run) as linker:
        documents = how.corpus(docs, how.ids) if docs else None
        if documents and not how.types:
            _warn_of_new_types(result, documents)
        topics = documents.by_topic() if documents and by_topic else documents
        growing.save(result, linker.add(result, topics or (), corrections or ()))


def remove(
    growing: Growing,
    ids: Annotated[list[str], Argument(metavar="IDS", help="Ids of documents or mentions to remove.")],
    kb: _Kb = None,
) -> None:
    """Remove documents or mentions from a run, and say what changed; its corrections stay."""
    result, linker = growing.opened(path=kb)
    growing.save(result, linker.remove(result, ids))


def refit(growing: Growing, shards: Shards, kb: _Kb = None) -> None:
    """Search all documents of a run again, with its mentions, settings, corrections and encoder.

    Nothing should change.
    """
    result, linker = growing.opened(path=kb)
    with shards.over(linker, growing.out, growing.run) as linker:
        growing.save(result, linker.refit(result))


def check_out(run: Path, out: Path) -> None:
    """Raise UsageError unless a run can be written to ``out`` without a change to ``run``."""
    from arbo.results.run_folder import check_replaceable

    if real(run) in (real(out), *real(out).parents):
        raise UsageError(f"--out {out} is the run itself or inside it, which is not changed; choose another folder")
    check_replaceable(out)


def linker_of(
    run: Path, manifest: Mapping[str, Any], kb: arbo.KnowledgeBase | None, edges: Path | None, cache: Path | None
) -> arbo.Linker:
    """Make the linker that made a run."""
    from arbo.cli.models import encoder_like, load_edges, load_reranker
    from arbo.progress import bars

    encoder = encoder_like(manifest["encoder"], run, None, None, cache)
    config = arbo.LinkerConfig.from_dict(manifest["config"], file=str(run))
    made = manifest["encoder"].get("reranker", {})
    if "function" in made:
        wrong = f"{run} was reranked by the function {made['function']}, which arbo cannot load"
        raise UsageError(f"{wrong}; use Linker.add, Linker.remove or Linker.refit in Python")
    reranker = load_reranker(made.get("model"), None)
    return arbo.Linker(kb, encoder, config, announce=bars, reranker=reranker, edges=load_edges(edges, None))


def save_child(after: arbo.Result, run: Path, out: Path) -> None:
    """Save a run with the run of which it was made: its path as it was given, `.` in full, and its manifest's hash."""
    from arbo.results.run_folder import MANIFEST

    parent = {"path": str(run if run.name else real(run)), "sha256": sha256_of(run / MANIFEST)}
    replace(after, manifest={**after.manifest, "parent": parent}).save(out)


def parent_of(run: Path, manifest: Mapping[str, Any], tell: Callable[[str], None] = console.say) -> Path | None:
    """Return the run of which a run was made; ``tell`` if it is not there or is another one by now, and return None.

    Its path is as it was given then, from the present folder or from beside the run. Raise DataError if the manifest
    has something else there.
    """
    from arbo.results.run_folder import FORMAT, MANIFEST

    if (known := manifest.get("parent")) is None:
        return None
    if not (isinstance(known, dict) and all(isinstance(known.get(name), str) for name in ("path", "sha256"))):
        raise DataError(f"the manifest has no valid parent; {FORMAT.advice}", file=str(run / MANIFEST))
    path = Path(known["path"])
    for place in (path, real(run).parent / path.name):
        if (place / MANIFEST).is_file() and sha256_of(place / MANIFEST) == known["sha256"]:
            return place
    tell(f"{run} was made of the run {path}, which is no longer there, or has changed")
    return None


def kb_of(run: Path, manifest: Mapping[str, Any], given: Mapping[str, Any]) -> arbo.KnowledgeBase | None:
    """Read the knowledge base of a run again, or another one that is ``given`` in the same way.

    Raise UsageError if it is not where it was, or has changed though nothing is given.
    """
    known, source = manifest["knowledge_base"], {**(manifest.get("kb_source") or {})}
    if known is None:
        if given:
            raise UsageError(f"{run} has no knowledge base; leave --kb and its options out")
        return None
    if "path" in given and given["path"].suffix != Path(source.get("path", "")).suffix:
        source.pop("format", None)
    source |= given
    if "path" not in source:
        raise UsageError(f"{run} was linked to a knowledge base, but does not know its file; give it to --kb")
    path = Path(source["path"])
    if not (given or path.exists()):
        raise UsageError(f"the knowledge base of {run} is no longer at {path}; give it to --kb")
    how = [source.get(name) for name in ("format", "xrefs", "types")]
    kb = read_kb(path, *how, no_generic_names=source.get("no_generic_names", False))
    if not given and kb.fingerprint != known["fingerprint"]:
        raise UsageError(
            f"the knowledge base {path} has changed since {run} was made; `arbo add {run} --kb {path} --out NEW` "
            "follows the change, or give the knowledge base as it was to --kb"
        )
    return kb


def _warn_of_new_types(result: arbo.Result, documents: arbo.Corpus) -> None:
    """Warn of further mentions with types that a run has not, if all its mentions have types."""
    column = result.mention_table["type"]
    known = sorted(kind for kind in column.unique().to_pylist() if kind is not None)
    if not known or column.null_count:
        return
    others = Counter(kind for kind in documents.types if kind is not None)
    for kind in known:
        others.pop(kind, None)
    if others:
        keep = shlex.join(word for kind in known for word in ("--types", kind))
        console.warn(
            f"{others.total():,} of {documents.n_mentions:,} new mentions have a type that the run has not "
            f"({', '.join(sorted(others))}); {keep} leaves them out"
        )
