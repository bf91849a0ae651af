"""Convert the attention of entities to the tokens of a text into spans."""

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
    """The attention of entities to texts: tokens and weights of each pair."""

    start: Ids  # (pairs + 1,) the tokens of pair ``i`` are at ``start[i]`` to ``start[i + 1]``
    begin: Ids  # (tokens,) start of each token in the text
    end: Ids  # (tokens,) end of each token, exclusive
    weight: Floats  # (tokens,) weights, which sum to 1 over a pair, unless its text has no tokens

    def spans(
        self, texts: Sequence[str], text: Ids, *, threshold: float = 0.05, by_token: bool = False
    ) -> list[tuple[Span, ...]]:
        """Find the spans of each pair, see `spans_of`; the text of pair ``i`` is ``texts[text[i]]``."""
        found: list[tuple[Span, ...]] = [()] * len(text)
        for pairs in np.split(order := np.argsort(text, kind="stable"), np.flatnonzero(np.diff(text[order])) + 1):
            if not len(pairs):
                continue
            own = slice(self.start[pairs[0]], self.start[pairs[0] + 1])
            begin, end = self.begin[own], self.end[own]
            weight = self.weight[ranges(self.start[pairs], np.full(len(pairs), len(begin)))]
            own_text, weight = texts[text[pairs[0]]], weight.reshape(len(pairs), -1)
            rows = spans_of(own_text, begin, end, weight, threshold=threshold, by_token=by_token)
            for pair, spans in zip(pairs.tolist(), rows, strict=True):
                found[pair] = spans
        return found


def spans_of(
    text: str, begin: Ids, end: Ids, weight: Floats, *, threshold: float = 0.05, by_token: bool = False
) -> list[tuple[Span, ...]]:
    """Find the spans of entities in a text: the words to which each entity attends, without stop words.

    The weight of a word is the sum over its tokens; words at or above the threshold are kept or, if ``by_token``, words
    with a token at or above it. Adjacent kept words are joined into one span if only white space, hyphens or an
    apostrophe (perhaps with an s) separate them. A stop word between two words separates their spans. ``begin`` and
    ``end`` of the tokens have the shape (tokens,); ``weight``, the attention of the entities, has the shape (entities,
    tokens).

    >>> begin, end = np.array([[0, 4], [5, 8], [9, 13], [13, 17], [18, 20], [21, 25]]).T
    >>> weight = np.array([[0.3, 0.1, 0.01, 0.02, 0.2, 0.37], [0.0, 0.0, 0.4, 0.2, 0.2, 0.2]])
    >>> spans_of("pain and swelling in knee", begin, end, weight)
    [((0, 4), (21, 25)), ((9, 17), (21, 25))]
    """
    found = np.array(content_words(text), np.int64).reshape(-1, 2)
    gaps = zip(found[:-1, 1].tolist(), found[1:, 0].tolist(), strict=True)
    tied = np.array([_TIE.fullmatch(text, last, first) is not None for last, first in gaps], np.bool_)
    if by_token:
        weight, threshold = (weight >= threshold).astype(np.float32), float(np.finfo(np.float32).tiny)
    kept = word_weights(found, begin, end, weight) >= threshold
    return [_joined(found, tied, row) for row in kept]


def word_weights(words: npt.NDArray[np.int64], begin: Ids, end: Ids, weight: Floats) -> Floats:
    """Return the sum of the weights of the tokens of each word; (entities, words).

    The weight of a token in several words is divided among them by numbers of characters. ``words`` has the shape
    (words, 2): ascending offsets without overlap; characters outside of them are ignored. For the other arguments see
    `spans_of`.
    """
    first, last = np.searchsorted(words[:, 1], begin, "right"), np.searchsorted(words[:, 0], end, "left")
    count = np.maximum(last - first, 0) * (end > begin)
    token, word = np.repeat(np.arange(len(begin)), count), ranges(first, count)
    common = np.minimum(end[token], words[word, 1]) - np.maximum(begin[token], words[word, 0])
    share = common / np.bincount(token, common, len(begin))[token]
    sums: Floats = weight @ csr_array((share, (token, word)), shape=(len(begin), len(words)))
    return sums


def _joined(words: npt.NDArray[np.int64], tied: Bools, kept: Bools) -> tuple[Span, ...]:
    """Join the kept words into spans; ``tied`` marks each word, except the last, that is joined with the next."""
    chosen = np.flatnonzero(kept)
    if not len(chosen):
        return ()
    parted = (np.diff(chosen) > 1) | ~tied[chosen[:-1]]
    first, last = chosen[np.append(True, parted)], chosen[np.append(parted, True)]
    return tuple(zip(words[first, 0].tolist(), words[last, 1].tolist(), strict=True))
