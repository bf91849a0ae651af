"""Views of a run: flat tables of all or some mentions and clusters."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import names_in, numbers
from arbo.errors import UsageError
from arbo.results.graphs import next_joins
from arbo.results.run import Ints, Run
from arbo.results.schema import SCHEMA
from arbo.text.names import normalize_names

WRONG = ("name of another entity", "outranked", "not a candidate", "NIL", "not in the knowledge base")
"""Why a decision is wrong: the mention equals a name of another entity, its gold entity is only a candidate, or not
even that, it is NIL though the knowledge base has its entity, or is linked though it has not."""


def wrong_kinds(run: Run) -> Ints:
    """Return why each decision is wrong, (mentions,), as a place in `WRONG`; -1 if it is right, or not annotated.

    Any of the gold entities of a mention is right; without a knowledge base, no decision is wrong.
    """
    mentions, links = run.mention_table, run.link_table
    gold, entity = mentions["gold_entities"].combine_chunks(), links["entity_id"].combine_chunks()
    owner = pc.list_parent_indices(gold)
    right = pc.and_(pc.is_null(entity), pc.equal(pc.list_value_length(gold), 0)).to_numpy(zero_copy_only=False).copy()
    right[owner.filter(pc.fill_null(pc.equal(entity.take(owner), gold.flatten()), False)).to_numpy()] = True
    rows = np.flatnonzero(~right & pc.is_valid(mentions["gold"]).to_numpy())
    at, several, kinds = numbers(rows), run.several, np.full(len(mentions), -1)
    names = normalize_names(names_in(mentions.take(at)).to_pylist())
    linked, near, known = entity.take(at), links["candidates"].take(at).to_pylist(), run.entity_table
    named = known.filter(pc.is_in(known["entity_id"], linked)).to_pylist()
    names_of = {one["entity_id"]: {*normalize_names([one["name"], *one["aliases"]])} for one in named}
    decisions = zip(rows.tolist(), linked.to_pylist(), gold.take(at).to_pylist(), names, near, strict=True)
    for row, id_, ids, name, candidates in decisions:
        if not ids or id_ is None:
            kinds[row] = 3 if ids else 4
        elif {*several.get(id_, ())}.isdisjoint(ids):
            kinds[row] = 0 if name in names_of[id_] else 1 if {*candidates} & {*ids} else 2
    return kinds


def errors_by_kind(run: Run) -> dict[str, int]:
    """Count the wrong decisions of a run by their kind in `WRONG`."""
    return dict(zip(WRONG, np.bincount(wrong_kinds(run) + 1, minlength=len(WRONG) + 1)[1:].tolist(), strict=True))


def selected(run: Run, *, nil: bool = False, words: str | None = None, doubtful: bool = False) -> Ints:
    """Return the rows of some mentions: only NIL ones, or only those with a string.

    The string, whose case is ignored, may be in the text, the expansion or the entity's name. With ``doubtful``, those
    with the lowest confidence come first, in a run without it with the lowest margin; without a knowledge base, those
    of the clusters with the highest `weakest_join`, and then with the lowest next one. Those without any come last.
    """
    links, mentions = run.link_table, run.mention_table
    chosen = np.ones(links.num_rows, np.bool_)
    if nil:
        chosen &= pc.is_null(links["entity_id"]).to_numpy()
    if words is not None:
        texts = (mentions["text"], links["entity_name"], mentions["expansion"])
        matches = (pc.match_substring(text, words, ignore_case=True) for text in texts)
        chosen &= np.logical_or.reduce([pc.fill_null(one, False).to_numpy() for one in matches])
    rows: Ints = np.flatnonzero(chosen)
    if doubtful:
        if run.manifest["knowledge_base"] is None:
            weakest = pc.fill_null(run.cluster_table["weakest_join"], -np.inf).to_numpy()
            by = [values[run.cluster_rows[rows]] for values in (next_joins(run)[1], -weakest)]
        else:
            known = links["confidence" if "confidence" in links.column_names else "margin"]
            by = [pc.fill_null(known, np.inf).to_numpy()[rows]]
        rows = rows[np.lexsort(by)]
    return rows


def rows_called(run: Run, name: str) -> Ints:
    """Return the row of the mention with this id, else the rows of those with this document, cluster, entity or text.

    Case is ignored in texts, and entities are compared by id and name. Raise UsageError if no mention has any of these.
    """
    if name in run.row_of:
        return np.array([run.row_of[name]], np.int64)
    links, mentions = run.link_table, run.mention_table
    ids = (mentions["document_id"], links["cluster_id"], links["entity_id"])
    texts = (mentions["text"], mentions["expansion"], links["entity_name"])
    fits = [pc.equal(column, name) for column in ids]
    fits += [pc.equal(pc.utf8_lower(column), name.lower()) for column in texts]
    rows: Ints = np.flatnonzero(np.logical_or.reduce([pc.fill_null(one, False).to_numpy() for one in fits]))
    if not len(rows):
        raise UsageError(f"no mention has the id, document, cluster, entity or text {name!r}; arbo show lists them")
    return rows


def mention_view(run: Run, rows: Ints, wrong: Ints | None = None, *, doubtful: bool = False) -> pa.Table:
    """Make a table of some mentions and their links, one flat row each.

    Columns: those that `arbo.results.schema` calls flat, ``confidence`` before ``score``, with ``start, end`` (of the
    whole mention) in place of spans, and without ``found_score`` if no finder found any mention. With the result of
    `wrong_kinds`, also ``wrong, gold``; with ``doubtful``, what else the decisions might be: `runners_up` or `joins`.
    """
    mentions, links, at = run.mention_table, run.link_rows, numbers(rows)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name in (name for name, column in SCHEMA["mentions"].items() if column.flat):
        if name == "spans":
            columns |= dict(zip(("start", "end"), map(numbers, ends_of(run, rows)), strict=True))
        elif name != "found_score" or mentions[name].null_count < len(mentions):
            columns[name] = mentions[name].take(at)
    names = [name for name, column in SCHEMA["links"].items() if column.flat and name in links.column_names]
    if "confidence" in names:
        names.insert(names.index("score"), names.pop(names.index("confidence")))
    taken = links.select(names).take(at) if isinstance(links, pa.Table) else links.take(rows)
    if wrong is not None:
        columns |= {"wrong": pa.array(WRONG).take(numbers(wrong[rows])), "gold": mentions["gold"].take(at)}
    columns |= {name: taken[name] for name in names}
    if doubtful and run.manifest["knowledge_base"] is None:
        columns |= joins(run, run.cluster_rows[rows])
    elif doubtful:
        columns |= {name: column.take(at) for name, column in runners_up(run).items()}
    return pa.table(columns)


def runners_up(run: Run) -> dict[str, pa.Array]:
    """Return id, name and score of the best candidate of each mention other than its link, unless there are none."""
    links = run.link_table
    lists, scores = (links[name].combine_chunks() for name in ("candidates", "candidate_scores"))
    start, candidates = lists.offsets.to_numpy() - lists.offsets[0].as_py(), lists.flatten()
    first, end = start[:-1], start[1:]
    nearest = candidates.take(numbers(first, missing=first == end))
    is_link = pc.fill_null(pc.equal(nearest, links["entity_id"].combine_chunks()), False)  # a null link: NIL
    place = first + is_link.to_numpy(zero_copy_only=False)
    if (place == end).all():
        return {}
    ids = candidates.take(numbers(place, missing=place == end))
    names = run.entity_table["name"].take(pc.index_in(ids, run.entity_table["entity_id"].combine_chunks()))
    score = scores.flatten().take(numbers(place, missing=place == end))
    return {"runner_up_id": ids, "runner_up_name": names, "runner_up_score": score}


def joins(run: Run, clusters: Ints) -> dict[str, Any]:
    """Return what joins some discovered clusters, and what they would join next, see `next_joins`."""
    (other, height), table, threshold = next_joins(run), run.cluster_table, run.manifest["threshold"]
    near = numbers(other[clusters], missing=other[clusters] < 0)
    return {
        "weakest_join": table["weakest_join"].take(numbers(clusters)),
        "threshold": pa.array([threshold.get("nil", threshold["mention"])] * len(clusters), pa.float32()),
        "next_join": numbers(height[clusters].astype(np.float32), missing=np.isnan(height[clusters])),
        "next_cluster_id": table["cluster_id"].take(near),
        "next_cluster_name": table["name"].take(near),
    }


def ends_of(run: Run, rows: Ints) -> tuple[Any, Any]:
    """Return where mentions begin and end, as a whole."""
    spans = run.mention_table["spans"].take(numbers(rows)).combine_chunks()
    first: Any = np.from_dlpack(spans.offsets)[:-1]
    start, end = (np.from_dlpack(spans.flatten().field(name)) for name in ("start", "end"))
    return np.minimum.reduceat(start, first), np.maximum.reduceat(end, first)


def cluster_view(run: Run, chosen: Ints, *, doubtful: bool = False) -> pa.Table:
    """Make a table of some clusters: the columns of the cluster table, and ``examples``, up to three distinct texts.

    The texts are of its first 50 mentions. With ``doubtful``, clusters of a run without a knowledge base have `joins`.
    """
    members, start = run.rows_of_cluster
    texts = run.mention_table["text"]
    looked_at = (texts.take(members[start[row] : start[row + 1]][:50]).to_pylist() for row in chosen)
    shown = [[*dict.fromkeys(of_cluster)][:3] for of_cluster in looked_at]
    columns = dict(zip(run.cluster_table.column_names, run.cluster_table.take(chosen).columns, strict=True))
    if doubtful and run.manifest["knowledge_base"] is None:
        columns |= joins(run, chosen)
    return pa.table({**columns, "examples": pa.array(shown, pa.list_(pa.string()))})
