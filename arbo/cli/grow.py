"""The verbs `add`, `remove` and `refit`: runs that grow and shrink."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arbo.cli import console, options
from arbo.cli.inputs import read_documents, read_kb
from arbo.cli.run import tell_corrections
from arbo.cli.work import Shards
from arbo.errors import DataError, UsageError
from arbo.files import sha256_of

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus
    from arbo.data.knowledge_base import KnowledgeBase
    from arbo.linker import Linker
    from arbo.results.result import Result

_Kb = Annotated[Path | None, typer.Option("--kb", help="The knowledge base of the run, if its file has moved.")]
_NewKb = Annotated[
    Path | None,
    typer.Option(
        "--kb", help="A knowledge base to exchange that of the run for; read like that, but for the options given."
    ),
]
_Out = Annotated[Path, typer.Option("--out", help="Run folder to write; RUN is not changed.")]
_Documents = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[DOCS]", help="Files, folders, patterns in quotes, or `-`."),
]


def add(
    run: options.Run,
    out: _Out,
    docs: _Documents = None,
    kb: _NewKb = None,
    corrections: options.CorrectionsFile = None,
    kb_format: options.KbFormat = None,
    kb_xrefs: options.KbXrefs = None,
    kb_types: options.KbTypes = None,
    no_generic_names: options.NoGenericNames = False,
    format_: options.Format = None,
    types: options.Types = None,
    ids: options.Ids = None,
    by_topic: options.ByTopic = False,
    edges: options.EdgesFile = None,
    cache: options.Cache = None,
    workers: options.Workers = None,
    shard_size: options.ShardSize = None,
    work: options.Work = None,
    on_error: options.OnErrorOption = "fail",
    as_json: options.Json = False,
) -> None:
    """Add documents to a run, and say what changed; `arbo refit` of the new run should change nothing.

    Settings, encoder, neighbours, corrections and scores of a reranker are those that RUN keeps. Only what is new is
    encoded, searched and reranked, but an edge model weighs all pairs again. Lines of --corrections come after those
    of RUN: a later line of an author replaces earlier ones that it contradicts. With `--kb`, a new release of the
    knowledge base takes the place of that of the run.
    """
    if not docs and corrections is None and kb is None:
        raise UsageError("nothing to add: give documents, --corrections, or a new release of the knowledge base (--kb)")
    reading = {"format": kb_format, "xrefs": kb_xrefs, "types": kb_types, "no_generic_names": no_generic_names}
    result, linker = opened(run, out, edges, cache, path=kb, **reading)
    documents = read_documents(docs, format_, types, on_error, ids=ids) if docs else None
    if documents and not types:
        _warn_of_new_types(result, documents)
    topics = documents.by_topic() if documents and by_topic else documents
    with Shards(workers, shard_size, work).over(linker, out) as linker:
        _save(result, lambda: linker.add(result, topics or (), corrections or ()), run, out, as_json)


def remove(
    run: options.Run,
    ids: Annotated[list[str], typer.Argument(metavar="IDS", help="Ids of documents or mentions to remove.")],
    out: _Out,
    kb: _Kb = None,
    edges: options.EdgesFile = None,
    cache: options.Cache = None,
    as_json: options.Json = False,
) -> None:
    """Remove documents or mentions from a run, and say what changed; its corrections stay."""
    result, linker = opened(run, out, edges, cache, path=kb)
    _save(result, lambda: linker.remove(result, ids), run, out, as_json)


def refit(
    run: options.Run,
    out: _Out,
    kb: _Kb = None,
    edges: options.EdgesFile = None,
    cache: options.Cache = None,
    workers: options.Workers = None,
    shard_size: options.ShardSize = None,
    work: options.Work = None,
    as_json: options.Json = False,
) -> None:
    """Search all documents of a run again, with its mentions, settings, corrections and encoder.

    Nothing should change.
    """
    result, linker = opened(run, out, edges, cache, path=kb)
    with Shards(workers, shard_size, work).over(linker, out) as linker:
        _save(result, lambda: linker.refit(result), run, out, as_json)


def opened(run: Path, out: Path, edges: Path | None, cache: Path | None, **given: Any) -> tuple[Result, Linker]:
    """Read a run, and make the linker that made it; what is ``given`` of the knowledge base replaces its `source`."""
    from arbo import Result

    check_out(run, out)
    result = Result.load(run)
    kb = kb_of(run, result.manifest, {name: value for name, value in given.items() if value})
    return result, linker_of(run, result.manifest, kb, edges, cache)


def check_out(run: Path, out: Path) -> None:
    """Raise UsageError unless a run can be written to ``out`` without a change to ``run``."""
    from arbo.results.run_folder import check_replaceable

    if run.resolve() in (out.resolve(), *out.resolve().parents):
        raise UsageError(f"--out {out} is the run itself or inside it, which is not changed; choose another folder")
    check_replaceable(out)


def linker_of(
    run: Path, manifest: Mapping[str, Any], kb: KnowledgeBase | None, edges: Path | None, cache: Path | None
) -> Linker:
    """Make the linker that made a run."""
    from arbo import LinkerConfig
    from arbo.cli.models import encoder_like, load_edges, load_reranker
    from arbo.linker import Linker
    from arbo.progress import bars

    encoder = encoder_like(manifest["encoder"], run, None, None, cache)
    config = LinkerConfig.from_dict(manifest["config"], file=str(run))
    reranker = load_reranker(manifest["encoder"].get("reranker", {}).get("model"), None)
    return Linker(kb, encoder, config, announce=bars, reranker=reranker, edges=load_edges(edges, None))


def save_child(after: Result, run: Path, out: Path) -> None:
    """Save a run with the run of which it was made: its path as it was given, `.` in full, and its manifest's hash."""
    from arbo.results.run_folder import MANIFEST

    parent = {"path": str(run if run.name else run.resolve()), "sha256": sha256_of(run / MANIFEST)}
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
        raise DataError(f"the manifest has no valid parent; {FORMAT.mend}", file=str(run / MANIFEST))
    path = Path(known["path"])
    for place in (path, run.resolve().parent / path.name):
        if (place / MANIFEST).is_file() and sha256_of(place / MANIFEST) == known["sha256"]:
            return place
    tell(f"{run} was made of the run {path}, which is no longer there, or has changed")
    return None


