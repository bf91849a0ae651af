"""Open the indexes of arbo; see `arbo.data.index_folder`."""

from arbo.data import KnowledgeBase, OnError
from arbo.files import PathLike


def read_index(path: PathLike, *, on_error: OnError = "fail") -> KnowledgeBase:
    """Open an index; a damaged one is an error whatever ``on_error`` is."""
    return KnowledgeBase.from_index(path)
