"""The words of a text, and which of them seldom tell two names apart."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from arbo.documents import Span

STOP_WORDS = frozenset({"a", "an", "and", "s", "at", "by", "for", "in", "is", "of", "on", "or", "the", "to", "with"})

_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "as",
        "at",
        "by",
        "for",
        "from",
        "in",
        "into",
        "is",
        "of",
        "on",
        "or",
        "the",
        "to",
        "with",
        "de",
        "des",
        "du",
        "et",
        "la",
        "le",
        "les",
        "un",
        "une",
    ]
)

_WORD = re.compile(r"\w+")


def words(text: str) -> npt.NDArray[np.int64]:
    """Return where the words of a text are, maximal runs of word characters; (words, 2).

    >>> words("X-linked, of it").tolist()
    [[0, 1], [2, 8], [10, 12], [13, 15]]
    """
    return np.array([found.span() for found in _WORD.finditer(text)], np.int64).reshape(-1, 2)


def content_words(text: str) -> list[Span]:
    """Return where the words are that are no stop words.

    >>> content_words("X-linked, of it")
    [(0, 1), (2, 8), (13, 15)]
    """
    return [found.span() for found in _WORD.finditer(text) if found[0].casefold() not in STOP_WORDS]
