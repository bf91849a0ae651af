"""Formats of documents, knowledge bases and exports: one module reads and writes each.

A module reads files with `read_documents` and `read_entities`. Or it has `document` and `entity`, which make one of a
piece of a file, and `SUFFIXES`, the endings of files; the pieces are lines, unless it has a function `pieces`. A module
of graphs has `graph_in`, which reads the graph of a folder, see `arbo.formats.graph`. For files see
`arbo.formats.files`; a mention without an id gets one by `arbo.data.documents.mention_ids`.

`document_lines` yields the lines of a document with its gold ids, and counts what the format changes or cannot hold. Or
`write_NAME` writes the format: for documents it takes them, a path, and a mapping of each id to its name, and returns
such counts. A writer of tables takes a table and a path; one of graphs takes the folder of the graph, a path, and the
text and the cluster of each node.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from glob import escape, glob
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args

from arbo import data
from arbo.data.objects import ENTITY_KEYS
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, write_lines
from arbo.formats.files import Paths, data_files, each_path, line_pieces, read_head, read_items, read_lines

_Shared = Literal["csv", "jsonl", "parquet", "tsv", "xlsx"]
_OfLines = Literal["conll", "corefud", "ecbplus", "ecbplus-events", "gsc", "hipe", "pubtator"]
Graph = Literal["graphrag", "lightrag", "neo4j"]
DocumentFormat = Literal[_Shared, _OfLines, Graph, "bioc", "brat", "docbin", "pubmed", "text"]
KnowledgeBaseFormat = Literal[_Shared, "index", "medic", "obo", "obographs", "umls"]
ClusterFormat = Literal["conll", "corefud", "jsonl"]
_OfRuns = Literal["csv", "tsv", "xlsx", "clusters"]
ExportFormat = Literal[_OfRuns, "jsonl", "pubtator", "bioc", "brat", "conll", "corefud", Graph]
Ids = Literal["links", "entities", "gold"]
_Items = Literal["documents", "entities"]
Inputs = PathLike | Iterable[PathLike]  # files, folders, patterns such as `corpus/*.txt`, or `-`, the standard input

_CSV = r'\A(.*\.csv\n|.*\n(["\w-]+[,;])*"?(document_)?id"?[,;]["\w])'
_XLSX = r"\A.*\.xlsx\n"
_PARQUET = r"\A.*\nPAR1"
_TAGGED = r"(?>[^\n]{0,300}[\t ](?:O|[BIES]-\w+)(?:\t[^\n]{0,300})?\r?\n)"
"""A line of a word with the tag of a named entity, and perhaps a link."""

DOCUMENT_FORMATS: Mapping[str, str] = {
    "graphrag": r"\Aentities\.parquet\n",
    "lightrag": r"\Agraph_chunk_entity_relation\.graphml\n",
    "neo4j": r"\A.*\.csv\n[^\n]*:(START_)?ID\b",
    "parquet": _PARQUET,
    "docbin": r"\A.*\.spacy\n",
    "brat": r"\A.*\.ann\n",
    "corefud": r"^#\s*global\.Entity\b",
    "ecbplus": r"\A.*\n\s*+[^\t\n]+\t[0-9]+\t[0-9]+\t\S",
    "ecbplus-events": r"(?!)",  # never guessed: the same files
    "conll": r"^#begin document",
    "pubtator": r"\A.*\n\s*+[^|\t\n]+\|t\|",
    "hipe": rf"\A.*\n\s*TOKEN\t.*\bNE-COARSE-LIT\b|^(?=[^\n]{{0,300}}[\t ][BIS]-){_TAGGED}{_TAGGED}",
    "pubmed": r"^PMID *- ?[0-9]|<PubmedArticle",
    "gsc": r"^[0-9]+\t[0-9]+\t[^\t\n]+\t\S+\s*$",
    "bioc": r"\A.*\n(\s*<\?xml[^>]*>)?(\s*<!DOCTYPE[^>]*>)?\s*<collection\b|"
    r'\A.*\n[\s\[]*\{(?![\s\S]*"mentions"\s*:)[\s\S]*"passages"\s*:\s*\[',
    "jsonl": r"\A.*\n\s*\{",
    "csv": _CSV,
    "xlsx": _XLSX,
    "tsv": r'\A(.*\.tsv\n|.*\n(.*\t)?"?(document_)?id"?\t)',
    "text": r"\A(.*\.txt|-)\n(?!\s*<(\?xml|Document\b))",
}
"""The formats of documents, each with the pattern of its files; of those that fit a file, the first wins.

