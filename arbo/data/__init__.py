"""Documents, mentions, entities, the knowledge base, and gold annotations.

Other rooms import the values below from here, and everything else from its module. A module is imported when one of
its names is first used, so that a help text loads neither numpy nor pyarrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from arbo.declared import declared

if TYPE_CHECKING:
    from arbo.data.arrow import Arrays, coded, codes_of, numbers, rows_among, starts, strings
    from arbo.data.corpus import Corpus, Inputs, MentionInput, mention_inputs, names_of
    from arbo.data.documents import Document, Entity, Marked, Mention, compare, marked_document, span_between, text_of
    from arbo.data.fingerprint import learnt_from
    from arbo.data.gold import RECALL_AT, Gold
    from arbo.data.gold_ids import ids_in
    from arbo.data.groups import grouped
    from arbo.data.knowledge_base import KnowledgeBase
    from arbo.data.records import OnError, Records
    from arbo.data.tables import Tables, metadata_in, names_in, numbered

_HOME = declared(__file__)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
