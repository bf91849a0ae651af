"""The input of encoders: the name of each mention, and its document."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from arbo.data.arrow import OnDemand, numbers
from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.data.knowledge_base import KnowledgeBase
from arbo.data.tables import names_in, with_expansions

Ids = npt.NDArray[np.signedinteger[Any]]


class MentionInput(NamedTuple):
    """A mention as an encoder sees it."""

    name: str
    """The text of the mention; abbreviations that the document defines may be replaced by their long forms."""
    mention: Mention
    document: Document


class Inputs(OnDemand[MentionInput]):
    """Some mentions of a corpus: their names and further columns at once, and an object for one that is looked at."""

    def __init__(self, corpus: Corpus, rows: Ids | None = None) -> None:
        self.rows: Ids = np.arange(corpus.n_mentions) if rows is None else rows
        super().__init__(len(self.rows), self._inputs)
        self.corpus = corpus

    @cached_property
    def names(self) -> Sequence[str]:
        """The names of the mentions."""
        names: list[str] = names_in(self.corpus.tables.mentions).take(numbers(self.rows)).to_pylist()
        return names

    @cached_property
    def is_blank(self) -> npt.NDArray[np.bool_]:
        """(mentions,) whether a name is only white space."""
        blank: Any = pc.indices_nonzero(pc.utf8_is_space(names_in(self.corpus.tables.mentions)).combine_chunks())
        return np.isin(self.rows, np.from_dlpack(blank))

    def column(self, name: str) -> list[Any]:
        """Return a column of the table of mentions, see `arbo.data.tables`."""
        values: list[Any] = self.corpus.tables.mentions[name].take(numbers(self.rows)).to_pylist()
        return values

    def taken(self, places: Ids) -> Inputs:
        """Return the mentions in these places."""
        return Inputs(self.corpus, self.rows[places])

    def _inputs(self, begin: int, length: int) -> list[MentionInput]:
        rows, tables = self.rows[begin : begin + length], self.corpus.tables
        documents = [self.corpus.documents[home] for home in tables.home[rows].tolist()]
        places = (rows - tables.first[tables.home[rows]]).tolist()
        mentions = (document.mentions[place] for document, place in zip(documents, places, strict=True))
        return [*map(MentionInput, self.names[begin : begin + length], mentions, documents)]


def mention_inputs(corpus: Corpus, *, expand_abbreviations: bool, kb: KnowledgeBase | None = None) -> Inputs:
    """Return the mentions of a corpus as input for an encoder; for ``kb`` see `with_expansions`."""
    return Inputs(corpus.of_tables(with_expansions(corpus.tables, expand=expand_abbreviations, kb=kb)))


def names_of(inputs: Sequence[MentionInput]) -> Sequence[str]:
    """Return the names of mentions."""
    return inputs.names if isinstance(inputs, Inputs) else [item.name for item in inputs]