The pattern is searched in the name (lower case, without .gz), followed by a line end and the first 64 KB of the file.
"""
KNOWLEDGE_BASE_FORMATS: Mapping[str, str] = {
    "index": r"\Aarbo-index\.json\n",
    "parquet": _PARQUET,
    "umls": r"\Amrconso\.rrf\n",
    "obo": r"^(format-version:|\[Term\])",
    "obographs": r'\A.*\n\s*\{[\s\S]*"graphs"\s*:\s*\[',
    "medic": r"\A.*\n\s*+[^|\t\n]+(\|[^|\t\n]+)*\|\|",
    "jsonl": r'\A.*\n\s*\{.*"name"',
    "csv": _CSV,
    "xlsx": _XLSX,
    "tsv": r"\A(.*\.tsv\n|.*\n[^\n\t]+\t)",
}
"""The formats of knowledge bases; for the patterns see `DOCUMENT_FORMATS`."""
WRITERS: tuple[str, ...] = get_args(ExportFormat)
_MODULES = {"clusters": "jsonl", "csv": "table", "ecbplus-events": "ecbplus", "parquet": "table", "tsv": "table"}
"""The modules of formats, if they do not have the names of these."""
TABLES, CLUSTERS = ("csv", "tsv", "xlsx"), ("clusters", "conll", "corefud")
GRAPHS: tuple[str, ...] = get_args(Graph)
FOLDERS = ("brat", *GRAPHS)


def writer(format: str) -> Callable[..., Any]:  # noqa: A002
    """Return the function that writes a format; raise UsageError if it is unknown."""
    if format not in WRITERS:
        raise UsageError(f"unknown format {format!r}; known: {', '.join(WRITERS)}")
    module = _module(format)
    if format in GRAPHS:
        return partial(_module("graph").write_merged, graph_in=module.graph_in)
    return getattr(module, f"write_{format}", None) or partial(_write, module.document_lines)


def _write(lines_of: Any, documents: Iterable[data.Document], path: PathLike, _: object) -> Counter[str]:
    notes: Counter[str] = Counter()
    write_lines((line for document in documents for line in lines_of(document, notes)), path)
    return notes


def _module(name: str) -> ModuleType:
    return import_module(f"{__name__}.{_MODULES.get(name, name)}")


def _reader(name: str, what: _Items) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Return the function that reads files, and the endings of the files that it reads in a folder."""
    if name == "index":
        return _read_indexes, ()
    module = _module("csv" if name == "xlsx" else name)
    if name in GRAPHS:
        return partial(_module("graph").read_documents, graph_in=module.graph_in, format_=name), ()
    suffixes: tuple[str, ...] = (f".{name}",) if name in (*TABLES, "parquet") else getattr(module, "SUFFIXES", ())
    if read := getattr(module, f"read_{what}", None):
        return (partial(read, kind=name) if name in (*_MODULES, "xlsx") else read), suffixes
    pieces = getattr(module, "pieces", line_pieces)
    if what == "entities":
        read = _module("ontologies").read_entities
        return partial(read, suffixes=suffixes, pieces=pieces, build=module.entity), suffixes

    def read_all(path: Paths, on_error: data.OnError) -> data.Corpus:
        return data.Corpus(read_items(path, suffixes, pieces, module.document, data.Records("documents", on_error)))

    return read_all, suffixes


def _read_indexes(path: Paths, **_: object) -> data.KnowledgeBase:
    """Open an index, or join several; a damaged one is an error whatever `on_error` is."""
    first, *others = map(data.KnowledgeBase.from_index, each_path(path))
    return first.changed(chain(first, *others)) if others else first


def read_documents(
    path: Inputs,
    format: str | None = None,  # noqa: A002
    *,
    types: str | Iterable[str] | None = None,
    on_error: data.OnError = "fail",
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
    paths, name = _located(path, format, DOCUMENT_FORMATS, announce_format)
    corpus: data.Corpus = _read(paths, name, "documents", on_error=on_error)
    if types is None:
        return corpus
    type_names = {types} if isinstance(types, str) else set(types)
    chosen = corpus.of_types(type_names)
    if corpus.n_mentions and not chosen.n_mentions:
        known = ", ".join(sorted({kind for kind in corpus.types if kind is not None})) or "none"
        raise UsageError(f"no mention has the type {' or '.join(sorted(type_names))}; types of mentions: {known}")
    return chosen


def read_knowledge_base(
    path: Inputs,
    format: str | None = None,  # noqa: A002
    *,
    on_error: data.OnError = "fail",
    announce_format: Callable[[str], object] = str,
    columns: Mapping[str, str] | None = None,
    types: str | Iterable[str] | None = None,
) -> data.KnowledgeBase:
    """Read a knowledge base in one of `KNOWLEDGE_BASE_FORMATS`, or only its entities of `types`; see `read_documents`.

    ``columns`` maps keys of an entity to columns of CSV or TSV, as ``{"id": "code"}``. In UMLS, a type is a name, an id
    or ``"ST21pv"``, and includes the types below it, see `arbo.formats.umls`. A knowledge base without entities is a
    `DataError`, even with `on_error="skip"`.
    """
    paths, name = _located(path, format, KNOWLEDGE_BASE_FORMATS, announce_format)
    if columns and (name not in ("csv", "tsv") or columns.keys() - ENTITY_KEYS):
        given = f"the format is {name}, and the keys are {', '.join(columns)}"
        raise UsageError(f"columns are for CSV and TSV, with keys among {', '.join(ENTITY_KEYS)}; {given}")
    options = {"columns": columns} if columns else {"types": types} if types is not None and name == "umls" else {}
    kb: data.KnowledgeBase = _read(paths, name, "entities", on_error=on_error, **options)
    if types is not None and name != "umls":
        kb = kb.of_types(types)
    if isinstance(path, (str, os.PathLike)) and os.path.exists(path):
        kb.source = {"path": os.path.abspath(path), "format": name}
    return kb


def _located(
    path: Inputs, name: str | None, formats: Mapping[str, str], announce: Callable[[str], object]
) -> tuple[list[Path], str]:
    """Return the paths, and the name of their format in lower case; without one, guess and announce it."""
    paths = expanded(path)
    if name is not None and name.lower() not in formats:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(sorted(formats))}")
    return paths, _guessed(paths, formats, announce) if name is None else name.lower()


