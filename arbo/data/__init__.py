"""Documents, mentions, entities, the knowledge base, and gold annotations.

Other rooms import the values below from here, and everything else from its module. A module is imported when one of
its names is first used, so that a help text loads neither numpy nor pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arbo.data.corpus import Corpus as Corpus
    from arbo.data.documents import Document as Document, Marked as Marked, Mention as Mention
    from arbo.data.entities import Entity as Entity
    from arbo.data.inputs import MentionInput as MentionInput, mention_inputs as mention_inputs, names_of as names_of
    from arbo.data.knowledge_base import KnowledgeBase as KnowledgeBase
    from arbo.data.records import DocumentRecords as DocumentRecords, OnError as OnError, Records as Records

_NAMES = {
    "corpus": "Corpus",
    "documents": "Document Marked Mention",
    "entities": "Entity",
    "inputs": "MentionInput mention_inputs names_of",
    "knowledge_base": "KnowledgeBase",
    "records": "DocumentRecords OnError Records",
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _NAMES.items() if name in names.split()), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
