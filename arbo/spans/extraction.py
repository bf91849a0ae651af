"""From the attention that an entity pays to a text's tokens to the spans that it stands in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from arbo.engine import Bools, Floats, Ids, ranges
from arbo.text.checks import Span
from arbo.text.words import APOSTROPHES, content_words

_TIE = re.compile(rf"(?:[{APOSTROPHES}]s?)?[\s\u00ad\u2010\u2011-]*")


@dataclass(frozen=True, eq=False, slots=True)
class Attention:
    """The attention of entities to texts, pair by pair: the tokens of each pair's text, and their weights."""

    start: Ids
    """(pairs + 1,) the tokens of pair ``i`` are those from ``start[i]`` to ``start[i + 1]``."""
    begin: Ids
    """(tokens,) the first character of each,"""
    end: Ids
    """(tokens,) and the one behind its last."""
    weight: Floats
    """(tokens,) they sum to 1 over a pair, unless its text has no tokens."""

    def spans(self, texts: Sequence[str], text: Ids, *, threshold: float = 0.05) -> list[tuple[Span, ...]]:
        """Find the spans of each pair, see `spans_of`; ``text``: (pairs,) the text of each."""
        found: list[tuple[Span, ...]] = [()] * len(text)
        for pairs in np.split(order := np.argsort(text, kind="stable"), np.flatnonzero(np.diff(text[order])) + 1):
            if not len(pairs):
                continue
            own = slice(self.start[pairs[0]], self.start[pairs[0] + 1])
            begin, end = self.begin[own], self.end[own]
            weight = self.weight[ranges(self.start[pairs], np.full(len(pairs), len(begin)))]
            rows = spans_of(texts[text[pairs[0]]], begin, end, weight.reshape(len(pairs), -1), threshold=threshold)
            for pair, spans in zip(pairs.tolist(), rows, strict=True):
                found[pair] = spans
        return found


def spans_of(text: str, begin: Ids, end: Ids, weight: Floats, *, threshold: float = 0.05) -> list[tuple[Span, ...]]:
    """Find the spans of entities in a text: of each the words that it pays attention to, stop words left out.

    A word's weight is the sum over its tokens; those at or above the threshold are kept. Neighbours among them become
    one span where nothing but white space, hyphens or an apostrophe, perhaps with an s, parts them; what stands apart
    is a span of its own, also where only a stop word lies between.

    Args:
        text: the text.
        begin: (tokens,) the first character of each token,
        end: (tokens,) and the one behind its last.
        weight: (entities, tokens) attention.
        threshold: the smallest weight of a word that is kept.

    Returns:
        For each entity its spans, perhaps none.

    Examples:
        >>> begin, end = np.array([[0, 4], [5, 8], [9, 13], [13, 17], [18, 20], [21, 25]]).T
        >>> weight = np.array([[0.3, 0.1, 0.01, 0.02, 0.2, 0.37], [0.0, 0.0, 0.4, 0.2, 0.2, 0.2]])
        >>> spans_of("pain and swelling in knee", begin, end, weight)
        [((0, 4), (21, 25)), ((9, 17), (21, 25))]

    """
    found = np.array(content_words(text), np.int64).reshape(-1, 2)
    gaps = zip(found[:-1, 1].tolist(), found[1:, 0].tolist(), strict=True)
    tied = np.array([_TIE.fullmatch(text, last, first) is not None for last, first in gaps], np.bool_)
    kept = word_weights(found, begin, end, weight) >= threshold
    return [_joined(found, tied, row) for row in kept]


def word_weights(words: npt.NDArray[np.int64], begin: Ids, end: Ids, weight: Floats) -> Floats:
    """Sum the weights of tokens by words; a token over several words counts for each by its characters in it.

    Args:
        words: (words, 2) characters, ascending and apart.
        begin: (tokens,) the first character of each token,
        end: (tokens,) and the one behind its last; what is of no word counts for none.
        weight: (entities, tokens).

    Returns:
        (entities, words)

    """
    first, last = np.searchsorted(words[:, 1], begin, "right"), np.searchsorted(words[:, 0], end, "left")
    count = np.maximum(last - first, 0) * (end > begin)
    token, word = np.repeat(np.arange(len(begin)), count), ranges(first, count)
    common = np.minimum(end[token], words[word, 1]) - np.maximum(begin[token], words[word, 0])
    share = common / np.bincount(token, common, len(begin))[token]
    sums: Floats = weight @ csr_array((share, (token, word)), shape=(len(begin), len(words)))
    return sums


def _joined(words: npt.NDArray[np.int64], tied: Bools, kept: Bools) -> tuple[Span, ...]:
    """Make spans of the words that are kept; ``tied`` says of each but the last whether the next belongs to it."""
    chosen = np.flatnonzero(kept)
    if not len(chosen):
        return ()
    parted = (np.diff(chosen) > 1) | ~tied[chosen[:-1]]
    first, last = chosen[np.append(True, parted)], chosen[np.append(parted, True)]
    return tuple(zip(words[first, 0].tolist(), words[last, 1].tolist(), strict=True))
