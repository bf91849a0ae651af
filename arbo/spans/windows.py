"""Texts as tokens that know where they stand, read in windows where they are long.

A text of more tokens than fit a window is read in several, each a quarter of a window into the one before, the last
one ending with the text. Each token has its vector from the window in which it stands farther from the edge: windows
are cut in the middle of their overlap. So all of a text is read, each token with context on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from arbo.encoders.templates import Speller, Template, TokenRow
from arbo.engine import Ids, ranges

_TEMPLATE = Template.parse("[CLS] {text} [SEP]", ("text",), focus="text")
_SPACE = re.compile(r"\s")


class TextTokens(NamedTuple):
    """The tokens of a text, without the model's special ones."""

    rows: list[TokenRow]
    """Its windows, none of a text without tokens."""
    window: Ids
    """(tokens,) the window that each token's vector is taken from,"""
    place: Ids
    """(tokens,) and its place there."""
    offsets: npt.NDArray[np.int64]
    """(tokens, 2) the characters that each stands for: begin and end, equal where it stands for white space."""

    def flat(self, length: Sequence[int], first: int = 0) -> Ids:
        """Find the tokens among those of rows that lie behind each other; (tokens,).

        Args:
            length: the tokens of each row, special ones and padding too.
            first: the row that is the text's first window.

        """
        begin = np.cumsum([0, *length])
        return begin[first + self.window] + self.place


@dataclass(frozen=True, eq=False, slots=True)
class TextReader:
    """Turns texts into tokens."""

    speller: Speller

    @classmethod
    def of(cls, tokenizer: Any, max_length: int) -> Self:
        """Make one from a tokenizer of transformers, for windows of so many tokens.

        Raises:
            UsageError: the special tokens alone fill a window.

        """
        return cls(Speller.of(tokenizer, _TEMPLATE, max_length))

    def __call__(self, texts: Sequence[str]) -> list[TextTokens]:
        """Spell texts; offsets are of characters as Python counts them, whatever the tokenizer makes of them."""
        # To some tokenizers a line end is a word.
        plain = [_SPACE.sub(" ", text) for text in texts]
        return [self._read(ids, offsets) for ids, offsets in self.speller.spell_with_offsets(plain)]

    def _read(self, ids: list[int], offsets: npt.NDArray[np.int64]) -> TextTokens:
        begin, cut = _windows(len(ids), self.speller.room)
        rows = [self.speller.row({"text": ids[i : i + self.speller.room]}) for i in begin.tolist()]
        count = np.diff(cut)
        skipped = np.array([row.begin for row in rows], np.int64) + cut[:-1] - begin
        window = np.repeat(np.arange(len(rows)), count)
        return TextTokens(rows, window, ranges(skipped, count), offsets)


def _windows(n: int, room: int) -> tuple[Ids, Ids]:
    """Divide ``n`` tokens: where each window begins, and where what is taken from it does, ``n`` at the end.

    >>> _windows(10, 4)
    (array([0, 3, 6]), array([ 0,  3,  6, 10]))
    >>> _windows(21, 8)
    (array([ 0,  6, 12, 13]), array([ 0,  7, 13, 16, 21]))
    >>> _windows(0, 4)
    (array([], dtype=int64), array([0]))
    """
    stride = room - room // 4
    begin = np.minimum(np.arange(0, max(n - room, 0) + stride, stride), max(n - room, 0))[:n]
    cut = (begin[1:] + begin[:-1] + room) // 2
    return begin, np.concatenate([[0], cut, [n]])[: len(begin) + 1]
