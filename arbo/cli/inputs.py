"""Read the knowledge base and documents of options; notes about irregularities go to stderr."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from arbo import readers
from arbo.cli import console

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus
    from arbo.data.gold import Gold
    from arbo.data.knowledge_base import KnowledgeBase
    from arbo.data.records import OnError
    from arbo.readers import DocumentFormat, KnowledgeBaseFormat


def read_kb(
    path: Path, format_: KnowledgeBaseFormat, xrefs: list[str] | None, *, no_generic_names: bool = False
) -> KnowledgeBase:
    """Read a knowledge base, with cross-references of these prefixes as ids, and all names or none that is generic."""
    kb = readers.read_knowledge_base(path, format_)
    if xrefs:
        kb = kb.through_xrefs(*xrefs)
    _tell(kb.notes, path)
    if no_generic_names:
        generic = kb.generic_names()
        kb = kb.without_names(generic)
        console.say(f"{path.name}: left out {len(generic):,} generic names{': ' * bool(generic)}{', '.join(generic)}")
    return kb


def read_documents(path: Path, format_: DocumentFormat, types: list[str] | None, on_error: OnError) -> Corpus:
    """Read documents, with all mentions or only those of these types."""
    documents = readers.read_documents(path, format_, types=types, on_error=on_error)
    _tell(documents.notes, path)
    return documents


def _tell(notes: Mapping[str, int], path: Path) -> None:
    for note, count in notes.items():
        console.say(f"{path.name}: {count:,} {note}")


def read_gold(documents: Corpus, kb: KnowledgeBase | None) -> Gold:
    """Look up the gold ids of documents, and warn of a doubtful one."""
    from arbo.data.gold import Gold

    gold = Gold.of(documents, kb)
    if doubt := gold.doubt():
        console.warn(doubt)
    return gold


def tell_known(documents: Corpus, kb: KnowledgeBase) -> None:
    """Print how many mentions of training documents have an entity."""
    gold = read_gold(documents, kb)
    known, annotated = int(gold.in_kb.sum()), int(gold.has_id.sum())
    console.say(f"{known:,} of {annotated:,} mentions with an id have it in the knowledge base: they are trained on")
    if known < annotated / 2:
        console.warn(
            "most ids are missing from the knowledge base; check that the ids match. --kb-xrefs MSH, for example, "
            "accepts MeSH ids"
        )
