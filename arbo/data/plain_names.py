"""Names without texts: each name becomes a document whose only mention is the whole name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from arbo.data.documents import Document, Mention
from arbo.errors import DataError


def are_names(table: Any, items: Sequence[Any]) -> bool:
    """Return whether the items are names: the first is a string, or the table is a pandas Series."""
    return isinstance(next(iter(items), None), str) or (hasattr(table, "iloc") and not hasattr(table, "columns"))


def documents_of_names(table: Any, names: Sequence[Any]) -> Iterator[Document]:
    """Make a document from each name; its id and its mention's id are the label in a Series, if unique, else the row.

    Raises:
        DataError: a name is missing, blank, or not a string.
    """
    labels = list(map(str, table.index)) if hasattr(table, "iloc") else []
    if len(set(labels)) < len(names):
        labels = list(map(str, range(len(names))))
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        if not isinstance(name, str) or not name.strip():
            problem = f"a name must be a non-blank string, not {name!r:.60}; fill it in, or drop the row"
            raise DataError(problem, file=f"row {row}", id=label)
        text = str(name)  # not numpy's
        yield Document(label, text, (Mention(label, label, ((0, len(text)),), text),))
