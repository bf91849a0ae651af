"""Export a run: as a flat table with one row for each mention, or as documents or clusters in other formats."""

import json
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import Corpus
from arbo.data.tables import documents_in, object_in
from arbo.errors import UsageError
from arbo.files import PathLike
from arbo.formats import TABLES, Ids, writer
from arbo.results.run import Ints, Run, compared_in
from arbo.results.views import mention_view
from arbo.text.sentences import sentences

_STEPS_SHOWN = 8
"""Maximum number of mentions shown of a path; of a longer path, the last ones are shown."""


def export(run: Run, path: PathLike, to: str, ids: Ids) -> dict[str, int]:
    """Write a run to a file or folder; see `arbo.Result.export`."""
    write = writer(to)
    if to in TABLES:
        table = flat_table(run)
        notes = write(table, path)
        notes["mentions without a sentence: the run has no texts"] = table["sentence"].null_count
        return dict(+notes)
    documents = documents_of(run, ids, as_classes=to in ("clusters", "conll"))
    names = zip(*(run.cluster_table[name].to_pylist() for name in ("cluster_id", "name")), strict=True)
    notes = write(documents, path, dict(names))
    if to in ("bioc", "brat", "pubannotation", "pubtator"):
        notes["gold clusters left out"] = sum(mention.cluster is not None for mention in documents.mentions)
    notes["documents whose domain is left out"] = to != "jsonl" and sum(d.domain is not None for d in documents)
    return dict(+notes)


def documents_of(run: Run, ids: Ids, *, as_classes: bool = False) -> Corpus:
    """Return the documents of a run, with the links (for NIL, the discovered entity) or the annotated ids as gold ids.

    With ``as_classes``, annotated ids are replaced by the knowledge base's own ids of the same entities, as in scoring.
    Raise UsageError if the run was saved without texts, ``ids`` is unknown, or it is ``"gold"`` but no mention is
    annotated.
    """
    rows = run.mention_table.to_pylist()
    if ids not in get_args(Ids):
        raise UsageError(f"ids must be one of {', '.join(get_args(Ids))}, not {ids!r}")
    if ids == "gold" and rows and all(own is None for own in run.labels):
        raise UsageError("no mention of the run is annotated; export the links (--ids links)")
    for row, cluster in zip(rows, run.link_table["cluster_id"].to_pylist(), strict=True):
        if ids == "links":
            row |= {"gold": [cluster], "cluster": None}
        elif as_classes:
            row["gold"] = row["gold_entities"] or row["gold"]
    if not run.has_texts:
        raise UsageError(
            "the run has no texts, which are needed here; link again without texts=false, or export as csv"
        )
    return Corpus(documents_in(run.document_table, rows), run.manifest["notes"]["documents"], run.manifest.get("index"))


def flat_table(run: Run) -> pa.Table:
    """Make a table of all mentions, one flat row each, in the order of the documents.

    Columns: those of `mention_view`; ``runner_up_id, runner_up_name, runner_up_score`` (the best candidate other than
    the link; for NIL, the best of all), unless no mention has one; ``cluster_name``; ``nil``; ``path`` (the names from
    the entity to the mention, in a long path only those of the entity and of the last eight mentions; null for NIL);
    ``sentence`` (null without texts); ``gold`` (ids as annotated); ``gold_cluster`` if any mention has one; ``domain``
    if any document has one; and a column for each key of the metadata of mentions and documents, called ``own_NAME`` if
    the table already has a column ``NAME``.
    """
    mentions, links = run.mention_table, run.link_table
    flat = mention_view(run, np.arange(links.num_rows))
    columns = {name: flat[name] for name in flat.column_names}
    columns |= _runners_up(run)
    columns["cluster_name"] = run.cluster_table["name"].take(pa.array(run.cluster_rows))
    columns |= {"nil": pc.is_null(links["entity_id"]), "path": _paths(run)}
    columns |= {"sentence": pa.array(sentences_of(run, flat), pa.string()), "gold": mentions["gold"]}
    columns |= {"gold_cluster": mentions["cluster"]} if "cluster" in mentions.column_names else {}
    columns |= {"domain": mentions["domain"]} if mentions["domain"].null_count < len(flat) else {}
    for key, values in _metadata(run):
        while key in columns:
            key = f"own_{key}"
        columns[key] = values
    return pa.table(columns)


