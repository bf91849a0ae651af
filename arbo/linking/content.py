"""The documents and mentions of a run as tables, from which the run is described."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import pyarrow as pa

from arbo.data import Corpus
from arbo.data.fingerprint import fingerprint_of
from arbo.data.tables import Tables, with_names
from arbo.engine import Ids


class Content(NamedTuple):
    """The documents and mentions of a run, and what else its manifest says of them."""

    documents: pa.Table
    mentions: pa.Table
    """The table of `mention_table`, without the entities of the gold ids."""
    order: Ids
    """(mentions,) the rows of the mentions in the order in which they were searched."""
    sizes: Ids
    """(documents,) the number of mentions of each."""
    notes: Mapping[str, int]
    index_names: Mapping[str, str | None]

    @classmethod
    def of(cls, corpus: Corpus, names: Sequence[str], order: Ids) -> Self:
        """Return the content of documents, with the names of mentions that are compared."""
        documents, mentions, sizes = corpus.tables or Tables.of(corpus.documents)
        return cls(documents, with_names(mentions, names), order, sizes, corpus.notes, corpus.index_names)

    @property
    def fingerprint(self) -> str:
        """The `fingerprint` of the corpus."""
        return fingerprint_of(Tables(self.documents, self.mentions, self.sizes))