def _read(paths: list[Path], name: str, what: _Items, **options: Any) -> Any:
    read, suffixes = _reader(name, what)
    if len(items := read(paths, **options)):
        items.notes.update(_left_out(paths, suffixes))
        return items
    if not items.notes and all(path.is_file() and not read_head(path).strip() for path in paths):
        raise DataError("the file is empty", file=str(paths[0]))
    lost = "".join(f"; {note}: {count:,}" for note, count in items.notes.items())
    advice = f"check the file and the format ({'--format' if what == 'documents' else '--kb-format'})"
    raise DataError(f"no {what} in the format {name}{lost}; {advice}", file=str(paths[0]))


def _left_out(paths: list[Path], suffixes: tuple[str, ...]) -> dict[str, int]:
    """Count and name the content of folders that a reader of ``suffixes`` ignores, except hidden and `.conf` files."""
    folders = [path for path in paths if suffixes and path.is_dir()]
    ignored = {path for folder in folders for path in folder.iterdir()} - {*data_files(folders, suffixes)}
    names = sorted(path.name for path in ignored if not path.name.startswith(".") and path.suffix != ".conf")
    shown = ", ".join([*names[:10], *["..."] * (len(names) > 10)])
    return {f"entries of folders left out: {shown}": len(names)} if names else {}


def expanded(path: Inputs) -> list[Path]:
    """Replace each pattern by the sorted files that match it; raise DataError if none does, UsageError for no path."""
    paths: list[Path] = []
    for one in [path] if isinstance(path, (str, os.PathLike)) else path:
        if not (pattern := os.fspath(one)):
            raise UsageError("the path is empty; is a shell variable unset?")
        plain = escape(pattern) == pattern or os.path.exists(pattern)
        if not (files := [pattern] if plain else sorted(glob(pattern, recursive=True))):
            raise DataError("no file matches this pattern; check it", file=pattern)
        paths += map(Path, files)
    if not paths:
        raise UsageError("no file to read; name at least one")
    return paths


def _guessed(paths: list[Path], formats: Mapping[str, str], announce_format: Callable[[str], object]) -> str:
    """Return and announce the first format whose pattern fits one of the first 20 files.

    Of the formats whose files often lie beside other files, choose that of most files.
    """
    inside = (filter(Path.is_file, sorted(path.iterdir())) if path.is_dir() else data_files(path) for path in paths)
    shown = list(islice((file for file in chain.from_iterable(inside) if not file.name.startswith(".")), 20))
    samples = [f"{file.name.lower().removesuffix('.gz')}\n{read_head(file)}" for file in shown]
    guesses = [next((name for name, form in formats.items() if re.search(form, text, re.M)), "") for text in samples]
    counts = Counter(filter(None, guesses))
    special = [name for name in formats if name in counts.keys() - {"csv", "jsonl", "parquet", "text", "tsv"}]
    if names := special[:1] or [name for name, _ in counts.most_common()]:
        chosen, *others = names
        if others and counts[chosen] == counts[others[0]]:
            one, two = (shown[guesses.index(name)].name for name in names[:2])
            advice = "give the format (--format, --kb-format), or the files of one format"
            raise DataError(f"{one} looks like {chosen}, but {two} like {others[0]}; {advice}", file=str(paths[0]))
        announce_format(chosen + (f", like {counts[chosen]} of {counts.total()} files" if others else ""))
        return chosen
    problem = "the format cannot be guessed from the name and the content; give it (--format, --kb-format)"
    if paths[0].is_dir():
        problem = "the folder has no file of a known format; name files, or a pattern like 'folder/*/*.txt' in quotes"
    elif not any(sample.partition("\n")[2].strip() for sample in samples):
        raise DataError("the file is empty", file=str(paths[0]))
    elif re.search(r"\bowl#|^Ontology\(", samples[0], re.M):
        problem = "an ontology in OWL; convert it to OBO, as by robot convert"
    elif re.match(r".*\n\s*\[", samples[0]):
        problem = "an array in JSON; write one object a line, as pandas does with to_json(orient='records', lines=True)"
    else:
        list(read_lines(shown[0]))  # raises if the file is not text
    raise DataError(f"{problem}; formats: {', '.join(sorted(formats))}", file=str(paths[0]))
