"""Formats of documents, knowledge bases and exports: one module reads and writes each, `FORMATS` lists them.

A writer of documents takes three arguments: the documents, whose gold ids it writes; a path; and a mapping of each id
to its name. It returns counts of the items that the format changes or cannot hold. A writer of tables takes a
table and a path.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from glob import escape, glob
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args

from arbo import data
from arbo.data.objects import ENTITY_KEYS
from arbo.data.records import OnError
from arbo.errors import DataError, UsageError
from arbo.files import PathLike
from arbo.formats.files import data_files, line_pieces, read_head, read_items, read_lines

_Shared = Literal["blink", "csv", "jsonl", "parquet", "tsv", "zeshel"]
_OfLines = Literal["conll", "ecbplus", "ecbplus-events", "gsc", "hipe", "pubtator"]
DocumentFormat = Literal[_Shared, _OfLines, "bioc", "brat", "docbin", "pubannotation", "text"]
KnowledgeBaseFormat = Literal[_Shared, "index", "medic", "obo", "obographs", "skos", "umls"]
ExportFormat = Literal["csv", "tsv", "jsonl", "pubtator", "pubannotation", "bioc", "brat", "conll", "clusters"]
Ids = Literal["links", "gold"]
Inputs = PathLike | Iterable[PathLike]
"""Files, folders, patterns such as `corpus/*.txt`, or `-`, the standard input."""


class Reading(NamedTuple):
    """How to read documents or entities in a format, and how to recognise their files."""

    reader: str
    """The module and the function: one that reads files, or ``document`` or ``entity``, which makes one of a piece of a
    file. The module then has the endings of files, ``SUFFIXES``, and perhaps ``pieces``; otherwise pieces are lines."""
    looks: str
    """Pattern that recognises a file of the format; it is searched in the name (lower case, without .gz), followed by a
    line end and the first 64 KB of the file."""
    options: Mapping[str, Any] = {}
    """Options of the reader."""


class Format(NamedTuple):
    """A format: how documents and how entities are read, and the module and function of the writer."""

    documents: Reading | None = None
    entities: Reading | None = None
    writer: str | None = None


def _table(kind: str, documents: str, entities: str, writer: str | None = None) -> Format:
    return Format(
        Reading("table:read_documents", documents, {"kind": kind}),
        Reading("table:read_entities", entities, {"kind": kind}),
        writer,
    )


_CSV = r'\A(.*\.csv\n|.*\n(["\w-]+[,;])*"?(document_)?id"?[,;]["\w])'
_PARQUET = r"\A.*\nPAR1"
_BIOC = (
    r"\A.*\n(\s*<\?xml[^>]*>)?(\s*<!DOCTYPE[^>]*>)?\s*<collection\b"
    r'|\A.*\n[\s\[]*\{(?![\s\S]*"mentions"\s*:)[\s\S]*"passages"\s*:\s*\['
)

FORMATS: Mapping[str, Format] = {
    "index": Format(entities=Reading("index:read_index", r"\Aarbo-index\.json\n")),
    "parquet": _table("parquet", _PARQUET, _PARQUET),
    "docbin": Format(Reading("docbin:document", r"\A.*\.spacy\n")),
    "brat": Format(Reading("brat:read_brat", r"\A.*\.(ann|tar|tgz)\n"), writer="brat:write_brat"),
    "ecbplus": Format(Reading("ecbplus:read_ecbplus", r"\A.*\n\s*+[^\t\n]+\t[0-9]+\t[0-9]+\t\S")),
    "ecbplus-events": Format(
        Reading("ecbplus:read_ecbplus", r"(?!)", {"kind": "Event"})
    ),  # never guessed: the same files
    "conll": Format(Reading("conll:document", r"^#begin document"), writer="conll:write_conll"),
    "pubtator": Format(Reading("pubtator:document", r"\A.*\n\s*+[^|\t\n]+\|t\|"), writer="pubtator:write_pubtator"),
    "hipe": Format(Reading("hipe:document", r"\A.*\n\s*TOKEN\t.*\bNE-COARSE-LIT\b")),
    "gsc": Format(Reading("gsc:document", r"^[0-9]+\t[0-9]+\t[^\t\n]+\t\S+\s*$")),
    "bioc": Format(Reading("bioc:document", _BIOC), writer="bioc:write_bioc"),
    "pubannotation": Format(
        Reading(
            "pubannotation:document",
            r'\A.*\n[\s\[]*\{(?![\s\S]*"mentions"\s*:)[\s\S]*"(denotations|sourcedb)"\s*:',
        ),
        writer="pubannotation:write_pubannotation",
    ),
    "umls": Format(entities=Reading("umls:read_umls", r"\Amrconso\.rrf\n")),
    "obo": Format(entities=Reading("obo:entity", r"^(format-version:|\[Term\])")),
    "obographs": Format(entities=Reading("obographs:entity", r'\A.*\n\s*\{[\s\S]*"graphs"\s*:\s*\[')),
    "skos": Format(
        entities=Reading(
            "skos:read_skos",
            r"^[^\S\n]*+(@?prefix\s+[\w.-]*:\s*<|<rdf:RDF\b)|^<[^<>\s]+>\s+<[^<>\s]+>\s+[<\"_]",
        )
    ),
    "medic": Format(entities=Reading("medic:read_medic", r"\A.*\n\s*+[^|\t\n]+(\|[^|\t\n]+)*\|\|")),
    "zeshel": Format(
        Reading("zeshel:read_zeshel", r'\A.*\n\s*\{.*"context_document_id"'),
        Reading("zeshel:entity", r'\A.*\.json\n\s*\{.*"title"'),
    ),
    "blink": Format(
        Reading("blink:document", r'\A.*\n\s*\{.*"context_left"'),
        Reading("blink:entity", r'\A.*\n\s*\{(?!.*"name").*"title"'),
    ),
    "jsonl": Format(
        Reading("jsonl:document", r"\A.*\n\s*\{"),
        Reading("jsonl:entity", r'\A.*\n\s*\{.*"name"'),
        "jsonl:write_jsonl",
    ),
    "csv": _table("csv", _CSV, _CSV, "table:write_csv"),
    "tsv": _table(
        "tsv",
        r'\A(.*\.tsv\n|.*\n(.*\t)?"?(document_)?id"?\t)',
        r"\A(.*\.tsv\n|.*\n[^\n\t]+\t)",
        "table:write_tsv",
    ),
    "text": Format(Reading("text:document", r"\A(.*\.txt|-)\n(?!\s*<(\?xml|Document\b))")),
    "clusters": Format(writer="jsonl:write_clusters"),
}
"""All formats; if the patterns of several fit a file, the first of them wins."""
DOCUMENT_FORMATS = {name: one.documents for name, one in FORMATS.items() if one.documents}
KNOWLEDGE_BASE_FORMATS = {name: one.entities for name, one in FORMATS.items() if one.entities}
WRITERS = {name: FORMATS[name].writer or "" for name in get_args(ExportFormat)}
TABLES = ("csv", "tsv")
_BESIDE_OTHERS = {"csv", "jsonl", "parquet", "text", "tsv"}


def writer(format: str) -> Callable[..., Any]:  # noqa: A002
    """Return the function that writes a format; raise UsageError if it is unknown."""
    if format not in WRITERS:
        raise UsageError(f"unknown format {format!r}; known: {', '.join(WRITERS)}")
    module, function = _found(WRITERS[format])
    return getattr(module, function)  # type: ignore[no-any-return]


def _found(name: str) -> tuple[ModuleType, str]:
    module, function = name.split(":")
    return import_module(f"{__name__}.{module}"), function


def _reader(reading: Reading) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return the function that reads files, and the endings of the files that it reads in a folder."""
    module, function = _found(reading.reader)
    suffixes: tuple[str, ...] = getattr(module, "SUFFIXES", ())
    if function not in ("document", "entity"):
        return partial(getattr(module, function), **reading.options), suffixes
    how = suffixes, getattr(module, "pieces", line_pieces), getattr(module, function)
    if function == "entity":
        from arbo.formats.ontologies import read_entities

        return lambda path, on_error: read_entities(path, *how, on_error), suffixes
    return lambda path, on_error: data.Corpus(read_items(path, *how, data.Records("documents", on_error))), suffixes


