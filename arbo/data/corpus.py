"""Collections of documents with unique ids, and their mentions as encoders see them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import OnDemand, Strings, numbers, strings
from arbo.data.documents import Document, Mention
from arbo.data.fingerprint import fingerprint_of
from arbo.data.gold_ids import known_ids
from arbo.data.knowledge_base import KnowledgeBase
from arbo.data.objects import document_line
from arbo.data.records import Records
from arbo.data.rows import documents_in
from arbo.data.tables import Tables, check_ids, documents_of_rows, names_in, numbered, rows_with, with_expansions
from arbo.engine import Ids
from arbo.errors import UsageError, counted
from arbo.files import PathLike, write_lines


class Corpus(OnDemand[Document]):
    """Documents in order, with unique ids; `notes` counts irregularities of the source, and are those of records.

    `index_names` maps the metadata keys that hold the index of the caller's frame to the names of its levels; `graph`
    has the format and path of the graph whose nodes they are. Objects are made of `tables` when somebody looks at them.

    >>> Corpus([Document("d", "a cat", (Mention("m", "d", ((2, 5),), "cat", "Animal"),))])
    Corpus(1 document, 1 mention)
    """

    together, keeps_all = 1 << 8, True

    def __init__(
        self,
        documents: Iterable[Document] | Tables = (),
        notes: Mapping[str, int] | None = None,
        index_names: Mapping[str, str | None] | None = None,
        graph: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(documents, Records):
            tables = Tables.joined(documents.tables())
            notes = +documents.notes if notes is None else notes
        else:
            tables = documents if isinstance(documents, Tables) else Tables.of([*documents])
        if documents is not tables:
            check_ids(tables)
        super().__init__(len(tables.sizes), partial(documents_of_rows, tables))
        self.tables = tables
        self.notes, self.index_names, self.graph = dict(notes or {}), dict(index_names or {}), dict(graph or {})

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        """The mentions, in the order of the documents."""
        return tuple(mention for document in self for mention in document.mentions)

    @property
    def n_mentions(self) -> int:
        """Number of mentions."""
        return len(self.tables.mentions)

    @property
    def types(self) -> Sequence[str | None]:
        """The type of each mention, None without one."""
        return list(self.tables.mentions["type"].to_pylist())

    @classmethod
    def of(cls, documents: Iterable[Any], name: str | None = None) -> "Corpus":
        """Make a corpus from documents, rows of a frame or a `Dataset`, or names; a corpus is returned as it is.

        A row is a document or a mention, see `arbo.data.rows`. Names come as a list of strings, a pandas Series, or
        rows with a column ``name``; each becomes a mention in a document of its own. The documents may be those of
        spaCy, in a list or a `DocBin`; their ids are their places, from 0. Raise UsageError for other objects, and
        DataError for invalid rows or names.
        """
        return documents if isinstance(documents, Corpus) else cls(*documents_in(documents, name))

    def to_jsonl(self, path: PathLike) -> None:
        """Write JSON lines, gzipped if the path ends in `.gz`; raise UsageError if the file cannot be written."""
        write_lines(map(document_line, self), path)

    def of_types(self, types: str | Iterable[str]) -> Self:
        """Return the same documents, with only the mentions of these types."""
        chosen = pc.is_in(self.tables.mentions["type"], strings([types] if isinstance(types, str) else [*types]))
        return self.of_tables(self.tables.of_mentions(chosen.to_numpy()))

    def of_ids(self, ids: str | Iterable[str]) -> Self:
        """Return the documents with these ids, in the order of the corpus; unknown ids are left out."""
        rows = rows_with([ids] if isinstance(ids, str) else ids, self.tables.documents["document_id"])
        return self.of_tables(self.tables.taken(np.array([*rows.values()], np.int64)))

    def unseen_in(self, train: Iterable[Document]) -> Self:
        """Return the same documents, without the mentions that share a gold id with a mention in ``train``."""
        seen = {id_ for document in train for mention in document.mentions for id_ in known_ids(mention.gold or ())}
        golds = (known_ids(tuple(gold or ())) for gold in self.tables.mentions["gold"].to_pylist())
        return self.of_tables(self.tables.of_mentions(np.array([seen.isdisjoint(gold) for gold in golds], bool)))

    def of_tables(self, tables: Tables) -> Self:
        """Return a corpus of tables that come from those of this one, with its notes, index names and graph."""
        return type(self)(tables, self.notes, self.index_names, self.graph)

    def with_ids(self, ids: Iterable[str]) -> dict[str, Document]:
        """Return the documents with these ids, in their own order; unknown ids are left out."""
        return {id_: self[row] for id_, row in rows_with(ids, self.tables.documents["document_id"]).items()}

    def replaced(self, documents: Mapping[str, Document]) -> Self:
        """Return the corpus with others in the place of the documents with the same ids."""
        rows = rows_with(documents, self.tables.documents["document_id"])
        order = np.arange(len(self))
        order[[*rows.values()]] = len(self) + np.arange(len(rows))
        return self.of_tables(Tables.joined([self.tables, Tables.of([documents[id_] for id_ in rows])]).taken(order))

    def by_topic(self) -> Self:
        """Return the same documents, with the `topic` in their metadata as domain; raise UsageError if one has none."""
        if lacking := [document.id for document in self if document.metadata.get("topic") is None]:
            wrong = f"no topic in the metadata of {counted(len(lacking), 'documents')}, such as {lacking[0]!r}"
            raise UsageError(f"{wrong}; add the key 'topic', or leave these documents out")
        documents = (replace(document, domain=str(document.metadata["topic"])) for document in self)
        return type(self)(documents, self.notes, self.index_names, self.graph)

    @cached_property
    def order(self) -> Ids:
        """(mentions,) the rows of the mentions, sorted by document id, spans and mention id."""
        return numbered(self.tables.mentions)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of ids, texts, mentions (without scores and metadata) and domains, in order."""
        return fingerprint_of(self.tables)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.of_tables(self.tables.taken(np.arange(len(self))[index]))
        return super().__getitem__(index)

    def __repr__(self) -> str:
        return f"Corpus({counted(len(self), 'documents')}, {counted(self.n_mentions, 'mentions')})"


