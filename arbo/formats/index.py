"""Open the indexes of arbo; see `arbo.data.index_folder`."""

from itertools import chain

from arbo.data import KnowledgeBase, OnError
from arbo.formats.files import Paths, each_path


def read_entities(path: Paths, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Open an index, or join several; a damaged one is an error whatever ``on_error`` is."""
    first, *others = map(KnowledgeBase.from_index, each_path(path))
    return first.changed(chain(first, *others)) if others else first
