"""Export a run: as a flat table with one row for each mention, or as documents or clusters in other formats."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import Corpus, KnowledgeBase, metadata_in, names_in, numbers, strings
from arbo.errors import UsageError
from arbo.files import PathLike
from arbo.formats import CLUSTERS, GRAPHS, TABLES, ExportFormat, Ids, writer
from arbo.results.run import Ints, Run
from arbo.results.views import ends_of, mention_view, runners_up
from arbo.settings import check_choice
from arbo.text.words import sentences

_STEPS_SHOWN = 8  # maximum number of mentions shown of a path; of a longer path, the last ones are shown
_TOGETHER = 1 << 12  # number of mentions whose texts are read at a time


def export(
    run: Run, path: PathLike, to: ExportFormat, *, ids: Ids | str = "links", kb: KnowledgeBase | None = None
) -> dict[str, int]:
    """Write the result in another format; return the counts of items that the format could not hold.

    Args:
        run: the result.
        path: the file to write or replace; for `brat` and graphs a folder that is missing or empty.
        to: `csv` (for spreadsheets) or `tsv` for the table of `to_pandas`; `jsonl`, `pubtator` or `brat` for the
            documents; `conll` or `corefud` for the clusters of each document, `clusters` for those across documents;
            `graphrag`, `lightrag` or `neo4j` for the graph of which the run was made, each cluster one node.
        ids: the ids to write in documents and clusters: `links` (for NIL, the discovered entity), `entities` (for NIL
            none), `gold`, the annotated ids, or a prefix such as `MESH`: the links, where an entity of ``kb`` has the
            first of its id and its alternative ids that begins with `MESH:` in any case, or else its id.
        kb: the knowledge base of the run, needed for a prefix.

    Raises:
        UsageError: the format or ``ids`` is unknown, or no entity of the run has an id with this prefix; the run is not
            of such a graph; the format needs texts, but the run has none; ``ids`` is `gold`, but no mention is
            annotated; or the path cannot be written.
        DataError: the format cannot hold an id, or the graph has changed.
    """
    write, renamed = writer(to), {} if kb is None or ids in get_args(Ids) else _ids_with(ids, run, kb)
    if to in (*TABLES, *GRAPHS) and (renamed or ids not in get_args(Ids)):
        raise UsageError(f"tables and graphs have the ids of the run; leave --ids {ids} out")
    if to in GRAPHS:
        graph = run.manifest.get("graph") or {"format": "none"}
        if graph["format"] != to:
            wrong = f"the run is not of a graph in the format {to} (but {graph['format']})"
            raise UsageError(f"{wrong}; discover such a graph")
        nodes = zip(run.mention_table["text"].to_pylist(), run.cluster_rows.tolist(), strict=True)
        clusters = dict(zip(run.mention_table["mention_id"].to_pylist(), nodes, strict=True))
        return dict(+write(Path(graph["path"]), path, clusters))
    if to in TABLES:
        table = flat_table(run)
        own = [f"own_{name}" if name in ("reviewed", "author") else name for name in table.column_names]
        table = table.rename_columns(own).append_column("reviewed", pa.nulls(len(table), pa.string()))
        notes = write(table, path)
        notes["mentions without a sentence: the run has no texts"] = table["sentence"].null_count
        return dict(+notes)
    documents = documents_of(run, "links" if renamed else ids, as_classes=to in CLUSTERS, renamed=renamed)
    names = zip(*(run.cluster_table[name].to_pylist() for name in ("cluster_id", "name")), strict=True)
    notes = write(documents, path, {renamed.get(id_, id_): name for id_, name in names})
    if renamed:
        linked = {*chain.from_iterable(run.several.get(id_, [id_]) for id_ in run.link_table["entity_id"].to_pylist())}
        notes[f"own ids written, for lack of an id of {ids}"] = len(linked - renamed.keys() - {None})
    if to in ("bioc", "brat", "pubtator"):
        notes["gold clusters left out"] = sum(mention.cluster is not None for mention in documents.mentions)
    notes["documents whose domain is left out"] = to != "jsonl" and sum(d.domain is not None for d in documents)
    return dict(+notes)


def _ids_with(prefix: str, run: Run, kb: KnowledgeBase) -> dict[str, str]:
    """Return the first id with a prefix of each entity of a run that has one; raise UsageError if none has."""
    start, found = f"{prefix}:".casefold(), dict[str, str]()
    for id_ in filter(kb.__contains__, run.entity_table["entity_id"].to_pylist()):
        if ids := [one for one in (id_, *kb[id_].alternative_ids) if one.casefold().startswith(start)]:
            found[id_] = ids[0]
    if not found:
        known = ", ".join(get_args(Ids))
        raise UsageError(f"no entity of the run has an id that begins with {prefix}:; known: {known}")
    return found


def documents_of(run: Run, ids: Ids | str, *, as_classes: bool = False, renamed: Mapping[str, str] = {}) -> Corpus:
    """Return the documents of a run, with links (for NIL, the discovered entity, or none) or annotated ids as gold ids.

    With ``as_classes``, annotated ids are replaced by the knowledge base's own ids of the same entities, as in scoring.
    ``renamed`` maps ids of links to those to write. Raise UsageError if the run has no texts, ``ids`` is unknown, or it
    is ``"gold"`` but no mention is annotated.
    """
    check_choice("ids", ids, get_args(Ids))
    if ids == "gold" and len(run.mention_table) and all(labels is None for labels in run.gold_labels):
        raise UsageError("no mention of the run is annotated; export the links (--ids links)")
    if not run.has_texts:
        raise UsageError("the run has no texts, as the format needs; link again without texts=false, or export as csv")
    mentions, gold = run.mention_table, None
    if ids != "gold":
        linked = run.link_table["cluster_id" if ids == "links" else "entity_id"]
        lists = (run.several.get(id_, [id_] if id_ else []) for id_ in linked.to_pylist())
        gold = pa.array(([renamed.get(id_, id_) for id_ in some] for some in lists), pa.list_(pa.string()))
        mentions = mentions.drop_columns([name for name in ("cluster",) if name in mentions.column_names])
    elif as_classes:
        entities = mentions["gold_entities"]
        gold = pc.if_else(pc.equal(pc.list_value_length(entities), 0), mentions["gold"], entities)
    if gold is not None:
        mentions = mentions.set_column(mentions.column_names.index("gold"), "gold", gold)
    return Corpus(replace(run.tables, mentions=mentions), run.manifest["notes"]["documents"], run.manifest.get("index"))


def flat_table(run: Run, metadata: Sequence[Mapping[str, Any]] | None = None) -> pa.Table:
    """Make a table of all mentions, one flat row each, in the order of the documents.

    Columns: those of `mention_view`; ``runner_up_id, runner_up_name, runner_up_score`` (the best candidate other than
    the link; for NIL, the best of all), unless no mention has one; ``cluster_name``; ``nil``; ``path`` (the names from
    the entity to the mention, in a long path only those of the entity and of the last eight mentions; null for NIL);
    ``sentence`` (null without texts); ``gold`` (ids as annotated); ``gold_cluster`` if any mention has one; ``domain``
    if any document has one; and a column for each key of the metadata of mentions and documents, called ``own_NAME`` if
    the table already has a column ``NAME``. ``metadata`` are those of the mentions, if they are known.
    """
    mentions, links, rows = run.mention_table, run.link_table, np.arange(run.mention_table.num_rows)
    flat = mention_view(run, rows)
    columns = {name: flat[name] for name in flat.column_names} | runners_up(run)
    columns["cluster_name"] = run.cluster_table["name"].take(numbers(run.cluster_rows))
    columns |= {"nil": pc.is_null(links["entity_id"]), "path": _paths(run)}
    columns |= {"sentence": strings(sentences_of(run, rows)), "gold": mentions["gold"]}
    columns |= {"gold_cluster": mentions["cluster"]} if "cluster" in mentions.column_names else {}
    columns |= {"domain": mentions["domain"]} if mentions["domain"].null_count < len(flat) else {}
    for key, values in _metadata(run, metadata_in(mentions) if metadata is None else metadata):
        while key in columns:
            key = f"own_{key}"
        columns[key] = values
    return pa.table(columns)


def _metadata(run: Run, mentions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, pa.Array]]:
    """Yield the further columns of mentions and documents; lists, objects, mixed types and long integers as JSON."""
    yield from _columns_of(mentions)
    documents, home = np.unique(run.document_rows, return_inverse=True)
    rows = [  # without lists of objects, such as passages of BioC, which each row would repeat
        {key: one for key, one in row.items() if not (type(one) is list and dict in map(type, one))}
        for row in metadata_in(run.document_table.take(numbers(documents)))
    ]
    for key, values in _columns_of(rows):
        yield key, values.take(numbers(home))


def _columns_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, pa.Array]]:
    for key in dict.fromkeys(chain.from_iterable(rows)):
        values = [row.get(key) for row in rows]
        kinds = {type(value) for value in values} - {type(None)}
        is_long = kinds == {int} and max(map(int.bit_length, filter(None, values)), default=0) > 63
        if len(kinds) > 1 or kinds & {dict, list} or is_long:
            values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        yield key, pa.array(values)


def sentences_of(run: Run, rows: Ints) -> list[str | None]:
    """Return the sentence or sentences of each of the mentions; None without texts."""
    if not run.has_texts:
        return [None] * len(rows)
    blocks = ((texts, place.tolist(), *ends.tolist()) for ends, place, texts in sentence_blocks(run, rows))
    return [texts[at][begin:stop] for texts, *columns in blocks for at, begin, stop in zip(*columns, strict=True)]


def sentence_blocks(run: Run, rows: Ints) -> Iterator[tuple[Ints, Ints, list[str]]]:
    """Yield, of some thousand mentions at a time, the ends of their sentences, whose text is which, and the texts.

    The ends are where the sentence or sentences of each begin and stop, in characters; (2, mentions).
    """
    for some in (rows[first : first + _TOGETHER] for first in range(0, len(rows), _TOGETHER)):
        begin, stop = both = np.array(ends_of(run, some), np.int64)
        documents, place = np.unique(run.document_rows[some], return_inverse=True)
        texts = run.texts(documents)
        inside = np.flatnonzero((begin > 0) | (stop < np.array([*map(len, texts)])[place]))
        inside = inside[np.argsort(place[inside], kind="stable")]
        home, first = np.unique(place[inside], return_index=True)
        for at, text in zip(np.split(inside, first)[1:], home.tolist(), strict=True):
            begins, ends = sentences(texts[text]).T
            lowest = np.append(begins, len(texts[text]))[np.searchsorted(ends, begin[at], "right")]
            highest = np.append(0, ends)[np.searchsorted(begins, stop[at], "left")]
            begin[at], stop[at] = np.minimum(begin[at], lowest), np.maximum(stop[at], highest)
        yield both, place, texts


def _paths(run: Run) -> pa.Array:
    """Return the names from the entity to each mention; null for NIL."""
    names = names_in(run.mention_table).combine_chunks()
    linked = np.flatnonzero(run.link_table["entity_id"].is_valid())
    at, path = linked, names.take(numbers(linked))
    for step in range(_STEPS_SHOWN):
        at = np.where(at >= 0, run.parent_rows[at], -1)
        if not (at >= 0).any():
            break
        longer = names.take(numbers(at, missing=at < 0))
        if step == _STEPS_SHOWN - 1:
            longer = pc.if_else(longer.is_valid(), "...", longer)
        path = pc.coalesce(pc.binary_join_element_wise(longer, path, " -> "), path)
    path = pc.binary_join_element_wise(run.link_table["entity_name"].take(numbers(linked)), path, " -> ")
    place = np.full(len(names), -1)
    place[linked] = np.arange(len(linked))
    return path.take(numbers(place, missing=place < 0))
