"""Names alone, without texts: each becomes a document whose only mention is the whole name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from arbo.data.documents import Document, Mention
from arbo.errors import DataError


def are_names(table: Any, items: Sequence[Any]) -> bool:
    """Tell whether the items of a table are names: they begin with a string, or are a pandas Series."""
    return isinstance(next(iter(items), None), str) or (hasattr(table, "iloc") and not hasattr(table, "columns"))


def documents_of_names(table: Any, names: Sequence[Any]) -> Iterator[Document]:
    """Make a document of each name, in order; the index of a Series names it and its mention, else its row does.

    The mention of a Series keeps the index as metadata, as rows of a frame do.

    Raises:
        DataError: a name is missing, blank, or no string.

    """
    index = json.loads(json.dumps(table.index.tolist(), default=str)) if hasattr(table, "iloc") else range(len(names))
    labels = list(map(str, index))
    if len(set(labels)) < len(names):
        labels = list(map(str, range(len(names))))
    for row, (name, label, own) in enumerate(zip(names, labels, index, strict=True)):
        if not isinstance(name, str) or not name.strip():
            problem = f"a name must be a string that is not blank, not {name!r:.60}; fill it, or drop the row"
            raise DataError(problem, file=f"row {row}", id=label)
        text = str(name)  # not numpy's
        metadata = {"index": own} if hasattr(table, "iloc") else {}
        yield Document(label, text, (Mention(label, label, ((0, len(text)),), text, metadata=metadata),))