def read_documents(
    path: Inputs,
    format: str | None = None,  # noqa: A002
    *,
    types: str | Iterable[str] | None = None,
    on_error: OnError = "fail",
    announce_format: Callable[[str], object] = str,
) -> data.Corpus:
    """Read documents in one of `DOCUMENT_FORMATS`, with all mentions, or only mentions of `types`.

    All inputs must have the same format; several tables count as one. If `format` is None, it is guessed from names and
    contents, and `announce_format` is called with a text that names it. If some files of a folder look like another
    format, the text also says how many look like the guessed one.

    Raises:
        UsageError: the format is unknown, no input is given, or none of the mentions has one of the types.
        DataError: a file is missing, or malformed (unless `on_error="skip"`); there are no documents; or the format
            cannot be guessed.
    """
    name, paths, read, notes = _opened(path, format, DOCUMENT_FORMATS, announce_format)
    corpus: data.Corpus = read(paths, on_error=on_error)
    if not corpus:
        raise DataError(
            f"no documents in the format {name}; check the file and the format (--format)", file=str(paths[0])
        )
    corpus.notes.update(notes)
    if types is None:
        return corpus
    type_names = {types} if isinstance(types, str) else set(types)
    chosen = corpus.of_types(type_names)
    if corpus.n_mentions and not chosen.n_mentions:
        present = sorted({kind for kind in corpus.types if kind is not None})
        known = ", ".join(present) or "none"
        raise UsageError(f"no mention has the type {' or '.join(sorted(type_names))}; types of mentions: {known}")
    return chosen


