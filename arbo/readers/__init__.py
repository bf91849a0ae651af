"""Readers of foreign formats, one module for each format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Literal

from arbo.data.corpus import Corpus
from arbo.data.knowledge_base import KnowledgeBase
from arbo.data.records import OnError
from arbo.errors import DataError, UsageError
from arbo.files import PathLike

DocumentFormat = Literal[
    "blink",
    "brat",
    "conll",
    "ecbplus",
    "ecbplus-events",
    "gsc",
    "hipe",
    "jsonl",
    "pubtator",
    "text",
    "zeshel",
]
KnowledgeBaseFormat = Literal["blink", "jsonl", "medic", "obo", "tsv", "umls", "zeshel"]

DOCUMENT_FORMATS: Mapping[DocumentFormat, str] = {
    "blink": "arbo.readers.blink:read_blink",
    "brat": "arbo.readers.brat:read_brat",
    "conll": "arbo.readers.conll:read_conll",
    "ecbplus": "arbo.readers.ecbplus:read_ecbplus",
    "ecbplus-events": "arbo.readers.ecbplus:read_ecbplus_events",
    "gsc": "arbo.readers.gsc:read_gsc",
    "hipe": "arbo.readers.hipe:read_hipe",
    "jsonl": "arbo.readers.jsonl:read_jsonl",
    "pubtator": "arbo.readers.pubtator:read_pubtator",
    "text": "arbo.readers.text:read_plain",
    "zeshel": "arbo.readers.zeshel:read_zeshel",
}
KNOWLEDGE_BASE_FORMATS: Mapping[KnowledgeBaseFormat, str] = {
    "blink": "arbo.readers.blink:read_blink_entities",
    "jsonl": "arbo.readers.jsonl:read_entities",
    "medic": "arbo.readers.medic:read_medic",
    "obo": "arbo.readers.obo:read_obo",
    "tsv": "arbo.readers.tsv:read_tsv",
    "umls": "arbo.readers.umls:read_umls",
    "zeshel": "arbo.readers.zeshel:read_zeshel_entities",
}


def read_documents(
    path: PathLike,
    format: str,  # noqa: A002
    *,
    types: str | Iterable[str] | None = None,
    on_error: OnError = "fail",
) -> Corpus:
    """Read documents in one of `DOCUMENT_FORMATS`, with all mentions, or only those of `types`.

    Raises:
        UsageError: the format is unknown, or no mention has one of the types.
        DataError: malformed data, unless `on_error="skip"`.

    """
    corpus: Corpus = _reader(DOCUMENT_FORMATS, format)(path, on_error=on_error)
    if types is None:
        return corpus
    wanted = {types} if isinstance(types, str) else set(types)
    chosen = corpus.of_types(wanted)
    if corpus.mentions and not chosen.mentions:
        present = sorted({mention.type for mention in corpus.mentions if mention.type is not None})
        known = ", ".join(present) or "none"
        raise UsageError(f"no mention has the type {' or '.join(sorted(wanted))}; types here: {known}")
    return chosen


def read_knowledge_base(
    path: PathLike,
    format: str,  # noqa: A002
    *,
    on_error: OnError = "fail",
) -> KnowledgeBase:
    """Read a knowledge base in one of `KNOWLEDGE_BASE_FORMATS`; raise the errors of `read_documents`.

    A knowledge base without entities is a `DataError`, also with `on_error="skip"`.
    """
    kb: KnowledgeBase = _reader(KNOWLEDGE_BASE_FORMATS, format)(path, on_error=on_error)
    if not len(kb):
        raise DataError(f"no entities, read as {format}; check --kb-format", file=str(path))
    return kb


def _reader(formats: Mapping[Any, str], name: str) -> Callable[..., Any]:
    if name not in formats:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(sorted(formats))}")
    module, function = formats[name].split(":")
    reader: Callable[..., Any] = getattr(import_module(module), function)
    return reader
