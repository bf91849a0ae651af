"""Cut documents into pieces, such as sentences, for a model that reads one piece at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Self

import numpy as np

from arbo.data import Corpus, KnowledgeBase
from arbo.data.gold import Gold
from arbo.engine import Ids
from arbo.text.sentences import passages
from arbo.text.words import offsets_of


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """The sentences of documents (see `passages`), and their places."""

    documents: Corpus
    texts: tuple[str, ...]
    document: Ids  # (pieces,) the index of the document, ascending
    begin: Ids  # (pieces,) start of the piece in the document

    @classmethod
    def of(cls, documents: Corpus) -> Self:
        """Cut documents into sentences."""
        offsets = [passages(document.text) for document in documents]
        home = np.repeat(np.arange(len(offsets)), [len(some) for some in offsets])
        places = np.concatenate([offsets_of(()), *offsets])
        texts = (
            documents[row].text[begin:end] for row, (begin, end) in zip(home.tolist(), places.tolist(), strict=True)
        )
        return cls(documents, tuple(texts), home, places[:, 0])

    def entities(self, kb: KnowledgeBase) -> tuple[Ids, Ids]:
        """Return the pairs of a piece and an entity that is annotated in it, as (pieces, entities), ordered by both.

        A mention belongs to each piece with which it shares a character, and counts for each of its gold ids that is in
        the knowledge base and in the domain of the document.
        """
        gold = iter(Gold.of(self.documents, kb).lists)
        first = np.searchsorted(self.document, np.arange(len(self.documents) + 1)).tolist()
        pairs: set[tuple[int, int]] = set()
        for row, document in enumerate(self.documents):
            begins = self.begin[first[row] : first[row + 1]].tolist()
            texts = self.texts[first[row] : first[row + 1]]
            ends = [begin + len(text) for begin, text in zip(begins, texts, strict=True)]
            for mention in document.mentions:
                entities = next(gold)
                for begin, end in mention.spans:
                    touched = range(bisect_right(ends, begin), bisect_left(begins, end))
                    pairs.update((first[row] + piece, entity) for piece in touched for entity in entities)
        table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]
