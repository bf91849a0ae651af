"""Read the files that options name, print guessed formats and irregularities on stderr, and check output files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import arbo
from arbo import formats
from arbo.cli import console
from arbo.data import OnError
from arbo.errors import ArboError, DataError, UsageError, listed
from arbo.files import check_writable, real
from arbo.formats import DocumentFormat, KnowledgeBaseFormat
from arbo.formats.files import read_head, read_lines
from arbo.settings import Settings


@dataclass(frozen=True, slots=True)
class ReadingConfig(Settings):
    """How documents and knowledge bases are read."""

    docs_format: DocumentFormat | None = None
    """Format of documents, guessed by default."""
    types: list[str] | None = None
    """Keep only mentions of this type; may be repeated."""
    ids: str | None = None
    """File with an id on each line: keep only the documents with these ids."""
    dev_ids: str | None = None
    """Like `ids`, for the documents of --dev."""
    on_error: OnError = "fail"
    """At a malformed record, stop (``fail``) or leave it out (``skip``)."""
    text_column: str | None = None
    """Column of a table whose cells are names; each is a mention."""
    by_topic: bool = False
    """Compare only mentions of documents with the same `topic` in their metadata."""
    kb_format: KnowledgeBaseFormat | None = None
    """Format of the knowledge base, guessed by default."""
    kb_types: list[str] | None = None
    """Keep only entities of this type (in UMLS its name, its id or `ST21pv`); may be repeated."""
    kb_xrefs: list[str] | None = None
    """Accept cross-references with this prefix as ids of their entity, such as MSH for MeSH; may be repeated."""
    generic_names: bool = True
    """Whether entities keep generic names, such as `disease`; `arbo kb check` lists some."""

    @property
    def of_kb(self) -> dict[str, Any]:
        """What is set of a knowledge base, as `arbo.pipeline.saved_run.read_base` takes it."""
        how = {"xrefs": self.kb_xrefs, "types": self.kb_types, "generic_names": None if self.generic_names else False}
        return {name: value for name, value in how.items() if value is not None}

    def knowledge_base(self, path: Path, columns: Mapping[str, str] | None = None) -> arbo.KnowledgeBase:
        """Read a knowledge base, and print what is noteworthy."""
        from arbo.pipeline.saved_run import read_base

        kb = read_base(path, self.kb_format, columns=columns, tell=console.say, **self.of_kb)
        _say_columns("entities", (metadata for (metadata,) in kb.columns("metadata")), path.name)
        return kb

    def documents(self, docs: Sequence[Path], *, mentions: bool | None = True) -> arbo.Corpus:
        """Read documents, the names in a column of a table, or those in the lines of a text without mentions.

        Raise DataError if the documents have no mentions, unless ``mentions`` is false, or None and they are prose.
        """
        name = docs[0].name if len(docs) == 1 else f"{len(docs)} inputs"
        if self.text_column is None:
            read_as: list[str] = [self.docs_format or ""]

            def announce(guess: str) -> None:
                read_as.append(guess)
                say_format(name, "--format", guess)

            how_read: Any = {"types": self.types, "on_error": self.on_error, "announce_format": announce}
            documents = formats.read_documents(docs, self.docs_format, **how_read)
            if mentions is not False and "text" in read_as and not _is_prose(documents, titles=bool(mentions)):
                console.say(f"{name}: each line is a name")
                texts = (document.text.removesuffix("\n").split("\n") for document in documents)
                documents = arbo.Corpus.of([line.removesuffix("\r") for lines in texts for line in lines])
        else:
            from arbo.formats.table import read_column

            if len(docs) > 1:
                raise UsageError("--text-column reads one table at a time; give one file")
            documents = read_column(docs[0], self.text_column, on_error=self.on_error)
            documents = documents if self.types is None else documents.of_types(self.types)
        if self.ids is not None:
            documents = _of_ids(documents, Path(self.ids))
        console.say_notes(documents.notes, f"{name}: " if self.ids is None else f"{name}, in all documents: ")
        _say_columns("documents", documents.metadata_of("documents"), name)
        _say_columns("mentions", documents.metadata_of("mentions"), name)
        if mentions is not False and not documents.n_mentions and (mentions or self.types or not _is_prose(documents)):
            raise DataError(
                "the documents have no mentions; if a column of a table has the names, give --text-column NAME; for "
                "plain text, give --find-mentions dictionary; else check --format, --types and the names of keys",
                file=str(docs[0]),
            )
        return documents.by_topic() if self.by_topic else documents

    def dev_documents(self, path: Path) -> arbo.Corpus:
        """Read the documents of --dev likewise."""
        return replace(self, ids=self.dev_ids).documents([path])

    def as_read(self) -> dict[str, Any]:
        """Return how documents are read, for the manifest of a run; documents are added to the run in the same way."""
        return {key: value for name, key in AS_READ.items() if (value := getattr(self, name))}


AS_READ = {"docs_format": "format", "types": "types", "text_column": "text_column", "by_topic": "by_topic"}
"""The keys in the manifest of a run of the fields that say how its documents were read."""


def _is_prose(documents: arbo.Corpus, *, titles: bool = False) -> bool:
    """Return whether no mention is marked, and a line has over 300 characters or most are sentences, not ``titles``."""
    if documents.n_mentions:
        return False
    lines = [line.strip() for document in documents for line in document.text.split("\n") if line.strip()]
    sentences = sum(not titles and line[-1] in ".!?" and line.count(" ") >= 4 for line in lines)
    return 2 * sentences > len(lines) or max(map(len, lines), default=0) > 300


def _of_ids(documents: arbo.Corpus, file: Path) -> arbo.Corpus:
    """Return the documents whose ids a file lists, and warn of unknown ids; lines with `#` first are comments."""
    lines = (line.strip() for _, line in read_lines(file))
    ids = dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    known = {document.id for document in documents}
    unknown = listed((f"{id_!r:.60}" for id_ in ids if id_ not in known), 3)
    if not ids.keys() & known:
        raise DataError(f"no document has one of these ids: {unknown or 'there are none'}; check them", file=str(file))
    if unknown:
        console.warn(f"{file.name}: no documents with the ids {unknown}")
    return documents.of_ids(ids.keys() & known)


def say_format(place: str, option: str, guess: str) -> None:
    """Print the guessed format of an input, and the option that overrides it."""
    console.say(f"{place}: read as {guess} ({option} overrides)")


def _say_columns(what: str, items: Iterable[Mapping[str, object]], name: str) -> None:
    if columns := dict.fromkeys(key for item in items for key in item):
        console.say(f"{name}: further columns of {what} kept: {listed(columns, 10)}")


_TEXT = r'"(?:\\.|[^"\\])*+"'
_BEGINS = {
    "bioc": r'\{"source": "arbo"',
    "clusters": r'\{"mentions": \[',
    "conll": r"#begin document \(.*\n([^\t\n]*\t){4}[^\t\n]*\n",
    **dict.fromkeys(("csv", "tsv"), r'"mention_id"[,\t]"document_id"[,\t]'),
    "edges": r'\{\n  "format": "arbo-edges"',
    "entities": rf'\{{"id": {_TEXT}, "name": {_TEXT}, "aliases": \[.*("domain": |[^\n}}]\Z)|'
    r'"id"\t"name"\t"aliases"\t|id,name,aliases,definition,types,',
    "jsonl": rf'\{{"id": {_TEXT}, "text": "(?:\\.|[^"\\])*+(", "mentions": \[|\\?\Z)',
    "page": r"<!doctype html>\n<html .*>\n<head>\n.*\n<meta http-equiv=\"Content-Security-Policy\" content=\"default",
    "pubannotation": rf'\{{("id": {_TEXT}, )?"denotations": \[',
    "pubtator": r"([^|\n]+)\|t\|.*\n\1\|a\|",
    "report": r'(\*\*.*\*\*\n\n)?\|  \||% \\usepackage|system,line,score,|\{\n  "title": .*\n  "resampling": |'
    r"(.*\n\n)? {6}",
    "tagger": r'\{\n  "format": "arbo-tagger"',
    "tuned": r'\{\n  "config": ',
}
"""How the files of each kind begin that arbo writes; of Parquet, the columns count."""


def check_output(out: Path, kind: str, endings: Collection[str], *inputs: Path | None) -> None:
    """Create the folder of an output file of a kind of `_BEGINS`.

    Raise UsageError if the file has another ending than ``endings``, cannot be written, is an input, or has content
    that does not begin as arbo's files of this kind do.
    """
    if not out.name.lower().endswith(tuple(endings)):
        raise UsageError(f"{out}: the file's ending must be {' or '.join(endings)}")
    check_no_input(out, *inputs)
    check_writable(out)
    if out.is_dir():
        raise UsageError(f"cannot write {out}: it is a folder; choose another path")
    if out.exists() and out.stat().st_size and not re.match(_BEGINS[kind], _head(out)):
        raise UsageError(f"{out} exists, and arbo did not write it; choose another path, or remove this file first")
    out.parent.mkdir(parents=True, exist_ok=True)


def _head(file: Path) -> str:
    """Return the beginning of a file, or the columns of a Parquet file; "" if it is damaged."""
    from pyarrow.parquet import read_schema

    with suppress(ArboError, OSError, ValueError):
        head = read_head(file)
        return ",".join(read_schema(file).names) if head.startswith("PAR1") else head
    return ""


def check_no_input(file: Path, *inputs: Path | None) -> None:
    """Raise UsageError if an output is an input, matches the pattern of one, or lies in an input folder."""
    target = real(file)
    for path in (Path(name) for pattern in inputs if pattern is not None for name in formats.expanded(pattern)):
        if real(path) in {target, *target.parents}:
            raise UsageError(f"{file} would change the input {path}; choose another file")