def read_jsonl(path: Inputs, *, on_error: OnError = "fail") -> data.Corpus:
    """Read documents in arbo's own format, see `read_documents`."""
    return read_documents(path, "jsonl", on_error=on_error)


def read_pubtator(path: Inputs, *, on_error: OnError = "fail") -> data.Corpus:
    """Read documents in the format of PubTator, see `read_documents`."""
    return read_documents(path, "pubtator", on_error=on_error)


def read_knowledge_base(
    path: Inputs,
    format: str | None = None,  # noqa: A002
    *,
    on_error: OnError = "fail",
    announce_format: Callable[[str], object] = str,
    columns: Mapping[str, str] | None = None,
    types: str | Iterable[str] | None = None,
) -> data.KnowledgeBase:
    """Read a knowledge base in one of `KNOWLEDGE_BASE_FORMATS`, or only its entities of `types`; see `read_documents`.

    ``columns`` maps keys of an entity to columns of CSV or TSV, as ``{"id": "code"}``. In UMLS, a type is a name, an id
    or ``"ST21pv"``, and includes the types below it, see `arbo.formats.umls`. A knowledge base without entities is a
    `DataError`, even with `on_error="skip"`.
    """
    name, paths, read, notes = _opened(path, format, KNOWLEDGE_BASE_FORMATS, announce_format)
    if columns:
        if name not in ("csv", "tsv") or (unknown := columns.keys() - ENTITY_KEYS):
            wrong = f"unknown keys: {', '.join(sorted(unknown))}" if name in ("csv", "tsv") else f"the format is {name}"
            raise UsageError(f"columns are for CSV and TSV, with keys among {', '.join(ENTITY_KEYS)}; {wrong}")
        read = partial(read, columns=columns)
    if types is not None and name == "umls":
        read, types = partial(read, types=types), None
    kb: data.KnowledgeBase = read(paths, on_error=on_error)
    if not len(kb):
        lost = "".join(f"; {what}: {count:,}" for what, count in kb.notes.items())
        raise DataError(
            f"no entities in the format {name}{lost}; check the file and the format (--kb-format)", file=str(paths[0])
        )
    kb = kb if types is None else kb.of_types(types)
    kb.notes.update(notes)
    if isinstance(path, (str, os.PathLike)) and os.path.exists(path):
        vars(kb)["source"] = {"path": os.path.abspath(path), "format": name}
    return kb


