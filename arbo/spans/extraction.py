"""Convert the attention of entities to the tokens of a text into spans."""

import re

import numpy as np
from scipy.sparse import csr_array

from arbo.engine import Bools, Floats, ranges
from arbo.text.checks import Span
from arbo.text.words import APOSTROPHES, Offsets, content_words, offsets_of

_TIE = re.compile(rf"(?:[{APOSTROPHES}]s?)?[\s\u00ad\u2010\u2011-]*")


def spans_of(text: str, tokens: Offsets, weight: Floats, threshold: float = 0.05) -> list[tuple[Span, ...]]:
    """Find the spans of entities in a text: the words to which each entity attends, without stop words.

    The weight of a word is the sum over its tokens; words at or above the threshold are kept. Adjacent kept words are
    joined into one span if only white space, hyphens or an apostrophe (perhaps with an s) separate them. A stop word
    between two words separates their spans. ``tokens`` has the offsets of the tokens, (tokens, 2), and ``weight`` the
    attention of the entities, (entities, tokens).

    >>> tokens = np.array([[0, 4], [5, 8], [9, 13], [13, 17], [18, 20], [21, 25]])
    >>> weight = np.array([[0.3, 0.1, 0.01, 0.02, 0.2, 0.37], [0.0, 0.0, 0.4, 0.2, 0.2, 0.2]])
    >>> spans_of("pain and swelling in knee", tokens, weight)
    [((0, 4), (21, 25)), ((9, 17), (21, 25))]
    """
    words = offsets_of(content_words(text))
    gaps = zip(words[:-1, 1].tolist(), words[1:, 0].tolist(), strict=True)
    tied = np.array([_TIE.fullmatch(text, last, first) is not None for last, first in gaps], np.bool_)
    return [_joined(words, tied, row) for row in word_weights(words, tokens, weight) >= threshold]


def word_weights(words: Offsets, tokens: Offsets, weight: Floats) -> Floats:
    """Return the sum of the weights of the tokens of each word; (entities, words).

    The weight of a token in several words is divided among them by numbers of characters. ``words`` has ascending
    offsets without overlap, (words, 2); characters outside of them are ignored. For the other arguments see `spans_of`.
    """
    begin, end = tokens.T
    first, last = np.searchsorted(words[:, 1], begin, "right"), np.searchsorted(words[:, 0], end, "left")
    count = np.maximum(last - first, 0) * (end > begin)
    token, word = np.repeat(np.arange(len(begin)), count), ranges(first, count)
    common = np.minimum(end[token], words[word, 1]) - np.maximum(begin[token], words[word, 0])
    share = common / np.bincount(token, common, len(begin))[token]
    sums: Floats = weight @ csr_array((share, (token, word)), shape=(len(begin), len(words)))
    return sums


def _joined(words: Offsets, tied: Bools, is_chosen: Bools) -> tuple[Span, ...]:
    """Join the chosen words into spans; ``tied`` marks each word, except the last, that is joined with the next."""
    chosen = np.flatnonzero(is_chosen)
    if not len(chosen):
        return ()
    parted = (np.diff(chosen) > 1) | ~tied[chosen[:-1]]
    first, last = chosen[np.append(True, parted)], chosen[np.append(parted, True)]
    return tuple(zip(words[first, 0].tolist(), words[last, 1].tolist(), strict=True))
