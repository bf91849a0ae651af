"""The content of a page: the tables of a run as columns, and its texts apart from them."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import strings
from arbo.engine import ranges
from arbo.explore.columns import Columns
from arbo.explore.cuts import Cuts, cuts_of
from arbo.explore.figures import overview
from arbo.explore.trees import Tree
from arbo.files import json_ready
from arbo.results.export import sentence_ends
from arbo.results.run import Ints, Run
from arbo.results.schema import SCHEMA
from arbo.results.views import ends_of

_CANDIDATES = 4
"""Number of candidates of a mention on the page."""
_ALIASES = 12
"""Number of aliases of an entity on the page."""
_ELSEWHERE = ("entity_id", "entity_name", "cluster_id")


class Payload(NamedTuple):
    """The compressed content of a page."""

    tables: bytes
    texts: bytes | None
    """None for a page without texts."""


def payload(run: Run, name: str, *, texts: bool = True) -> Payload:
    """Return the content of the page of a run that is called ``name``; without ``texts``, no sentence is readable.

    Mentions keep their own texts, but not their long forms.
    """
    has_texts = texts and run.has_texts
    columns, cuts = Columns(), cuts_of(run)
    known = _Entities(run, None if isinstance(cuts, str) else cuts.entities)
    _add_mentions(columns, run, has_texts)
    names = _add_links(columns, run, known)
    tree = Tree.of(run, cuts)
    columns.numbers("parent", tree.parent)
    columns.decimals("step", tree.step)
    columns.numbers("joins", tree.joins)
    _add_names(columns, run, known)
    head = {"name": name, "texts": has_texts, "aliases": _ALIASES, "links": names, **overview(run)}
    if isinstance(cuts, str):
        head["no_cuts"] = cuts
    else:
        head |= _add_cuts(columns, cuts, known)
    if not has_texts:
        return Payload(columns.packed(head), None)
    content = Columns()
    content.strings("text", run.document_table["text"])
    return Payload(columns.packed(head), content.packed({}))


class _Entities:
    """The entities that the page names: links, and the nearest candidates."""

    def __init__(self, run: Run, others: pa.Array | None = None) -> None:
        links = run.link_table
        lists = links["candidates"].combine_chunks()
        self.offset = lists.offsets.to_numpy().astype(np.int64)
        self.shown = np.minimum(np.diff(self.offset), _CANDIDATES)
        places = ranges(self.offset[:-1], self.shown)
        self.candidates = pc.list_flatten(links["candidates"]).combine_chunks().take(pa.array(places))
        self.scores = pc.list_flatten(links["candidate_scores"]).combine_chunks().take(pa.array(places))
        linked = run.cluster_table["entity_id"].drop_null().combine_chunks()
        more = [] if others is None else [others.drop_null().cast(linked.type)]
        self.ids = pc.unique(pa.concat_arrays([linked, self.candidates.cast(linked.type), *more]))
        self.n_linked = len(linked)

    def rows(self, ids: pa.Array | pa.ChunkedArray) -> Ints:
        """Return the number on the page of each entity; -1 for null."""
        rows: Ints = pc.fill_null(pc.index_in(ids, self.ids, skip_nulls=True), -1).to_numpy().astype(np.int64)
        return rows


def _add_mentions(columns: Columns, run: Run, has_texts: bool) -> None:
    """Add where mentions are and what they say."""
    mentions = run.mention_table
    columns.strings("mention", mentions["mention_id"])
    columns.strings("document", run.document_ids)
    columns.numbers("of", run.document_rows, sorted_=True)
    spans = mentions["spans"].combine_chunks()
    flat = spans.flatten()
    start, end = (flat.field(end).to_numpy().astype(np.int64) for end in ("start", "end"))
    columns.numbers("spans", pc.list_value_length(spans).to_numpy())
    columns.numbers("start", start, sorted_=True)
    columns.numbers("length", end - start)
    columns.codes("text", mentions["text"])
    expansion = mentions["expansion"]  # words from elsewhere in the document
    columns.codes("expansion", expansion if has_texts else pa.chunked_array([pa.nulls(len(expansion), pa.string())]))
    columns.codes("type", mentions["type"])
    gold = mentions["gold"].combine_chunks()
    if gold.null_count < len(gold):
        columns.numbers("golds", pc.fill_null(pc.list_value_length(gold), -1).to_numpy())
        columns.codes("gold", pa.chunked_array([gold.flatten()]))
    if has_texts:
        rows = np.arange(len(mentions))
        (begin, stop), (first, last) = sentence_ends(run, rows), ends_of(run, rows)
        columns.numbers("before", first - begin)
        columns.numbers("after", stop - last)


def _add_links(columns: Columns, run: Run, known: _Entities) -> list[str]:
    """Add the decisions, and the nearest candidates, which are kept once for equal lists; return names of columns."""
    links = run.link_table
    columns.numbers("cluster", run.cluster_rows)
    flat = {name: column.type for name, column in SCHEMA["links"].items() if column.flat and name not in _ELSEWHERE}
    names = [name for name in flat if name in links.column_names]
    for name in names:
        if flat[name] == pa.string():
            columns.codes(name, links[name])
        else:
            add = columns.numbers if flat[name] == pa.bool_() else columns.decimals
            add(name, links[name].to_numpy())
    table = np.full((2 * _CANDIDATES, len(known.shown)), -1, np.int64)
    owner, place = np.repeat(np.arange(len(known.shown)), known.shown), ranges(np.zeros_like(known.shown), known.shown)
    table[place, owner] = known.rows(known.candidates)
    table[_CANDIDATES + place, owner] = known.scores.to_numpy().astype(np.float32).view(np.int32)
    code = np.zeros(len(known.shown), np.int64)
    for own in table:  # in the order of the lists, which `numpy.unique` of rows takes seconds to find
        values, rank_of = np.unique(own, return_inverse=True)
        code = np.unique(code * len(values) + rank_of, return_inverse=True)[1]
    lists = table[:, np.unique(code, return_index=True)[1]]
    columns.numbers("near", code)
    for rank in range(_CANDIDATES):
        columns.numbers(f"near{rank}", lists[rank])
        columns.decimals(f"near{rank}.score", lists[_CANDIDATES + rank].astype(np.int32).view(np.float32))
    return names


def _add_names(columns: Columns, run: Run, known: _Entities) -> None:
    """Add the clusters and the entities; entities come in the order of their clusters, then candidates."""
    clusters = run.cluster_table
    new = clusters.filter(clusters["entity_id"].is_null())
    columns.strings("discovered", new["cluster_id"])
    columns.strings("discovered.name", new["name"])
    table = run.entity_table
    place = pc.index_in(known.ids, table["entity_id"].combine_chunks())
    columns.strings("entity", known.ids)
    columns.strings("entity.name", table["name"].take(place))
    aliases = table["aliases"].take(place.slice(0, known.n_linked)).to_pylist()
    columns.numbers("aliases.all", [len(names or ()) for names in aliases])
    columns.strings("alias", strings([name for names in aliases for name in (names or ())[:_ALIASES]]))


def _add_cuts(columns: Columns, cuts: Cuts, known: _Entities) -> dict[str, dict[str, Any]]:
    """Add the differences of the partitions at other thresholds; return the thresholds, and the places of pairs."""
    page_row = np.append(known.rows(cuts.entities), -1)
    changes = {kind: cuts.changes(kind) for kind in ("entity", "mention")}
    differences = {kind: rows for kind, (_, rows) in changes.items()} | {"pair": cuts.pair_changes()}
    for kind, steps in differences.items():
        columns.numbers(f"cut.{kind}", [len(rows) for rows, _ in steps])
        columns.numbers(f"cut.{kind}.row", np.concatenate([rows for rows, _ in steps]), sorted_=True)
        roots = np.concatenate([roots for _, roots in steps])
        columns.numbers(f"cut.{kind}.root", np.where(roots >= 0, page_row[np.maximum(roots, 0)], roots))
    base = cuts.roots(cuts.base)  # of a known entity, its row on the page
    members, start = cuts.run.rows_of_cluster
    columns.numbers("discovered.root", -1 - base[members[start[known.n_linked : -1]]])
    values = {kind: json_ready(limits) for kind, (limits, _) in changes.items()}
    return {"cuts": values, "pairs": {kind: cuts.paired(kind) for kind in changes}}
