"""The documents of a run that grows: a corpus of its tables, in which each mention knows its row in the run.

The column ``row`` of the mentions is null for those that are new, or whose document a correction has changed.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import Corpus
from arbo.data.arrow import json_strings, numbers, rows_among, strings
from arbo.data.tables import Tables, check_ids, metadata_in, rows_with
from arbo.engine import Ids
from arbo.errors import DataError, UsageError
from arbo.results.run import Run


def documents_of(run: Run) -> Corpus:
    """Return all documents of a run, which has texts."""
    mentions = run.mention_table.drop_columns(["gold_entities"])
    mentions = mentions.append_column("row", numbers(np.arange(len(mentions))))
    notes, *others = run.manifest["notes"]["documents"], run.manifest.get("index"), run.manifest.get("graph")
    return Corpus(replace(run.tables, mentions=mentions), notes, *others)


def extended(documents: Corpus, further: Iterable[Any]) -> Corpus:
    """Return these documents and further ones; raise DataError if the id of a further one is known already.

    Names whose ids are the numbers of their rows are numbered on from the largest number. An index with as many levels
    as that of the documents gets the names of these.
    """
    more, known = Corpus.of(further), documents.tables.documents["document_id"]
    ids: list[str] = more.tables.documents["document_id"].to_pylist()
    if ids == more.tables.mentions["mention_id"].to_pylist() == [*map(str, range(len(ids)))]:
        first = 1 + max((int(id_) for id_ in known.to_pylist() if id_.isdecimal()), default=-1)
        new = strings(ids := [*map(str, range(first, first + len(ids)))])
        more = _with(_with(more, "documents", document_id=new), "mentions", document_id=new, mention_id=new)
    if again := sorted(rows_with(ids, known)):
        others = f", and {len(again) - 1:,} others," if len(again) > 1 else ""
        wrong = f"the run has this document{others} already"
        raise DataError(f"{wrong}; leave out what it has, or remove that from the run first", id=again[0])
    if {*more.index_names} != {*documents.index_names} and len(more.index_names) == len(documents.index_names):
        name_of = dict(zip(more.index_names, documents.index_names, strict=True))
        rows = ({name_of.get(key, key): row[key] for key in row} for row in metadata_in(more.tables.mentions))
        more = _with(more, "mentions", metadata=json_strings(rows))
    tables = Tables.joined([documents.tables, more.tables])
    check_ids(tables)
    return Corpus(tables, Counter(documents.notes) + Counter(more.notes), documents.index_names)


def _with(corpus: Corpus, what: Literal["documents", "mentions"], **columns: pa.Array) -> Corpus:
    """Return a corpus with other values in columns of a table."""
    table: pa.Table = getattr(corpus.tables, what)
    for name in columns.keys() & {*table.column_names}:
        table = table.set_column(table.column_names.index(name), name, columns[name])
    return corpus.of_tables(replace(corpus.tables, **{what: table}))


def without(documents: Corpus, ids: Iterable[str]) -> Corpus:
    """Return the documents without the documents and mentions that have these ids.

    Raise UsageError for an unknown id, as that of a mention that a correction added, and for an id of both a document
    and a mention of another document.
    """
    gone, tables = {ids} if isinstance(ids, str) else {*ids}, documents.tables
    places, homes = rows_with(gone, tables.documents["document_id"]), documents.homes(gone)
    if unknown := sorted(gone - places.keys() - homes.keys(), key=str):
        some = ", ".join(map(repr, unknown[:3]))
        hint = "arbo show lists the ids, and a correction with 'drop' removes a mention that another one added"
        raise UsageError(f"the run has no document or mention {some}; {hint}")
    if both := sorted(id_ for id_ in places if homes.get(id_, id_) != id_):
        raise UsageError(f"{both[0]!r} is a document and a mention of {homes[both[0]]!r}; give all mentions of one")
    stays = np.ones(documents.n_mentions, np.bool_)
    stays[[*rows_with(homes, tables.mentions["mention_id"]).values()]] = False
    left = np.delete(np.arange(len(documents)), [*places.values()])
    return documents.of_tables(tables.of_mentions(stays).taken(left))


def with_rows(documents: Corpus, run: Run) -> tuple[Corpus, Ids]:
    """Return the documents without the column ``row``, and the row of each mention in the run.

    The row is -1 for a new mention, or one with other spans or another type than in the run.
    """
    mentions = documents.tables.mentions
    rows: Ids = pc.fill_null(mentions["row"], -1).to_numpy().copy()
    new = np.flatnonzero(rows < 0)
    known = rows_among(mentions["mention_id"].take(numbers(new)), run.mention_table["mention_id"])
    new, known = new[known >= 0], known[known >= 0]
    fields = ["document_id", "spans", "type"]
    now, was = mentions.select(fields).take(numbers(new)), run.mention_table.select(fields).take(numbers(known))
    is_same = [one == other for one, other in zip(now.to_pylist(), was.to_pylist(), strict=True)]
    rows[new] = np.where(is_same, known, -1)
    return documents.of_tables(replace(documents.tables, mentions=mentions.drop_columns(["row"]))), rows
