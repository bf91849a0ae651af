"""Training in context: an encoder reads whole documents, and learns which of their mentions mean the same.

A step reads a document and those with the most similar words. The vector of a mention, the mean of its tokens, is
drawn to those of all mentions of its cluster there, and away from the others. Linking centres a window on each mention.
"""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from arbo.data import Corpus, MentionInput
from arbo.data.gold import Gold
from arbo.edges.features import hashed_words
from arbo.encoders.templates import Speller, TokenRow
from arbo.engine import Ids, Vectors, nearest


def half_of(corpus: Corpus) -> Corpus:
    """Return half of the annotated documents, every other topic, so that few others share clusters or words with them.

    Documents that share clusters are one part; a topic has parts of which one has the most similar words to another. A
    topic is divided if it is the only one, or to fill the half.
    """
    label = Gold.of(corpus).classes
    label, (rows, home) = label[label >= 0], np.unique(corpus.tables.home[label >= 0], return_inverse=True)
    if not (n := len(rows)):
        return corpus
    links = csr_array((np.ones(len(home)), (home, n + label)), shape=(n + label.max() + 1,) * 2)
    part = connected_components(links, directed=False)[1][:n]  # numbered by their first documents, as topics below
    words = csr_array((np.ones(n), (part, np.arange(n)))) @ hashed_words([corpus[row].text for row in rows.tolist()])
    every = np.arange(words.shape[0], dtype=np.int32)
    near = nearest(Vectors.of(words), Vectors.of(words), 1, self_ids=every).ids[:, 0]
    alike = csr_array((near >= 0, (every, np.maximum(near, 0))), shape=(len(every),) * 2)
    topic = connected_components(alike, directed=False)[1][part]
    return corpus.of_tables(corpus.tables.taken(np.sort(rows[np.lexsort((topic, topic % 2))[: (n + 1) // 2]])))


class Windows(NamedTuple):
    """Documents in windows that overlap by half, and the tokens of each mention in that which has it in the middle."""

    rows: list[TokenRow]
    window: Ids  # (mentions,)
    begin: Ids  # (mentions,) its first token
    end: Ids  # (mentions,) the end of its last token

    @classmethod
    def of(cls, speller: Speller, mentions: Sequence[MentionInput]) -> Self:
        """Tokenise the documents of mentions, which are grouped by document."""
        rows, places, half = list[TokenRow](), list[tuple[int, int, int]](), max(1, speller.room // 2)
        for _, group in groupby(mentions, lambda item: item.document.id):
            items, n_before = list(group), len(rows)
            ((ids, offsets),) = speller.spell_with_offsets([re.sub(r"\s", " ", items[0].document.text)])
            for begin in range(0, max(1, len(ids) - half), half):
                piece = ids[begin : begin + speller.room]
                rows.append(speller.row({"left": piece, "mention": [], "right": []}))
            lead = rows[-1].begin - len(piece)
            for item in items:
                first = min(int(np.searchsorted(offsets[:, 1], item.mention.start, "right")), max(0, len(ids) - 1))
                end = max(first + 1, int(np.searchsorted(offsets[:, 0], item.mention.end)))
                window = min(max(0, round((first + end) / 2 / half - 1)), len(rows) - n_before - 1)
                first, end = max(0, first - window * half), min(end - window * half, speller.room)
                places.append((n_before + window, lead + first, lead + end))
        return cls(rows, *np.array(places, np.int64).T)