def kb_of(run: Path, manifest: Mapping[str, Any], given: Mapping[str, Any]) -> KnowledgeBase | None:
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


def _warn_of_new_types(result: Result, documents: Corpus) -> None:
    """Warn of further mentions with types that a run has not, if all its mentions have types."""
    column = result.mention_table["type"]
    known = sorted(kind for kind in column.unique().to_pylist() if kind is not None)
    if not known or column.null_count:
        return
    others = Counter(mention.type for mention in documents.mentions if mention.type is not None)
    for kind in known:
        others.pop(kind, None)
    if others:
        keep = shlex.join(word for kind in known for word in ("--types", kind))
        console.warn(
            f"{others.total():,} of {len(documents.mentions):,} new mentions have a type that the run has not "
            f"({', '.join(sorted(others))}); {keep} leaves them out"
        )


def _save(before: Result, grow: Callable[[], Result], run: Path, out: Path, as_json: bool) -> None:
    from arbo.results.diff import diff

    after = grow()
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(save_child, after, run, out)
        changes = diff(before, after)  # meanwhile
        saving.result()
    tell_corrections(after, before)
    for warning in after.warnings:
        console.warn(warning)
    if as_json:
        told: dict[str, Any] = {
            name: after.manifest[name] for name in ("corrections", "seconds") if name in after.manifest
        }
        console.print_json({"run": str(out), **told, **changes.as_dict()})
        return
    console.print_summary(after)
    console.out.print(console.plain(str(changes)))
    console.print_next(out, ["show", "--nil"], before=run)
