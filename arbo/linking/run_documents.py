"""The documents of a run that grows; those that stay are rows of its tables, which are copied and never made again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import Corpus, Document, MentionInput, mention_inputs, tables
from arbo.data.arrow import numbers, strings
from arbo.data.inputs import Inputs
from arbo.data.tables import documents_in
from arbo.engine import Ids, ranges
from arbo.errors import DataError, UsageError
from arbo.linking.description import Content
from arbo.results.run import Run, compared_in


class RunMentions(NamedTuple):
    """The mentions of documents of a run, in the order of the documents."""

    content: Content
    inputs: Inputs
    earlier: Ids
    """(mentions,) the row of each mention in the run's own table; -1 for a new mention, or one with other spans."""


@dataclass(frozen=True, eq=False)
class RunDocuments:
    """The documents of a run, of which some are replaced, left out or added."""

    run: Run
    rows: Ids
    """(documents,) the row of each document in the table of the run, or -1 minus its place in `others`."""
    count: Ids
    """(documents of the run,) the number of mentions of each."""
    others: tuple[Document, ...] = ()

    @classmethod
    def of(cls, run: Run) -> Self:
        """Return all documents of a run; raise UsageError without texts, and DataError for tables that do not fit."""
        table = run.document_table
        if not run.has_texts:
            raise UsageError("the run has no texts, which are needed here; link again without texts=false")
        ids = table["document_id"].combine_chunks()
        home = pc.fill_null(pc.index_in(run.mention_table["document_id"], ids), -1).to_numpy()
        if (np.diff(home, prepend=0) < 0).any():
            raise DataError("the mentions of the run are not in the order of its documents; run the job again")
        return cls(run, np.arange(len(ids)), np.bincount(home, minlength=len(ids)))

    @cached_property
    def begin(self) -> Ids:
        """(documents of the run,) the row of the first mention of each."""
        begin: Ids = np.cumsum(self.count) - self.count
        return begin

    def with_ids(self, ids: Iterable[str]) -> dict[str, Document]:
        """Return the documents with these ids; unknown ids are left out."""
        places = self._places(ids)
        rows = self.rows[[*places.values()]].tolist()
        return {
            id_: self._read(row) if row >= 0 else self.others[-1 - row] for id_, row in zip(places, rows, strict=True)
        }

    def homes(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the ids of the documents of these mentions; unknown ids are left out."""
        chosen, table = {*ids}, self.run.mention_table
        homes = {
            mention.id: one.id for one in self._others_in_use() for mention in one.mentions if mention.id in chosen
        }
        is_left = np.isin(np.arange(len(self.begin)), self.rows)
        for id_, row in _rows_of(chosen, table["mention_id"]).items():
            if is_left[np.searchsorted(self.begin, row, side="right") - 1]:
                homes[id_] = table["document_id"][row].as_py()
        return homes

    def replaced(self, documents: Mapping[str, Document]) -> Self:
        """Return the documents with others in the place of those with the same ids."""
        rows, places = self.rows.copy(), self._places(documents)
        rows[[*places.values()]] = -1 - len(self.others) - np.arange(len(places))
        return replace(self, rows=rows, others=(*self.others, *(documents[id_] for id_ in places)))

    def extended(self, documents: Iterable[Any]) -> Self:
        """Return these documents and further ones; raise DataError if the id of a further one is known already."""
        more = Corpus.of(documents)
        if again := sorted(self._places(document.id for document in more)):
            others = f", and {len(again) - 1:,} others," if len(again) > 1 else ""
            raise DataError(
                f"the run has this document{others} already; leave out what it has, remove that from the run first, or "
                "give names as documents with ids of their own",
                id=again[0],
            )
        if homes := self.homes(mention.id for mention in more.mentions):
            Corpus([*self.with_ids(homes.values()).values(), *more])  # raises
        rows = np.append(self.rows, -1 - len(self.others) - np.arange(len(more)))
        return replace(self, rows=rows, others=(*self.others, *more))

    def without(self, ids: Iterable[str]) -> Self:
        """Return the documents without the documents and mentions that have these ids.

        Raise UsageError for an unknown id, as that of a mention that a correction added, and for an id of both a
        document and a mention of another document.
        """
        gone = {ids} if isinstance(ids, str) else {*ids}
        places, homes = self._places(gone), self.homes(gone)
        if unknown := sorted(gone - places.keys() - homes.keys(), key=str):
            some = ", ".join(map(repr, unknown[:3]))
            hint = "arbo show lists the ids, and a correction with 'drop' removes a mention that another one added"
            raise UsageError(f"the run has no document or mention {some}; {hint}")
        if both := sorted(id_ for id_ in places if homes.get(id_, id_) != id_):
            raise UsageError(f"{both[0]!r} is a document and a mention of {homes[both[0]]!r}; give all mentions of one")
        fewer = {
            id_: replace(one, mentions=tuple(mention for mention in one.mentions if mention.id not in gone))
            for id_, one in self.with_ids({*homes.values()} - gone).items()
        }
        other = self.replaced(fewer)
        return replace(other, rows=np.delete(other.rows, [*places.values()]))

    def mentions(self, *, expand_abbreviations: bool) -> RunMentions:
        """Return the tables of these documents, and their mentions as input for an encoder.

        Mentions that the run has keep the names that were compared.
        """
        table, used = self.run.mention_table, Corpus(self._others_in_use())
        names, earlier = self._names(used, expand_abbreviations)
        at = np.where(self.rows >= 0, self.rows, len(self.begin) - 1 + np.cumsum(self.rows < 0))
        count = np.append(self.count, [len(one.mentions) for one in used]).astype(np.int64)
        rows = ranges((np.cumsum(count) - count)[at], count[at])
        documents = _taken(tables.joined([self.run.document_table, tables.document_table(used)]), at)
        mentions = _taken(tables.joined([table, tables.with_names(tables.mention_table(used), names)]), rows)
        manifest = self.run.manifest
        notes, index_names = manifest["notes"]["documents"], manifest.get("index") or {}
        content = Content(documents, mentions, tables.numbered(mentions), count[at], notes, index_names)
        owners = [one for one in used for _ in one.mentions]
        fresh = [*map(MentionInput, names, used.mentions, owners)]
        new = np.flatnonzero(rows >= len(table))
        some = {place: fresh[row - len(table)] for place, row in zip(new.tolist(), rows[new].tolist(), strict=True)}
        compared = compared_in(mentions).to_pylist()
        inputs = Inputs(compared, mentions["domain"].to_pylist(), some, _reader(documents, mentions, compared))
        return RunMentions(content, inputs, np.append(np.arange(len(table)), earlier).astype(np.int64)[rows])

    def _others_in_use(self) -> list[Document]:
        """Return the documents that are not rows of the run."""
        return [self.others[-1 - row] for row in self.rows[self.rows < 0].tolist()]

    def _places(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the places of the documents with these ids; unknown ids are left out."""
        chosen, new = [*dict.fromkeys(ids)], np.flatnonzero(self.rows < 0).tolist()
        new_places = {one.id: place for one, place in zip(self._others_in_use(), new, strict=True)}
        place_of = np.full(len(self.begin), -1)
        there = np.flatnonzero(self.rows >= 0)
        place_of[self.rows[there]] = there
        rows = _rows_of(chosen, self.run.document_table["document_id"])
        places = {id_: int(place_of[row]) for id_, row in rows.items()} | new_places
        return {id_: places[id_] for id_ in chosen if places.get(id_, -1) >= 0}

    def _read(self, row: int) -> Document:
        """Return a document of the run."""
        mentions = self.run.mention_table.slice(self.begin[row], self.count[row])
        return next(documents_in(self.run.document_table.slice(row, 1), mentions.to_pylist()))

    def _names(self, used: Corpus, expand: bool) -> tuple[list[str], list[int]]:
        """Return the names of mentions, and their rows in the run; -1 for a new one, or one with other spans."""
        rows = _rows_of([one.id for one in used], self.run.document_table["document_id"])
        names: list[str] = []
        earlier: list[int] = []
        for document in used:
            row = rows.get(document.id)
            known = self._known_names(row) if row is not None else {}
            known_names = [known.get((one.id, one.spans, one.type), ("", -1)) for one in document.mentions]
            earlier += [place for _, place in known_names]
            if any(place < 0 for _, place in known_names):
                inputs = mention_inputs(Corpus([document]), expand_abbreviations=expand)
                names += [item.name for item in inputs]
            else:
                names += [name for name, _ in known_names]
        return names, earlier

    def _known_names(self, row: int) -> dict[tuple[Any, ...], tuple[str, int]]:
        """Return names and rows of the mentions of a document of the run by id, spans and type."""
        begin, lines = int(self.begin[row]), self.run.mention_table.slice(self.begin[row], self.count[row])
        names, mentions = compared_in(lines).to_pylist(), map(tables.mention_in, lines.to_pylist())
        return {(one.id, one.spans, one.type): (names[at], begin + at) for at, one in enumerate(mentions)}


def _reader(documents: pa.Table, mentions: pa.Table, names: Sequence[str]) -> Callable[[], list[MentionInput]]:
    """Return a function that reads all mentions of tables as objects."""

    def read() -> list[MentionInput]:
        pairs = [
            (one, document) for document in documents_in(documents, mentions.to_pylist()) for one in document.mentions
        ]
        return [MentionInput(name, *pair) for name, pair in zip(names, pairs, strict=True)]

    return read


def _rows_of(ids: Iterable[str], column: pa.ChunkedArray) -> dict[str, int]:
    """Return the rows of the ids that a column has."""
    known = [id_ for id_ in ids if isinstance(id_, str) and id_ == id_.encode("utf-8", "ignore").decode("utf-8")]
    if not known:
        return {}
    place = pc.fill_null(pc.index_in(column, value_set=strings(known)), -1).to_numpy()
    rows = np.flatnonzero(place >= 0)
    return {known[at]: row for at, row in zip(place[rows].tolist(), rows.tolist(), strict=True)}


def _taken(table: pa.Table, rows: Ids) -> pa.Table:
    """Return these rows of a table, without optional columns that have no value."""
    if not np.array_equal(rows, np.arange(len(table))):
        table = table.take(numbers(rows))
    return tables.without_empty(table).combine_chunks()
