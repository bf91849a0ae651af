"""Read the knowledge base and documents that options name; print guessed formats and irregularities on stderr."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arbo import formats
from arbo.cli import console, options
from arbo.errors import DataError, UsageError, listed
from arbo.formats.files import read_lines

if TYPE_CHECKING:
    from arbo.data import Corpus, KnowledgeBase, OnError
    from arbo.data.gold import Gold
    from arbo.formats import DocumentFormat, KnowledgeBaseFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class KbReading:
    """How to read a knowledge base."""

    kb_format: options.KbFormat = None
    kb_xrefs: options.KbXrefs = None
    kb_types: options.KbTypes = None

    def base(self, path: Path, **how: Any) -> KnowledgeBase:
        """Read a knowledge base as `read_kb` does."""
        return read_kb(path, self.kb_format, self.kb_xrefs, self.kb_types, **how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kb(KbReading):
    """A knowledge base."""

    path: options.Kb

    def read(self, **how: Any) -> KnowledgeBase:
        """Read it as `read_kb` does."""
        return self.base(self.path, **how)


@dataclass(frozen=True, slots=True, kw_only=True)
class KbFile(Kb):
    """A knowledge base as the first argument of a verb."""

    path: options.KbArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionalKb(KbReading):
    """A knowledge base, or none."""

    path: options.OptionalKb = None

    def read(self, **how: Any) -> KnowledgeBase | None:
        """Read it as `read_kb` does, if there is one."""
        return None if self.path is None else self.base(self.path, **how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How to read documents."""

    format_: options.Format = None
    types: options.Types = None
    ids: options.Ids = None
    on_error: options.OnErrorOption = "fail"

    def corpus(self, docs: Path | Sequence[Path], ids: Path | None = None, **how: Any) -> Corpus:
        """Read documents as `read_documents` does."""
        return read_documents(docs, self.format_, self.types, self.on_error, ids=ids, **how)

    def others(self, option: str, docs: Path | None, ids: Path | None) -> Corpus | None:
        """Read the documents of an option likewise, if there are some; raise UsageError for ids without documents."""
        if docs is None and ids is not None:
            raise UsageError(f"{option}-ids needs {option}; add it, or leave {option}-ids out")
        return None if docs is None else self.corpus(docs, ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Docs(Reading):
    """Documents."""

    paths: options.Documents

    def __post_init__(self) -> None:
        # A pattern means the files that match now, and none that the command writes before it reads.
        object.__setattr__(self, "paths", [*map(Path, formats.expanded(self.paths))])

    @property
    def inputs(self) -> list[Path | None]:
        """What is read, which no output may replace."""
        return [*self.paths, self.ids]

    def read(self, **how: Any) -> Corpus:
        """Read them as `read_documents` does."""
        return self.corpus(self.paths, self.ids, **how)


_ENOUGH = 0.1
"""Cross-references with a prefix are recommended if they explain at least this share of the missing ids."""


def read_kb(
    path: Path,
    format_: KnowledgeBaseFormat | None,
    xrefs: list[str] | None,
    types: list[str] | None = None,
    *,
    no_generic_names: bool = False,
    columns: Mapping[str, str] | None = None,
) -> KnowledgeBase:
    """Read a knowledge base, or only entities of ``types``, perhaps without generic names.

    Cross-references with prefixes ``xrefs`` are accepted as ids.
    """
    kb = formats.read_knowledge_base(
        path, format_, told=tell_format(path.name, "--kb-format"), columns=columns, types=types or None
    )
    source = kb.source
    given = {"--kb-xrefs": xrefs, "--kb-types": types, "--no-generic-names": no_generic_names}
    changed = [option for option, value in given.items() if value]
    if changed and source and source["format"] == "index":
        console.say(
            f"{path.name}: {changed[0]} changes the knowledge base, so that its entities are encoded again; give the "
            "option to `arbo kb index` instead"
        )
    if xrefs:
        kb = kb.through_xrefs(*xrefs)
    console.say_notes(kb.notes, f"{path.name}: ")
    _tell_kept("entities", (kept for (kept,) in kb.columns("metadata")), path.name)
    if no_generic_names:
        generic = kb.generic_names()
        kb = kb.without_names(generic)
        console.say(f"{path.name}: left out {len(generic):,} generic names{': ' * bool(generic)}{', '.join(generic)}")
    if source:
        vars(kb)["source"] = {**source, "xrefs": xrefs, "types": types, "no_generic_names": no_generic_names}
    return kb


def read_documents(
    docs: Path | Sequence[Path],
    format_: DocumentFormat | None,
    types: list[str] | None,
    on_error: OnError,
    *,
    ids: Path | None = None,
    mentions: bool = True,
    column: str | None = None,
) -> Corpus:
    """Read documents, with all mentions or only mentions of ``types``, or the names in a ``column`` of a table.

    With ``ids``, a file with an id on each line, only the documents with these ids are kept.
    Raise DataError if the documents have no mentions, unless ``mentions`` is false.
    """
    first = docs if isinstance(docs, Path) else docs[0]
    name = first.name if isinstance(docs, Path) or len(docs) == 1 else f"{len(docs)} inputs"
    if column is None:
        documents = formats.read_documents(
            docs, format_, types=types, on_error=on_error, told=tell_format(name, "--format")
        )
    else:
        from arbo.formats.table import read_column

        if docs not in (first, [first]):
            raise UsageError("--text-column reads one table at a time; give one file")
        documents = read_column(first, column, on_error=on_error)
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
    return documents


def _of_ids(documents: Corpus, file: Path) -> Corpus:
    """Return the documents whose ids a file lists, and warn of unknown ids; lines with `#` first are comments."""
    lines = (line.strip() for _, line in read_lines(file))
    wanted = dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    if not wanted:
        raise DataError("the file has no ids; write one on each line, or leave the option out", file=str(file))
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
    told = "mentions with a gold id have an entity of the knowledge base, and are trained on"
    console.say(f"{known:,} of {annotated:,} {told}")
    warn_of_missing_ids(documents, kb, gold)


def warn_of_missing_ids(documents: Corpus, kb: KnowledgeBase, gold: Gold | None = None) -> None:
    """Warn if most mentions with gold ids have no entity in the knowledge base, and name the likeliest cause."""
    from arbo.data.gold import Gold

    gold = gold or Gold.of(documents, kb)
    known, annotated = gold.in_kb, gold.has_id
    if known.sum() >= annotated.sum() / 2:
        return
    there, every = (Counter(compress(documents.types, chosen)) for chosen in (known, annotated))
    fitting = sorted(kind for kind, count in every.items() if kind is not None and there[kind] >= count / 2)
    missing = Counter(chain.from_iterable(ids or () for ids in compress(gold.ids, ~known)))
    if fitting:
        cause = f"the ids of {', '.join(fitting)} are there: try {' '.join(f'--types {kind}' for kind in fitting)}"
    else:
        cause = _through_xrefs(missing, kb) or (
            f"check that the ids match: the documents have {next(iter(missing))!r}, for example, "
            f"the knowledge base {kb.entities[0].id!r}"
        )
    share = 1 - known.sum() / annotated.sum()
    console.warn(f"{share:.0%} of the mentions with gold ids have only ids missing from the knowledge base; {cause}")


def _through_xrefs(missing: Mapping[str, int], kb: KnowledgeBase) -> str | None:
    counts: Counter[str] = Counter()
    for (xrefs,) in kb.columns("xrefs"):
        for xref in xrefs:
            prefix, _, concept = xref.partition(":")
            counts[prefix] += missing.get(xref, missing.get(concept, 0))
    prefix, count = max(counts.items(), key=lambda item: item[1], default=("", 0))
    if count < _ENOUGH * sum(missing.values()):
        return None
    return f"cross-references of its entities match {count:,} of these ids: try --kb-xrefs {prefix}"
