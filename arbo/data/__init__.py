"""Documents, mentions, entities, the knowledge base, and gold annotations.

Other rooms import the values below from here, and everything else from its module. These load
pyarrow, so that reading files is quick.
"""

from arbo.data.corpus import Corpus as Corpus
from arbo.data.documents import Document as Document, Marked as Marked, Mention as Mention
from arbo.data.entities import Entity as Entity
from arbo.data.inputs import MentionInput as MentionInput, mention_inputs as mention_inputs, names_of as names_of
from arbo.data.knowledge_base import KnowledgeBase as KnowledgeBase
from arbo.data.records import DocumentRecords as DocumentRecords, OnError as OnError, Records as Records