def _runners_up(run: Run) -> dict[str, pa.Array]:
    """Return id, name and score of the best candidate of each mention other than its link, unless there are none."""
    links = run.link_table
    lists, scores = (links[name].combine_chunks() for name in ("candidates", "candidate_scores"))
    owner = pc.list_parent_indices(lists)
    is_other = pc.not_equal(lists.flatten(), links["entity_id"].combine_chunks().take(owner))
    others = np.flatnonzero(pc.fill_null(is_other, True).to_numpy(zero_copy_only=False))  # a null link: NIL
    mentions, first = np.unique(owner.to_numpy()[others], return_index=True)
    place = np.full(len(lists), -1)
    place[mentions] = others[first]
    place = pa.array(place, mask=place < 0)
    if place.null_count == len(lists):
        return {}
    ids = lists.flatten().take(place)
    entities = run.entity_table
    names = entities["name"].take(pc.index_in(ids, entities["entity_id"].combine_chunks()))
    return {"runner_up_id": ids, "runner_up_name": names, "runner_up_score": scores.flatten().take(place)}


def _metadata(run: Run) -> Iterator[tuple[str, pa.Array]]:
    """Yield the further columns of mentions and documents; lists, objects, mixed types and long integers as JSON.

    Lists of objects of a document, such as passages of BioC, are left out: each row would repeat them.
    """
    for table in (run.mention_table, run.document_table):
        if "metadata" not in table.column_names:
            continue
        rows = [object_in(cell) for cell in table["metadata"].to_pylist()]
        ids = table["document_id"].combine_chunks()
        if table is run.document_table:
            flat = [
                {key: one for key, one in row.items() if not (type(one) is list and dict in map(type, one))}
                for row in rows
            ]
            rows = [flat[place] for place in pc.index_in(run.mention_table["document_id"], ids).to_numpy().tolist()]
        for key in dict.fromkeys(key for row in rows for key in row):
            values = [row.get(key) for row in rows]
            kinds = {type(value) for value in values} - {type(None)}
            is_long = kinds == {int} and any(value is not None and value.bit_length() > 63 for value in values)
            if len(kinds) > 1 or kinds & {dict, list} or is_long:
                values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
            yield key, pa.array(values)


def labels_of(run: Run, key: str) -> list[Any]:
    """Return the labels of the mentions under a key of their metadata, lists as JSON; [] if none has the key."""
    cells = run.mention_table["metadata"].to_pylist() if "metadata" in run.mention_table.column_names else []
    labels = [object_in(cell).get(key) for cell in cells]
    is_there = any(label is not None for label in labels)
    return [json.dumps(label) if isinstance(label, list) else label for label in labels] if is_there else []


def sentences_of(run: Run, flat: pa.Table) -> Iterator[str | None]:
    """Yield the sentence or sentences of each mention of a `mention_view`; None without texts."""
    begin, stop = (ends.tolist() for ends in sentence_ends(run, flat))
    places = zip(flat["document_id"].to_pylist(), begin, stop, strict=True)
    for document_id, own in groupby(places, itemgetter(0)):
        text = run.text_of(document_id)
        yield from (None if text is None else text[first:last] for _, first, last in own)


def sentence_bounds(run: Run) -> tuple[Ints, Ints, Ints, Ints]:
    """Return where the sentence or sentences of each mention begin and stop, and where the mention does.

    The arrays are of shape (mentions,) and count characters. Without texts, a mention is its own sentence.
    """
    flat = mention_view(run, np.arange(run.link_table.num_rows))
    start, end = (flat[name].to_numpy().astype(np.int64) for name in ("start", "end"))
    return *sentence_ends(run, flat), start, end


def sentence_ends(run: Run, flat: pa.Table) -> tuple[Ints, Ints]:
    """Return where the sentences of each mention of a `mention_view` begin and stop."""
    begin, stop = (flat[name].to_numpy().astype(np.int64) for name in ("start", "end"))
    row = 0
    for document_id, own in groupby(flat["document_id"].to_pylist()):
        part = slice(row, row := row + sum(1 for _ in own))
        begins, ends = sentences(run.text_of(document_id) or "").T
        if len(begins):
            first = np.searchsorted(ends, begin[part], "right")
            last = np.searchsorted(begins, stop[part], "left")
            lower = np.where(first < len(begins), begins[np.minimum(first, len(begins) - 1)], begin[part])
            upper = np.where(last > 0, ends[np.maximum(last, 1) - 1], stop[part])
            begin[part], stop[part] = np.minimum(begin[part], lower), np.maximum(stop[part], upper)
    return begin, stop


def _paths(run: Run) -> pa.ChunkedArray:
    """Return the names from the entity to each mention; null for NIL."""
    name = compared_in(run.mention_table).combine_chunks()
    goes_on, parent = run.parent_rows >= 0, np.maximum(run.parent_rows, 0)
    path, at, more = name, parent, goes_on
    for _ in range(_STEPS_SHOWN - 1):
        longer = pc.binary_join_element_wise(name.take(pa.array(at)), path, " -> ")
        path = pc.if_else(pa.array(more), longer, path)
        at, more = parent[at], more & goes_on[at]
    path = pc.if_else(pa.array(more), pc.binary_join_element_wise("...", path, " -> "), path)
    return pc.binary_join_element_wise(run.link_table["entity_name"], path, " -> ")
