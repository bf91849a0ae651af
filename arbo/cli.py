"""The command line: one verb a command, the same as the verbs of `arbo.Linker`."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from arbo.config import LinkerConfig
    from arbo.documents import Corpus
    from arbo.knowledge_base import KnowledgeBase
    from arbo.result import Link, Result

app = typer.Typer(
    name="arbo",
    help="Link the mentions of documents to a knowledge base, and discover the entities that it lacks.\n\n"
    "Begin with `arbo demo`. Then: `arbo link DOCS --format pubtator --kb KB --kb-format obo --out run/`.\n\n"
    "Results go to stdout (`--json`: JSON alone), progress and notes to stderr. "
    "Exit codes: 0 done, 2 wrong usage, 3 bad input data, 130 interrupted, 1 anything else.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


class DocumentFormat(StrEnum):
    """Formats of documents."""

    brat = "brat"
    conll = "conll"
    ecbplus = "ecbplus"
    ecbplus_events = "ecbplus-events"
    gsc = "gsc"
    hipe = "hipe"
    jsonl = "jsonl"
    pubtator = "pubtator"


class KnowledgeBaseFormat(StrEnum):
    """Formats of knowledge bases."""

    jsonl = "jsonl"
    medic = "medic"
    obo = "obo"
    tsv = "tsv"


class MethodName(StrEnum):
    """Ways to cluster the graph."""

    arborescence = "arborescence"
    minimax = "minimax"
    undirected = "undirected"
    independent = "independent"


class OnError(StrEnum):
    """What to do about a malformed record."""

    fail = "fail"
    skip = "skip"


Documents = Annotated[Path, typer.Argument(metavar="DOCS", help="A file or a folder of files.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, written by `arbo link` or `discover`.")]
Format = Annotated[DocumentFormat, typer.Option("--format", help="Format of DOCS.")]
Types = Annotated[list[str] | None, typer.Option("--types", help="Keep mentions of this type alone; may be repeated.")]
Kb = Annotated[Path, typer.Option("--kb", help="The knowledge base.")]
KbFormat = Annotated[KnowledgeBaseFormat, typer.Option("--kb-format", help="Format of the knowledge base.")]
KbXrefs = Annotated[
    list[str] | None,
    typer.Option(
        "--kb-xrefs",
        metavar="PREFIX",
        help="Let entities answer to their cross-references of this prefix, e.g. MSH for MeSH ids; may be repeated.",
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Run folder to write; an earlier run there is replaced.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Settings that `arbo tune` wrote; other options override them."),
]
MethodOption = Annotated[
    MethodName | None, typer.Option("--method", help="How the graph is clustered. [default: arborescence]")
]
K = Annotated[
    int | None,
    typer.Option("--k", min=0, help="Nearest mentions of each in the graph; 0: independent. [default: 4]"),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        metavar="E[,M]",
        help="Largest dissimilarity of entity edges and of mention edges: two numbers, or one for both; `none` for "
        "no limit. [default: the encoder's]",
    ),
]
OnErrorOption = Annotated[OnError, typer.Option("--on-error", help="Stop at a malformed record, or skip and count it.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON alone.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"arbo {version('arbo')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    files: Annotated[
        Path | None,
        typer.Option("--files", help="Folder to write the sample to, as documents.jsonl and entities.jsonl."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Link the embedded sample and show scores, decisions with their reasons, and discovered entities.

    The sample is a small invented collection: bulletins of an island research station. No network, no weights.
    """
    from arbo import Linker, console, load_sample
    from arbo.progress import bars
    from arbo.readers.jsonl import write_jsonl
    from arbo.store import check_writable

    documents, kb = load_sample()
    if files is not None:
        check_writable(files / "documents.jsonl")
        files.mkdir(parents=True, exist_ok=True)
        write_jsonl(documents, files / "documents.jsonl")
        kb.to_jsonl(files / "entities.jsonl")
        console.say(f"wrote {files / 'documents.jsonl'} and {files / 'entities.jsonl'}")
    result = Linker(kb, announce=bars).link(documents)
    evaluation = result.evaluate()
    if as_json:
        console.print_json(evaluation.as_dict())
        return
    console.out.print(f"{len(documents)} documents, {len(kb)} entities in the knowledge base")
    console.print_summary(result)
    console.print_title("Scores against the gold annotations")
    console.print_scores(evaluation)
    console.print_title("Three linked mentions, and why")
    console.print_links(result, _telling_links(result))
    console.print_title("Three discovered entities")
    console.print_clusters(result.discovered[:3])
    console.out.print("\nNext: arbo link --help, or README.md for your own documents")


