"""Names alone, without texts: each becomes a document whose only mention is the whole name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arbo.data.documents import Document, Mention
from arbo.errors import DataError


def are_names(table: Any, items: Sequence[Any]) -> bool:
    """Tell whether these are names: a list that begins with a string, or a pandas Series."""
    if items and isinstance(items[0], str):
        return True
    return hasattr(table, "iloc") and not hasattr(table, "columns")


def labels_of(names: Any, n: int) -> list[str]:
    """Return the ids of names: the index of a pandas Series, otherwise (or if labels repeat) 0, 1, 2 and so on."""
    labels = list(map(str, names.index)) if hasattr(names, "iloc") else []
    return labels if len(set(labels)) == n else list(map(str, range(n)))


def documents_of_names(names: Sequence[Any], labels: Sequence[str]) -> list[Document]:
    """Make a document of each name, in order; document and mention have the name's label as id.

    Raises:
        DataError: a name is missing, empty, or no string.

    >>> documents_of_names(["flu", "cold"], ["a", "b"])[1].mentions[0]
    Mention(id='b', document_id='b', spans=((0, 4),), text='cold', type=None, gold=None)

    """
    documents = []
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        if not isinstance(name, str) or not name.strip():
            problem = f"a name must be a string that is not blank, not {name!r:.60}; fill it, or drop the row"
            raise DataError(problem, file=f"row {row}", id=label)
        text = str(name)  # not numpy's
        documents.append(Document(label, text, (Mention(label, label, ((0, len(text)),), text),)))
    return documents
