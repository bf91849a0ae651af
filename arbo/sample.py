"""The collection that comes with arbo: invented bulletins of an island research station."""

from __future__ import annotations

from importlib.resources import as_file, files

from arbo.documents import Corpus
from arbo.knowledge_base import KnowledgeBase
from arbo.readers.jsonl import read_entities, read_jsonl


def load_sample() -> tuple[Corpus, KnowledgeBase]:
    """Read the embedded documents, with gold annotations, and their knowledge base."""
    folder = files("arbo.data")
    with as_file(folder / "documents.jsonl") as documents, as_file(folder / "entities.jsonl") as entities:
        return read_jsonl(documents), read_entities(entities)
