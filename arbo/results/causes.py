"""Why runs differ: entities that changed in the knowledge base, corrections, new edges, and mentions that are gone."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import rows_among
from arbo.data.releases import Exchange, Keys
from arbo.data.tables import numbered
from arbo.results.graphs import neighbors_of
from arbo.results.run import Ints, Run

Edge = tuple[str, str, float]
"""Two ends, and their dissimilarity."""
_NO_KEYS = np.empty(0, np.uint64)


def exchange_of(a: Run, b: Run) -> Exchange | None:
    """Return what changed in the knowledge base; None if it is the same, or a run does not keep what it had."""
    was, now = (run.manifest["knowledge_base"] for run in (a, b))
    if None in (was, now, a.kept, b.kept) or was["fingerprint"] == now["fingerprint"]:
        return None
    assert a.kept is not None
    assert b.kept is not None
    before, after = (
        Keys(kept.get("kb.ids", _NO_KEYS), kept.get("kb.contents", _NO_KEYS)) for kept in (a.kept(), b.kept())
    )
    return Exchange(before, after, now.get("replaced", {})) if len(before.ids) and len(after.ids) else None


def gone(a: Run, row_in_a: Ints) -> dict[str, str]:
    """Return the first mention of each cluster of the earlier run that the later one lacks."""
    is_gone = np.ones(a.mention_table.num_rows, np.bool_)
    is_gone[row_in_a[row_in_a >= 0]] = False
    if not len(left := np.flatnonzero(is_gone)[::-1]):
        return {}
    columns = (
        a.link_rows.select([name])[name].take(pa.array(left)).to_pylist() for name in ("cluster_id", "mention_id")
    )
    return dict(zip(*columns, strict=True))


def new_corrections(a: Run, b: Run) -> tuple[dict[str, str], dict[str, tuple[str, bool]]]:
    """Return the first correction that only one run obeys, of each cluster and of each mention on which it decides.

    With that of a mention comes whether it is the later run that obeys it.
    """
    tables = ([] if run.correction_table is None else run.correction_table.to_pylist() for run in (a, b))
    earlier, later = ({row["record"]: None for row in table if row["status"] == "obeyed"} for table in tables)
    lines = [line for line in later if line not in earlier] + [line for line in earlier if line not in later]
    records, first = [json.loads(line) for line in lines], dict[str, int]()
    at = _ids_at((a, b), [record["document"] for record in records if "document" in record])
    for number, record in enumerate(records):
        places = [(record.get("document"), str(record.get(key))) for key in ("spans", "resize")]
        of_spans = (id_ for place in places for id_ in at.get(place, ()))
        for mention in (record.get("mention"), *record.get("same", ()), *record.get("different", ()), *of_spans):
            first.setdefault(mention, number)
    about = pa.array([id_ for id_ in first if id_ is not None], pa.string())
    decided: list[tuple[int, str, str]] = []
    for run in (a, b) if first else ():
        for column in {"mention_id", "follows"}.intersection(run.link_rows.column_names):
            links = run.link_rows.select([*{column, "cluster_id", "mention_id"}])
            links = links.filter(pc.is_in(links[column], about))
            about_it, clusters, ids = (links[name].to_pylist() for name in (column, "cluster_id", "mention_id"))
            decided += zip(map(first.__getitem__, about_it), clusters, ids, strict=True)
    decided.sort(reverse=True)
    of_clusters = {cluster: lines[number] for number, cluster, _ in decided}
    return of_clusters, {id_: (lines[number], lines[number] in later) for number, _, id_ in decided}


def _ids_at(runs: Iterable[Run], documents: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the mentions of documents in any of the runs, by document and spans; the first run first."""
    ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for run in runs if documents else ():
        table = run.mention_table.select(["document_id", "spans", "mention_id"])
        rows = table.filter(pc.is_in(table["document_id"], pa.array(documents, pa.string()))).to_pylist()
        for row in rows:
            place = row["document_id"], str([[one["start"], one["end"]] for one in row["spans"]])
            ids[place].append(row["mention_id"])
    return ids


def new_edges(a: Run, b: Run, row_in_a: Ints) -> dict[str, Edge]:
    """Return the lightest edge of each cluster whose ends were apart in the earlier run; ties by row."""
    links, ids = b.link_rows.select(["cluster_id", "parent", "step"]), b.mention_table["mention_id"]
    before = np.full(len(row_in_a), -1)
    before[row_in_a >= 0] = a.cluster_rows[row_in_a[row_in_a >= 0]]
    known, parent = b.cluster_table["entity_id"], b.parent_rows
    entity = rows_among(known, known)[b.cluster_rows]
    below_it = (entity >= 0) & (np.append(rows_among(a.cluster_table["entity_id"], known), -1)[before] == entity)
    beside_it = (before >= 0) & (before[parent] == before)
    step = pc.fill_null(links["step"], float("inf")).to_numpy()
    rows = np.flatnonzero(np.isfinite(step) & ~np.where(parent >= 0, beside_it, below_it))
    rows = rows[np.argsort(step[rows], kind="stable")]
    rows = rows[np.unique(b.cluster_rows[rows], return_index=True)[1]]
    columns = (table.take(rows).to_pylist() for table in (links["cluster_id"], links["parent"], ids, links["step"]))
    edges = {cluster: (source, target, weight) for cluster, source, target, weight in zip(*columns, strict=True)}
    return edges | _new_nil_edges(b, before)


def _new_nil_edges(b: Run, before: Ints) -> dict[str, Edge]:
    """Return the lightest listed edge of each discovered entity whose mentions were apart, or new; ties by row."""
    if (lists := neighbors_of(b)) is None:  # they end at the threshold
        return {}
    order, is_nil = numbered(b.mention_table), pc.is_null(b.link_rows.select(["entity_id"])["entity_id"]).to_numpy()
    nil = np.flatnonzero(is_nil[order])
    edges: list[tuple[Ints, Ints, npt.NDArray[np.float32]]] = []
    for place in range(lists[0].shape[1]):
        near, weight = (own[nil, place] for own in lists)
        near, row, weight = (values[near >= 0] for values in (order[near], order[nil], weight))
        apart = (before[row] != before[near]) | (before[row] < 0)
        new = apart & (b.cluster_rows[row] == b.cluster_rows[near])
        edges.append((row[new], near[new], weight[new]))
    if not edges:
        return {}
    row, near, weight = map(np.concatenate, zip(*edges, strict=True))
    ends = np.sort([row, near], axis=0)
    cluster, was = b.cluster_rows[row], before[ends]
    best = np.lexsort([ends[1], ends[0], weight, cluster])
    best = best[np.unique(cluster[best], return_index=True)[1]]
    source, target = np.where((was[0, best] < 0) & (was[1, best] >= 0), ends[::-1, best], ends[:, best])
    ids = b.mention_table["mention_id"]
    columns = b.cluster_table["cluster_id"].take(cluster[best]), ids.take(source), ids.take(target)
    rows = zip(*(column.to_pylist() for column in columns), weight[best].tolist(), strict=True)
    return {id_: (one, other, own) for id_, one, other, own in rows}
