"""Readers of documents and knowledge bases, one module for each format."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from glob import escape, glob
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from arbo.data import Corpus, DocumentRecords, Entity, KnowledgeBase, OnError, Records
from arbo.data.objects import ENTITY_KEYS
from arbo.data.records import Item
from arbo.errors import DataError, UsageError
from arbo.files import PathLike
from arbo.readers.files import data_files, read_head, read_lines

_Shared = Literal["blink", "csv", "jsonl", "parquet", "tsv", "zeshel"]
_OfLines = Literal["conll", "ecbplus", "ecbplus-events", "gsc", "hipe", "pubtator"]
DocumentFormat = Literal[_Shared, _OfLines, "bioc", "brat", "docbin", "pubannotation", "text"]
KnowledgeBaseFormat = Literal[_Shared, "index", "medic", "obo", "obographs", "skos", "umls"]
Inputs = PathLike | Iterable[PathLike]
"""Files, folders, patterns such as `corpus/*.txt`, or `-`, the standard input."""


class Format(NamedTuple):
    """How to read a format, and how to recognise its files."""

    reader: str
    looks: str
    """Pattern that recognises a file of the format; it is searched in the name (lower case, without .gz), followed by a
    line end and the first 64 KB of the file."""
    options: Mapping[str, Any] = {}
    """Options of the reader."""
    together: bool = False
    """Whether the reader reads several paths in one call."""


_BESIDE_OTHERS = {"csv", "jsonl", "parquet", "text", "tsv"}
_CSV = r'\A(.*\.csv\n|.*\n(["\w-]+[,;])*"?(document_)?id"?[,;]["\w])'

DOCUMENT_FORMATS: Mapping[DocumentFormat, Format] = {
    "parquet": Format("arbo.readers.table:read_documents", r"\A.*\nPAR1", {"kind": "parquet"}, together=True),
    "docbin": Format("arbo.readers.docbin:read_docbin", r"\A.*\.spacy\n"),
    "brat": Format("arbo.readers.brat:read_brat", r"\A.*\.(ann|tar|tgz)\n"),
    "ecbplus": Format("arbo.readers.ecbplus:read_ecbplus", r"\A.*\n\s*+[^\t\n]+\t[0-9]+\t[0-9]+\t\S"),
    "ecbplus-events": Format("arbo.readers.ecbplus:read_ecbplus_events", r"(?!)"),  # never guessed: the same files
    "conll": Format("arbo.readers.conll:read_conll", r"^#begin document"),
    "pubtator": Format("arbo.readers.pubtator:read_pubtator", r"\A.*\n\s*+[^|\t\n]+\|t\|"),
    "hipe": Format("arbo.readers.hipe:read_hipe", r"\A.*\n\s*TOKEN\t.*\bNE-COARSE-LIT\b"),
    "gsc": Format("arbo.readers.gsc:read_gsc", r"^[0-9]+\t[0-9]+\t[^\t\n]+\t\S+\s*$"),
    "bioc": Format(
        "arbo.readers.bioc:read_bioc",
        r"\A.*\n(\s*<\?xml[^>]*>)?(\s*<!DOCTYPE[^>]*>)?\s*<collection\b"
        r'|\A.*\n[\s\[]*\{(?![\s\S]*"mentions"\s*:)[\s\S]*"passages"\s*:\s*\[',
    ),
    "pubannotation": Format(
        "arbo.readers.pubannotation:read_pubannotation",
        r'\A.*\n[\s\[]*\{(?![\s\S]*"mentions"\s*:)[\s\S]*"(denotations|sourcedb)"\s*:',
    ),
    "zeshel": Format("arbo.readers.zeshel:read_zeshel", r'\A.*\n\s*\{.*"context_document_id"'),
    "blink": Format("arbo.readers.blink:read_blink", r'\A.*\n\s*\{.*"context_left"'),
    "jsonl": Format("arbo.readers.jsonl:read_jsonl", r"\A.*\n\s*\{", together=True),
    "csv": Format("arbo.readers.table:read_documents", _CSV, {"kind": "csv"}, together=True),
    "tsv": Format(
        "arbo.readers.table:read_documents",
        r'\A(.*\.tsv\n|.*\n(.*\t)?"?(document_)?id"?\t)',
        {"kind": "tsv"},
        together=True,
    ),
    "text": Format("arbo.readers.text:read_plain", r"\A(.*\.txt|-)\n(?!\s*<(\?xml|Document\b))"),
}
"""Formats of documents; if several patterns fit a file, the first of them wins."""
KNOWLEDGE_BASE_FORMATS: Mapping[KnowledgeBaseFormat, Format] = {
    "index": Format("arbo.readers.index:read_index", r"\Aarbo-index\.json\n"),
    "parquet": Format("arbo.readers.table:read_entities", r"\A.*\nPAR1", {"kind": "parquet"}, together=True),
    "umls": Format("arbo.readers.umls:read_umls", r"\Amrconso\.rrf\n"),
    "obo": Format("arbo.readers.obo:read_obo", r"^(format-version:|\[Term\])"),
    "obographs": Format("arbo.readers.obographs:read_obographs", r'\A.*\n\s*\{[\s\S]*"graphs"\s*:\s*\['),
    "skos": Format(
        "arbo.readers.skos:read_skos",
        r"^[^\S\n]*+(@?prefix\s+[\w.-]*:\s*<|<rdf:RDF\b)|^<[^<>\s]+>\s+<[^<>\s]+>\s+[<\"_]",
    ),
    "medic": Format("arbo.readers.medic:read_medic", r"\A.*\n\s*+[^|\t\n]+(\|[^|\t\n]+)*\|\|"),
    "zeshel": Format("arbo.readers.zeshel:read_zeshel_entities", r'\A.*\.json\n\s*\{.*"title"'),
    "jsonl": Format("arbo.readers.jsonl:read_entities", r'\A.*\n\s*\{.*"name"'),
    "blink": Format("arbo.readers.blink:read_blink_entities", r'\A.*\n\s*\{.*"title"'),
    "csv": Format("arbo.readers.table:read_entities", _CSV, {"kind": "csv"}, together=True),
    "tsv": Format("arbo.readers.table:read_entities", r"\A(.*\.tsv\n|.*\n[^\n\t]+\t)", {"kind": "tsv"}, together=True),
}
"""Formats of knowledge bases; see `DOCUMENT_FORMATS`."""


def read_documents(
    path: Inputs,
    format: str | None = None,  # noqa: A002
    *,
    types: str | Iterable[str] | None = None,
    on_error: OnError = "fail",
    told: Callable[[str], object] = str,
) -> Corpus:
    """Read documents in one of `DOCUMENT_FORMATS`, with all mentions, or only mentions of `types`.

    All inputs must have the same format; several tables count as one. If `format` is None, it is guessed from names and
    contents, and `told` is called with a text that names the guessed format. If some files of a folder look like
    another format, the text also says how many look like the guessed one.

    Raises:
        UsageError: the format is unknown, no input is given, or none of the mentions has one of the types.
        DataError: a file is missing, or malformed (unless `on_error="skip"`); there are no documents; or the format
            cannot be guessed.
    """
    name, first, paths, read, notes = _opened(path, format, DOCUMENT_FORMATS, told)
    corpus: Corpus
    if len(paths) == 1:
        corpus = read(paths[0], on_error=on_error)
    else:
        corpus = Corpus(_joined(paths, read, DocumentRecords(on_error), on_error))
    if not corpus:
        raise DataError(f"no documents in the format {name}; check the file and the format (--format)", file=first)
    corpus.notes.update(notes)
    if types is None:
        return corpus
    wanted = {types} if isinstance(types, str) else set(types)
    chosen = corpus.of_types(wanted)
    if corpus.n_mentions and not chosen.n_mentions:
        present = sorted({kind for kind in corpus.types if kind is not None})
        known = ", ".join(present) or "none"
        raise UsageError(f"no mention has the type {' or '.join(sorted(wanted))}; types of mentions: {known}")
    return chosen


def read_knowledge_base(
    path: Inputs,
    format: str | None = None,  # noqa: A002
    *,
    on_error: OnError = "fail",
    told: Callable[[str], object] = str,
    columns: Mapping[str, str] | None = None,
    types: str | Iterable[str] | None = None,
) -> KnowledgeBase:
    """Read a knowledge base in one of `KNOWLEDGE_BASE_FORMATS`, or only its entities of `types`; see `read_documents`.

    ``columns`` maps keys of an entity to columns of CSV or TSV, as ``{"id": "code"}``. In UMLS, a type is a name, an id
    or ``"ST21pv"``, and includes the types below it, see `arbo.readers.umls`. A knowledge base without entities is a
    `DataError`, even with `on_error="skip"`.
    """
    name, first, paths, read, notes = _opened(path, format, KNOWLEDGE_BASE_FORMATS, told)
    if columns:
        if name not in ("csv", "tsv") or (unknown := columns.keys() - ENTITY_KEYS):
            wrong = f"unknown keys: {', '.join(sorted(unknown))}" if name in ("csv", "tsv") else f"the format is {name}"
            raise UsageError(f"columns are for CSV and TSV, with keys among {', '.join(ENTITY_KEYS)}; {wrong}")
        read = partial(read, columns=columns)
    if types is not None and name == "umls":
        read, types = partial(read, types=types), None
    kb: KnowledgeBase
    if len(paths) == 1:
        kb = read(paths[0], on_error=on_error)
    else:
        records: Records[Entity] = _joined(paths, read, Records("entities", on_error), on_error)
        kb = KnowledgeBase((), records.notes).changed(records)
    if not len(kb):
        lost = "".join(f"; {what}: {count:,}" for what, count in kb.notes.items())
        raise DataError(
            f"no entities in the format {name}{lost}; check the file and the format (--kb-format)", file=first
        )
    kb = kb if types is None else kb.of_types(types)
    kb.notes.update(notes)
    if isinstance(path, (str, os.PathLike)) and os.path.exists(path):
        vars(kb)["source"] = {"path": os.path.abspath(path), "format": name}
    return kb


def _opened(
    path: Inputs, name: str | None, formats: Mapping[Any, Format], told: Callable[[str], object]
) -> tuple[str, str, list[Any], Callable[..., Any], dict[str, int]]:
    """Return the format, the first path, the arguments of the calls of the reader, the reader, and notes.

    Some formats read all paths in one call, others one by one.
    """
    if name is not None and name.lower() not in formats:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(sorted(formats))}")
    paths = [Path(one) for one in expanded(path)]
    if name is None:
        name = _guessed(paths, formats, told)
    format_ = formats[name.lower()]
    module_name, function = format_.reader.split(":")
    module, kind = import_module(module_name), format_.options.get("kind")
    read = partial(getattr(module, function), **format_.options)
    notes = _left_out(paths, (f".{kind}",) if kind else getattr(module, "SUFFIXES", ()))
    return name.lower(), str(paths[0]), [paths] if format_.together else paths, read, notes


def _left_out(paths: list[Path], suffixes: tuple[str, ...]) -> dict[str, int]:
    """Count and name the content of folders that a reader of ``suffixes`` ignores, except hidden files."""
    folders = [path for path in paths if suffixes and path.is_dir()]
    ignored = {path for folder in folders for path in folder.iterdir()} - {*data_files(folders, suffixes)}
    names = sorted(path.name for path in ignored if not path.name.startswith("."))
    shown = ", ".join([*names[:10], *["..."] * (len(names) > 10)])
    return {f"files and subfolders left out: {shown}": len(names)} if names else {}


def expanded(path: Inputs) -> list[PathLike]:
    """Replace each pattern by the sorted files that match it; raise DataError if none does, UsageError for no path."""
    found: list[PathLike] = []
    for one in [path] if isinstance(path, (str, os.PathLike)) else path:
        pattern = os.fspath(one)
        if not pattern:
            raise UsageError("the path is empty; is a shell variable unset?")
        plain = escape(pattern) == pattern or os.path.exists(pattern)
        files = [pattern] if plain else sorted(glob(pattern, recursive=True))
        if not files:
            raise DataError("no file matches this pattern; check it", file=pattern)
        found += files
    if not found:
        raise UsageError("no file to read; name at least one")
    return found


def _guessed(paths: list[Path], formats: Mapping[Any, Format], told: Callable[[str], object]) -> str:
    """Return the first format whose pattern fits one of the first 20 files, and tell it.

    Of the formats whose files often lie beside other files, choose that of most files.
    """
    inside = (filter(Path.is_file, sorted(path.iterdir())) if path.is_dir() else data_files(path) for path in paths)
    shown = list(islice((file for file in chain.from_iterable(inside) if not file.name.startswith(".")), 20))
    samples = [f"{file.name.lower().removesuffix('.gz')}\n{read_head(file)}" for file in shown]
    like: defaultdict[str, list[str]] = defaultdict(list)
    for file, sample in zip(shown, samples, strict=True):
        if name := next((name for name, format_ in formats.items() if re.search(format_.looks, sample, re.M)), None):
            like[name].append(file.name)
    special = [name for name in formats if name in like.keys() - _BESIDE_OTHERS]
    chosen, *others = special[:1] or sorted(like, key=lambda name: -len(like[name])) or [None]
    if others and len(like[chosen]) == len(like[others[0]]):
        problem = f"{like[chosen][0]} looks like {chosen}, but {like[others[0]][0]} like {others[0]}"
        raise DataError(
            f"{problem}; give the format (--format, --kb-format), or the files of one format", file=str(paths[0])
        )
    if chosen:
        told(f"{chosen}, like {len(like[chosen])} of {sum(map(len, like.values()))} files" if others else chosen)
        return str(chosen)
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


def _joined(paths: list[Path], read: Callable[..., Any], records: Records[Item], on_error: OnError) -> Records[Item]:
    for path in paths:
        part = read(path, on_error=on_error)
        records.notes.update(part.notes)
        items: Iterable[Any] = part.tables.each() if isinstance(part, Corpus) and part.tables else part
        for item in items:
            with records.record(path):
                records.add(item, path)
    return records
