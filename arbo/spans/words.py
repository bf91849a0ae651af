"""Words of a text, and those that say nothing of an entity."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

_WORD = re.compile(r"\w+")

STOP_WORDS = frozenset(
    {"a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "is", "of", "on", "or", "the", "to", "with"}
)


def words(text: str) -> npt.NDArray[np.int64]:
    """Find the words of a text, maximal runs of letters, digits and underscores; (words, 2) characters.

    >>> words("X-linked, of it").tolist()
    [[0, 1], [2, 8], [10, 12], [13, 15]]
    """
    return np.array([found.span() for found in _WORD.finditer(text)], np.int64).reshape(-1, 2)
