"""The embedded sample collection: reports from a research station on an invented island.

`documents.jsonl` holds the documents with every marked mention and its gold entities, `entities.jsonl` the knowledge
base, both in the format of `arbo.formats.jsonl`. A gold id that begins with `NEW:` names an entity that the knowledge
base lacks (to be discovered); an empty list of entities marks a mention that is annotated as NIL without an id.

Every text, name and definition was written for this project; none is meant to describe a real place, person or
species. The collection is under the licence of the project.
"""

from importlib.resources import as_file, files

from arbo.data import Corpus, KnowledgeBase
from arbo.formats import read_documents, read_knowledge_base


def load_sample() -> tuple[Corpus, KnowledgeBase]:
    """Read the embedded documents, with gold annotations, and their knowledge base."""
    folder = files("arbo.sample")
    with as_file(folder / "documents.jsonl") as documents, as_file(folder / "entities.jsonl") as entities:
        kb = read_knowledge_base([entities], "jsonl")  # of a list, the path is not kept
        return read_documents(documents, "jsonl"), kb