class MentionInput(NamedTuple):
    """A mention as an encoder sees it."""

    name: str  # the text of the mention; abbreviations that the document defines may be replaced by their long forms
    mention: Mention
    document: Document


class Inputs(OnDemand[MentionInput]):
    """Some mentions of a corpus: their names and further columns at once, and an object for one that is looked at."""

    def __init__(self, corpus: Corpus, rows: Ids | None = None) -> None:
        self.rows: Ids = np.arange(corpus.n_mentions) if rows is None else rows
        super().__init__(len(self.rows), self._inputs)
        self.corpus = corpus

    @cached_property
    def names(self) -> Strings:
        """The names of the mentions."""
        return Strings(names_in(self.corpus.tables.mentions).take(numbers(self.rows)).combine_chunks())

    @cached_property
    def ids(self) -> pa.Array:
        """The ids of all mentions of the corpus, in its order."""
        column = self.corpus.tables.mentions["mention_id"]
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # which would copy a single chunk

    def ids_at(self, places: Ids) -> pa.Array:
        """Return the ids of mentions; null for -1."""
        return self.ids.take(numbers(self.rows[places], missing=places < 0))

    def names_at(self, places: Ids) -> pa.Array:
        """Return the names of mentions."""
        return self.names.array.take(numbers(places))

    def column(self, name: str) -> list[Any]:
        """Return a column of the table of mentions, see `arbo.data.tables`."""
        return list(self.corpus.tables.mentions[name].take(numbers(self.rows)).to_pylist())

    def taken(self, places: Ids) -> Self:
        """Return the mentions in these places."""
        return type(self)(self.corpus, self.rows[places])

    def _inputs(self, begin: int, length: int) -> list[MentionInput]:
        rows, tables = self.rows[begin : begin + length], self.corpus.tables
        documents = [self.corpus[home] for home in tables.home[rows].tolist()]
        places = (rows - tables.first[tables.home[rows]]).tolist()
        mentions = (document.mentions[place] for document, place in zip(documents, places, strict=True))
        return [*map(MentionInput, self.names[begin : begin + length], mentions, documents)]


def mention_inputs(corpus: Corpus, *, expand_abbreviations: bool, kb: KnowledgeBase | None = None) -> Inputs:
    """Return the mentions of a corpus as input for an encoder; for ``kb`` see `with_expansions`."""
    return Inputs(corpus.of_tables(with_expansions(corpus.tables, expand=expand_abbreviations, kb=kb)))


def names_of(inputs: Sequence[MentionInput]) -> Sequence[str]:
    """Return the names of mentions."""
    return inputs.names if isinstance(inputs, Inputs) else [item.name for item in inputs]
