"""Tokens of texts with their offsets; long texts are read in windows.

A text with more tokens than a window is read in several windows. Each overlaps the one before by a quarter of a window;
the last ends with the text, and can overlap by more. The vector of a token comes from the window in which it is farther
from the edge: windows are cut in the middle of their overlap, so that each token has context on both sides.
"""

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

    rows: list[TokenRow]  # the windows of the text; none for a text without tokens
    window: Ids  # (tokens,) the window that gives the vector of each token
    place: Ids  # (tokens,) the position of each token in that window
    offsets: npt.NDArray[np.int64]  # (tokens, 2) offsets of each token: start and end, equal for a token of white space

    def flat(self, length: Sequence[int], first: int = 0) -> Ids:
        """Return the index of each token when the windows of several texts are concatenated; (tokens,).

        ``length`` has the length of each window, with special tokens; ``first`` is the index of this text's first
        window.
        """
        begin = np.cumsum([0, *length])
        return begin[first + self.window] + self.place


@dataclass(frozen=True, eq=False, slots=True)
class TextReader:
    """Turns texts into tokens."""

    speller: Speller

    @classmethod
    def of(cls, tokenizer: Any, max_length: int) -> Self:
        """Make a reader for windows of ``max_length`` tokens; see `Speller.of`."""
        return cls(Speller.of(tokenizer, _TEMPLATE, max_length))

    def __call__(self, texts: Sequence[str]) -> list[TextTokens]:
        """Tokenise texts; offsets count Unicode code points, whatever the tokenizer counts."""
        # Some tokenizers make a line end a token.
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
    """Divide ``n`` tokens into windows; return the start of each window and of the part taken from it, then ``n``.

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
