"""Read the knowledge base and documents that options name; print guessed formats and irregularities on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arbo import formats
from arbo.cli import console, options
from arbo.data import OnError
from arbo.errors import DataError, UsageError, listed
from arbo.formats.files import read_lines
from arbo.settings import Settings

if TYPE_CHECKING:
    from arbo.data import Corpus, KnowledgeBase
    from arbo.data.gold import Gold
    from arbo.formats import DocumentFormat, KnowledgeBaseFormat


@dataclass(frozen=True, slots=True)
class ReadingConfig(Settings):
    """How documents and knowledge bases are read."""

    ids: str | None = None
    """File with an id on each line: keep only the documents with these ids."""
    dev_ids: str | None = None
    """Like `ids`, for the documents of --dev."""
    on_error: OnError = "fail"
    """At a malformed record, stop (``fail``) or leave it out (``skip``)."""
    by_topic: bool = False
    """Compare only mentions of documents with the same `topic` in their metadata."""
    kb_types: list[str] | None = None
    """Keep only entities of this type (in UMLS its name, its id or `ST21pv`); may be repeated."""
    kb_xrefs: list[str] | None = None
    """Accept cross-references with this prefix as ids of their entity, such as MSH for MeSH; may be repeated."""
    generic_names: bool = True
    """Whether entities keep generic names, such as `disease`; `arbo kb check` lists some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kb:
    """A knowledge base."""

    path: options.Kb
    kb_format: options.KbFormat = None

    def read(self, how: ReadingConfig, **more: Any) -> KnowledgeBase:
        """Read it as `read_kb` does."""
        return read_kb(self.path, self.kb_format, how, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class KbFile(Kb):
    """A knowledge base as the first argument of a verb."""

    path: options.KbArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalKb:
    """A knowledge base, or none."""

    path: options.OptionalKb = None
    kb_format: options.KbFormat = None

    def read(self, how: ReadingConfig) -> KnowledgeBase | None:
        """Read it as `read_kb` does, if there is one."""
        return None if self.path is None else read_kb(self.path, self.kb_format, how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The format of documents, and the mentions that are kept."""

    format_: options.Format = None
    types: options.Types = None

    def corpus(self, docs: Path | Sequence[Path], how: ReadingConfig, **more: Any) -> Corpus:
        """Read documents as `read_documents` does."""
        return read_documents(docs, self.format_, self.types, how, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Docs(Reading):
    """Documents."""

    paths: options.Documents

    def __post_init__(self) -> None:
        # A pattern means the files that match now, and none that the command writes before it reads.
        object.__setattr__(self, "paths", [*map(Path, formats.expanded(self.paths))])

    def read(self, how: ReadingConfig, **more: Any) -> Corpus:
        """Read them as `read_documents` does."""
        return self.corpus(self.paths, how, **more)

    def dev(self, path: Path | None, how: ReadingConfig) -> Corpus | None:
        """Read the documents of --dev likewise, if they are given; raise UsageError for ids without documents."""
        if path is None and how.dev_ids is not None:
            raise UsageError("dev_ids needs --dev; add it, or leave dev_ids out")
        return None if path is None else self.corpus(path, replace(how, ids=how.dev_ids))


def read_kb(
    path: Path,
    format_: KnowledgeBaseFormat | None = None,
    how: ReadingConfig = ReadingConfig(),
    *,
    columns: Mapping[str, str] | None = None,
) -> KnowledgeBase:
    """Read a knowledge base."""
    from arbo.pipeline.saved_run import read_base

    more: Any = {"xrefs": how.kb_xrefs, "types": how.kb_types, "generic_names": how.generic_names}
    kb = read_base(path, format_, columns=columns, tell=console.say, **more)
    _tell_kept("entities", (kept for (kept,) in kb.columns("metadata")), path.name)
    return kb


def read_documents(
    docs: Path | Sequence[Path],
    format_: DocumentFormat | None,
    types: list[str] | None,
    how: ReadingConfig = ReadingConfig(),
    *,
    mentions: bool = True,
    column: str | None = None,
) -> Corpus:
    """Read documents, with all mentions or only mentions of ``types``, or the names in a ``column`` of a table.

    Raise DataError if the documents have no mentions, unless ``mentions`` is false.
    """
    first = docs if isinstance(docs, Path) else docs[0]
    ids = None if how.ids is None else Path(how.ids)
    name = first.name if isinstance(docs, Path) or len(docs) == 1 else f"{len(docs)} inputs"
    if column is None:
        documents = formats.read_documents(
            docs, format_, types=types, on_error=how.on_error, announce_format=tell_format(name, "--format")
        )
    else:
        from arbo.formats.table import read_column

        if docs not in (first, [first]):
            raise UsageError("--text-column reads one table at a time; give one file")
        documents = read_column(first, column, on_error=how.on_error)
        documents = documents if types is None else documents.of_types(types)
    documents = documents if ids is None else _of_ids(documents, ids)
    console.say_notes(documents.notes, f"{name}: " if ids is None else f"{name}, in all documents: ")
    _tell_kept("documents", documents.metadata_of("documents"), name)
    _tell_kept("mentions", documents.metadata_of("mentions"), name)
    if mentions and not documents.n_mentions:
        raise DataError(
            "the documents have no mentions; if they should have some, check --format, --types and the names of "
            "columns or keys; to link plain text, find mentions with `arbo link --find-mentions dictionary`",
            file=str(first),
        )
    return documents.by_topic() if how.by_topic else documents


def _of_ids(documents: Corpus, file: Path) -> Corpus:
    """Return the documents whose ids a file lists, and warn of unknown ids; lines with `#` first are comments."""
    lines = (line.strip() for _, line in read_lines(file))
    wanted = dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    if not wanted:
        raise DataError("the file has no ids; write one on each line, or leave `ids` out", file=str(file))
    known = {document.id for document in documents}
    unknown = [id_ for id_ in wanted if id_ not in known]
    shown = ", ".join(f"{id_!r:.60}" for id_ in unknown[:3]) + ", ..." * (len(unknown) > 3)
    told = f"no documents for {len(unknown):,} of the {len(wanted):,} ids{': ' * bool(unknown)}{shown}"
    if len(unknown) == len(wanted):
        there = f"the documents have {documents[0].id!r:.60}, for example" if documents else "there are no documents"
        raise DataError(f"{told}; {there}; check the ids", file=str(file))
    if unknown:
        console.warn(f"{file.name}: {told}")
    return documents.of_ids(wanted.keys() & known)


def tell_format(place: str, option: str) -> Callable[[str], None]:
    """Return a function that prints the guessed format of an input, and the option that overrides it."""
    return lambda name: console.say(f"{place}: read as {name} ({option} overrides)")


def _tell_kept(what: str, items: Iterable[Mapping[str, object]], name: str) -> None:
    if kept := dict.fromkeys(key for item in items for key in item):
        console.say(f"{name}: further columns of {what} kept: {listed(kept, 10)}")


def read_gold(documents: Corpus, kb: KnowledgeBase | None) -> Gold:
    """Return the gold annotations of documents, looked up in ``kb``; warn of a doubtful id, see `Gold.doubt`."""
    from arbo.data.gold import Gold

    gold = Gold.of(documents, kb)
    if doubt := gold.doubt():
        console.warn(doubt)
    return gold


def tell_known(documents: Corpus, kb: KnowledgeBase) -> None:
    """Print how many mentions of the training documents have an entity in the knowledge base."""
    gold = read_gold(documents, kb)
    known, annotated = int(gold.in_kb.sum()), int(gold.has_id.sum())
    trained = "mentions with a gold id have an entity of the knowledge base, and are trained on"
    console.say(f"{known:,} of {annotated:,} {trained}")
    if problem := gold.missing(documents, kb):
        console.warn(problem)