@app.command()
def link(
    docs: Documents,
    format_: Format,
    kb: Kb,
    kb_format: KbFormat,
    out: Out,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    config: Config = None,
    method: MethodOption = None,
    k: K = None,
    threshold: Threshold = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Link every mention to an entity of the knowledge base, or call it NIL and cluster it with its like."""
    from arbo import Linker
    from arbo.progress import bars
    from arbo.store import check_replaceable

    settings = _settings(config, method, k, threshold)
    check_replaceable(out)
    base = _read_kb(kb, kb_format, kb_xrefs)
    documents = _read_documents(docs, format_, types, on_error)
    result = Linker(base, config=settings, announce=bars).link(documents)
    _finish(result, out, as_json)


@app.command()
def discover(
    docs: Documents,
    format_: Format,
    out: Out,
    types: Types = None,
    config: Config = None,
    k: K = None,
    threshold: Threshold = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Cluster mentions across documents without a knowledge base: every cluster is an entity."""
    from arbo import Linker
    from arbo.progress import bars
    from arbo.store import check_replaceable

    settings = _settings(config, None, k, threshold)
    check_replaceable(out)
    documents = _read_documents(docs, format_, types, on_error)
    result = Linker(config=settings, announce=bars).discover(documents)
    _finish(result, out, as_json)


@app.command()
def tune(
    docs: Documents,
    format_: Format,
    out: Annotated[Path, typer.Option("--out", help="JSON file to write; `--config` of link and discover reads it.")],
    kb: Annotated[Path | None, typer.Option("--kb", help="The knowledge base; without one, tune discovery.")] = None,
    kb_format: Annotated[KnowledgeBaseFormat | None, typer.Option("--kb-format", help="Its format.")] = None,
    kb_xrefs: KbXrefs = None,
    types: Types = None,
    on_error: OnErrorOption = OnError.fail,
    as_json: Json = False,
) -> None:
    """Choose k, method and thresholds on documents with gold annotations.

    With a knowledge base the best accuracy is sought, NIL decisions included; without one the best ARI.
    """
    from arbo import Linker, LinkerConfig, UsageError, console
    from arbo.progress import bars
    from arbo.store import check_writable, write_json

    if (kb is None) != (kb_format is None):
        raise UsageError("--kb and --kb-format go together")
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file")
    if out.exists():
        LinkerConfig.from_json(out)  # an earlier tuning is replaced, nothing else is
    check_writable(out)
    base = None if kb is None or kb_format is None else _read_kb(kb, kb_format, kb_xrefs)
    linker = Linker(base, announce=bars).tune(_read_documents(docs, format_, types, on_error))
    if linker.tuning is None:
        raise RuntimeError("tuning left no record")
    content = {"config": linker.config.as_dict(), "tuning": linker.tuning.as_dict()}
    write_json(content, out)
    best = linker.tuning.best
    if as_json:
        console.print_json({"config": content["config"], "objective": linker.tuning.objective, "score": best.score})
        return
    limits = ", ".join(
        f"{kind} edges up to {'any' if limit is None else f'{limit:.3f}'}"
        for kind, limit in (("entity", best.entity_threshold), ("mention", best.mention_threshold))
    )
    console.out.print(
        f"{linker.tuning.objective} {best.score:.4f}: {best.method}, k={best.k}, {limits} "
        f"(of {len(linker.tuning.trials):,} tried)\nwritten to {out}"
    )


@app.command()
def evaluate(
    run: Run,
    train: Annotated[
        Path | None, typer.Option("--train", help="Training documents: split linking into seen and unseen.")
    ] = None,
    format_: Annotated[
        DocumentFormat | None, typer.Option("--format", help="Format of the training documents.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a run against the gold annotations that its documents had."""
    from arbo import Result, UsageError, console

    if (train is None) != (format_ is None):
        raise UsageError("--train and --format go together")
    seen = None if train is None or format_ is None else _read_documents(train, format_, None, OnError.fail)
    evaluation = Result.load(run).evaluate(train=seen)
    if as_json:
        console.print_json(evaluation.as_dict())
    else:
        console.print_scores(evaluation)


@app.command()
def explain(
    run: Run,
    mention: Annotated[list[str], typer.Argument(metavar="MENTION...", help="Ids of mentions.")],
    as_json: Json = False,
) -> None:
    """Say why mentions of a run were decided as they were: the path from the entity, or what kept it away."""
    from dataclasses import asdict

    from arbo import Result, UsageError, console

    result = Result.load(run)
    unknown = [id_ for id_ in mention if id_ not in result.row_of]
    if unknown:
        raise UsageError(f"the run has no mention {', '.join(map(repr, unknown))}; see its mentions.parquet")
    links = [result.link_of(id_) for id_ in mention]
    if as_json:
        console.print_json({"explanations": [asdict(result.explain(at)) for at in links]})
    else:
        console.print_links(result, links)


def main() -> None:
    """Run the command line and exit with the codes that `arbo --help` names."""
    signal.signal(signal.SIGINT, _interrupted)
    try:
        app()
    except Exception as error:
        from arbo.errors import ArboError, DataError, UsageError

        if not isinstance(error, ArboError):
            raise
        from arbo import console

        console.complain(str(error))
        sys.exit(3 if isinstance(error, DataError) else 2 if isinstance(error, UsageError) else 1)


def _interrupted(*_: object) -> NoReturn:
    sys.stderr.write("interrupted\n")
    sys.exit(130)


def _settings(config: Path | None, method: MethodName | None, k: int | None, threshold: str | None) -> LinkerConfig:
    from arbo.config import LinkerConfig

    settings = LinkerConfig() if config is None else LinkerConfig.from_json(config)
    changes: dict[str, Any] = {}
    if method is not None:
        changes["method"] = method.value
    if k is not None:
        changes["k"] = k
    if threshold is not None:
        changes["entity_threshold"], changes["mention_threshold"] = _limits(threshold)
    return replace(settings, **changes)


def _limits(text: str) -> tuple[float | None, float | None]:
    from arbo.errors import UsageError

    parts = text.split(",")
    try:
        values = [None if part.strip() == "none" else float(part) for part in parts]
    except ValueError:
        values = []
    if len(values) not in (1, 2):
        raise UsageError(f"--threshold {text!r}: expected a number or `none`, or two of them joined by a comma")
    return values[0], values[-1]


def _read_kb(path: Path, format_: KnowledgeBaseFormat, xrefs: list[str] | None) -> KnowledgeBase:
    from arbo import console
    from arbo.readers import read_knowledge_base

    kb = read_knowledge_base(path, format_.value)
    if xrefs:
        kb = kb.through_xrefs(*xrefs)
    for note, count in kb.notes.items():
        console.say(f"{path.name}: {count:,} {note}")
    return kb


def _read_documents(path: Path, format_: DocumentFormat, types: list[str] | None, on_error: OnError) -> Corpus:
    from arbo import console
    from arbo.readers import read_documents

    documents = read_documents(path, format_.value, types=types, on_error=on_error.value)
    for note, count in documents.notes.items():
        console.say(f"{path.name}: {count:,} {note}")
    return documents


def _finish(result: Result, out: Path, as_json: bool) -> None:
    from arbo import console

    result.save(out)
    for note, count in result.manifest["notes"]["gold"].items():
        console.say(f"{count:,} {note}")
        if count == result.link_table.num_rows - result.mention_table["gold"].null_count:
            console.say("that is all of them: do the ids match? --kb-xrefs MSH, say, lets entities answer to MeSH ids")
    if as_json:
        nil = result.link_table["entity_id"].null_count
        console.print_json(
            {
                "run": str(out),
                "mentions": result.link_table.num_rows,
                "linked": result.link_table.num_rows - nil,
                "nil": nil,
                "discovered": len(result.discovered),
                "seconds": result.manifest["seconds"],
            }
        )
        return
    console.print_summary(result)
    if len(result.discovered):
        console.print_title("Largest discovered entities")
        console.print_clusters(result.discovered[:5])
    console.out.print(f"\nwritten to {out}; next: arbo evaluate {out}, or arbo explain {out} MENTION")


def _telling_links(result: Result) -> list[Link]:
    """Pick three links worth seeing: over differently named mentions, of an abbreviation, and by the name alone."""

    def variety(link: Link) -> int:
        return len({step.name.casefold() for step in result.explain(link).path})

    linked = [link for link in result.links if link.entity is not None]
    shown = [max(linked, key=variety)]
    for is_abbreviation in (True, False):
        shown += [
            link
            for link in linked
            if (link.expansion is not None) == is_abbreviation
            and link.entity not in {other.entity for other in shown}
            and 0.7 < (link.score or 0) < 0.99
        ][:1]
    return shown