def _opened(
    path: Inputs, name: str | None, formats: Mapping[str, Reading], announce_format: Callable[[str], object]
) -> tuple[str, list[Path], Callable[..., Any], dict[str, int]]:
    """Return the format, the paths, the reader, and notes."""
    if name is not None and name.lower() not in formats:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(sorted(formats))}")
    paths = [Path(one) for one in expanded(path)]
    if name is None:
        name = _guessed(paths, formats, announce_format)
    reading = formats[name.lower()]
    read, suffixes = _reader(reading)
    if name.lower() in ("csv", "tsv", "parquet"):  # of one module
        suffixes = (f".{name.lower()}",)
    return name.lower(), paths, read, _left_out(paths, suffixes)


def _left_out(paths: list[Path], suffixes: tuple[str, ...]) -> dict[str, int]:
    """Count and name the content of folders that a reader of ``suffixes`` ignores, except hidden files."""
    folders = [path for path in paths if suffixes and path.is_dir()]
    ignored = {path for folder in folders for path in folder.iterdir()} - {*data_files(folders, suffixes)}
    names = sorted(path.name for path in ignored if not path.name.startswith("."))
    shown = ", ".join([*names[:10], *["..."] * (len(names) > 10)])
    return {f"files and subfolders left out: {shown}": len(names)} if names else {}


def expanded(path: Inputs) -> list[PathLike]:
    """Replace each pattern by the sorted files that match it; raise DataError if none does, UsageError for no path."""
    paths: list[PathLike] = []
    for one in [path] if isinstance(path, (str, os.PathLike)) else path:
        pattern = os.fspath(one)
        if not pattern:
            raise UsageError("the path is empty; is a shell variable unset?")
        plain = escape(pattern) == pattern or os.path.exists(pattern)
        files = [pattern] if plain else sorted(glob(pattern, recursive=True))
        if not files:
            raise DataError("no file matches this pattern; check it", file=pattern)
        paths += files
    if not paths:
        raise UsageError("no file to read; name at least one")
    return paths


def _guessed(paths: list[Path], formats: Mapping[str, Reading], announce_format: Callable[[str], object]) -> str:
    """Return the first format whose pattern fits one of the first 20 files, and announce it.

    Of the formats whose files often lie beside other files, choose that of most files.
    """
    inside = (filter(Path.is_file, sorted(path.iterdir())) if path.is_dir() else data_files(path) for path in paths)
    shown = list(islice((file for file in chain.from_iterable(inside) if not file.name.startswith(".")), 20))
    samples = [f"{file.name.lower().removesuffix('.gz')}\n{read_head(file)}" for file in shown]
    like: defaultdict[str, list[str]] = defaultdict(list)
    for file, sample in zip(shown, samples, strict=True):
        if name := next((name for name, reading in formats.items() if re.search(reading.looks, sample, re.M)), None):
            like[name].append(file.name)
    special = [name for name in formats if name in like.keys() - _BESIDE_OTHERS]
    if names := special[:1] or sorted(like, key=lambda name: -len(like[name])):
        chosen, *others = names
        if others and len(like[chosen]) == len(like[others[0]]):
            problem = f"{like[chosen][0]} looks like {chosen}, but {like[others[0]][0]} like {others[0]}"
            advice = "give the format (--format, --kb-format), or the files of one format"
            raise DataError(f"{problem}; {advice}", file=str(paths[0]))
        announce_format(
            f"{chosen}, like {len(like[chosen])} of {sum(map(len, like.values()))} files" if others else chosen
        )
        return chosen
    problem = "the format cannot be guessed from the name and the content; give it (--format, --kb-format)"
    if paths[0].is_dir():
        problem = (
            "the folder has no file of a known format; name files, or a pattern such as 'folder/*/*.txt' in quotes"
        )
    elif not any(sample.partition("\n")[2].strip() for sample in samples):
        raise DataError("the file is empty", file=str(paths[0]))
    else:
        list(read_lines(shown[0]))  # raises if the file is not text
    raise DataError(f"{problem}; formats: {', '.join(sorted(formats))}", file=str(paths[0]))
