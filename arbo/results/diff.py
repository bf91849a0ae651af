"""Differences between any two runs, which may have other documents, settings or models; mentions are matched by id."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.releases import Exchange, Keys
from arbo.results.export import sentences_of
from arbo.results.run import Run, numbered
from arbo.results.views import mention_view

ClusterChangeKind = Literal[
    "new", "gone", "grown", "shrunk", "merged", "split", "moved", "linked", "unlinked", "renamed"
]
MentionChangeKind = Literal["new", "gone", "linked", "unlinked", "moved", "regrouped"]
Ints = npt.NDArray[np.int64]
_NO_KEYS = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """The change of one cluster.

    ``new``: all its mentions are new. ``gone``: none of its mentions is left. ``grown`` or ``shrunk``: it gained or
    lost mentions. ``merged``: all its remaining mentions are in another cluster, or it joins several earlier clusters.
    ``split``: its mentions are now in several clusters, or it is a part of such a cluster. ``moved``: mentions moved
    between it and clusters that both runs have, or its entity changed. ``linked``: a discovered entity became an entity
    of the knowledge base. ``unlinked``: the reverse. ``renamed``: a discovered entity has another id.
    """

    cluster: str
    """Id in the later run, or in the earlier run for a cluster that only this run has."""
    change: ClusterChangeKind
    name: str
    before: int
    """Number of mentions in the earlier run."""
    after: int
    """Number of mentions in the later run."""
    of: tuple[str, ...]
    """Other clusters of the earlier run that had some of its mentions."""
    into: tuple[str, ...]
    """Other clusters of the later run that have some of its mentions."""
    edge: tuple[str, str, float] | None = None
    """The lightest edge that leads into the cluster or joins its parts anew: an entity or mention, a mention that was
    not under or beside it before, and their dissimilarity. None if there is none. For a discovered entity, it comes
    from the lists by which the later run can grow; None if it has no lists, or if learnt edges or a reranker weighed
    the edges between mentions, since the lists have the weights of the encoder."""
    correction: str | None = None
    """The first correction, as JSON, that only one of the runs obeys, the later one first, and that decides on a
    mention of the cluster or of one in ``of``, in either run, itself or because the mention follows another."""
    removed: str | None = None
    """The first mention of the cluster, or of one in ``of``, that the later run lacks."""
    cause: str | None = None
    """The change of its entity in the knowledge base, such as ``D1 is gone``; None if the entity has not changed."""

    @property
    def causes(self) -> str:
        """The change of the entity, the correction, the edge and the removed mention in words; empty without any."""
        edge = None if self.edge is None else f"edge {self.edge[0]} -> {self.edge[1]} ({self.edge[2] + 0.0:.3f})"
        told = (self.cause, self.correction, edge, None if self.removed is None else f"{self.removed} is gone")
        return "; ".join(cause for cause in told if cause is not None)


@dataclass(frozen=True, slots=True)
class MentionChange:
    """The change of one mention.

    ``linked``: from NIL to an entity. ``unlinked``: from an entity to NIL. ``moved``: from one entity to another.
    ``regrouped``: same entity or still NIL, but in a cluster with another id. ``new``: only in the later run.
    ``gone``: only in the earlier run. Entities are None for NIL, and all values of a run without the mention are None.
    """

    mention: str
    document: str
    text: str
    change: MentionChangeKind
    entity_before: str | None
    entity_after: str | None
    cluster_before: str | None
    cluster_after: str | None
    parent: str | None
    """The entity or mention whose edge links the mention in the later run; None for NIL."""
    weight: float | None
    """Dissimilarity of that edge; None for NIL."""
    gold: tuple[str, ...] | None
    """The gold ids; None if the mention is not annotated."""
    sentence: str | None
    """The sentence of the mention; None if the run was saved without texts."""
    cause: str | None = None
    """The change of its entity before or after in the knowledge base, such as ``D5 replaces D1``, and the first
    correction, as JSON, that only one of the runs obeys and that decides on the mention, itself or because the mention
    follows another: of a new or gone mention, only one about spans; beside a change of the entity, only one that the
    later run obeys. None if there is neither."""


@dataclass(frozen=True, slots=True, repr=False)
class Diff:
    """The changes from one run to another; unchanged clusters and mentions are left out."""

    clusters: tuple[ClusterChange, ...]
    """In the order of the later run; clusters that are only in the earlier run come last."""
    mentions: tuple[MentionChange, ...]
    """In the order of the later run; mentions that are only in the earlier run come last."""
    knowledge_base: Mapping[str, int] = field(default_factory=dict)
    """The numbers of entities that are ``new``, ``gone`` or ``changed`` in the knowledge base of the later run, and of
    those in the earlier run that are ``replaced``, which are also gone."""

    def as_dict(self) -> dict[str, Any]:
        """Return the rows and, if there are any, the changes of the knowledge base; ready for JSON."""
        rows = {"clusters": [asdict(row) for row in self.clusters], "mentions": [asdict(row) for row in self.mentions]}
        return {**rows, **({"knowledge_base": dict(self.knowledge_base)} if self.knowledge_base else {})}

    @property
    def _has_causes(self) -> bool:
        return bool(self.knowledge_base) or any(row.cause is not None for row in self.mentions)

    def mention_view(self, limit: int | None = None) -> pa.Table:
        """Make a table of the first ``limit`` changed mentions (default: all): entity or NIL cluster, in both runs."""
        rows = self.mentions[:limit]
        return pa.table(
            {
                **{name: [getattr(row, name) for row in rows] for name in ("change", "mention", "document", "text")},
                "before": pa.array([row.entity_before or row.cluster_before for row in rows], pa.string()),
                "after": pa.array([row.entity_after or row.cluster_after for row in rows], pa.string()),
                "gold": pa.array([row.gold for row in rows], pa.list_(pa.string())),
                **({"cause": pa.array([row.cause for row in rows], pa.string())} if self._has_causes else {}),
                "sentence": pa.array([row.sentence for row in rows], pa.string()),
            }
        )

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the numbers of changes under ``clusters``, ``mentions`` and, if there are any, ``knowledge_base``."""
        return {
            **({"knowledge_base": dict(self.knowledge_base)} if self.knowledge_base else {}),
            "clusters": dict(Counter(row.change for row in self.clusters)),
            "mentions": dict(Counter(row.change for row in self.mentions)),
        }

    def __str__(self) -> str:
        return "\n".join(
            f"{what.replace('_', ' ')}: "
            + (", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "no change")
            for what, kinds in self.counts().items()
        )

    def __repr__(self) -> str:
        return f"Diff({'; '.join(str(self).splitlines())})"


def diff(a: Run, b: Run) -> Diff:
    """Compare two runs: an earlier one, ``a``, and a later one, ``b``.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> before, after = (arbo.Linker(kb).link(part) for part in (documents[:40], documents))
    >>> changes = diff(before, after)
    >>> {row.change for row in changes.mentions} <= {"new", "linked", "unlinked", "moved", "regrouped"}
    True
    >>> diff(after, after).clusters
    ()
    """
    place = pc.index_in(b.mention_table["mention_id"], a.mention_table["mention_id"].combine_chunks())
    row_in_a = place.fill_null(-1).to_numpy().astype(np.int64)
    edges, gone = _new_edges(a, b, row_in_a), _gone(a, row_in_a)
    decided, told = _new_corrections(a, b)
    exchange = exchange_of(a, b)
    changes = list(_cluster_changes(*_changed(a, b, row_in_a)))
    mentions = list(_mention_changes(a, b, row_in_a))
    answers = {id_ for row in mentions for id_ in (row.entity_before, row.entity_after) if id_ is not None}
    causes = exchange.causes(sorted(answers | {row.cluster for row in changes})) if exchange else {}
    return Diff(
        tuple(
            replace(
                row,
                edge=edges.get(row.cluster) if row.after else None,
                correction=next((decided[id_] for id_ in (row.cluster, *row.of) if id_ in decided), None),
                removed=next((gone[id_] for id_ in (row.cluster, *row.of) if id_ in gone), None),
                cause=causes.get(row.cluster),
            )
            for row in changes
        ),
        tuple(replace(row, cause=_cause(row, causes, told)) for row in mentions),
        exchange.counts if exchange else {},
    )


def _cause(row: MentionChange, causes: Mapping[str, str], told: Mapping[str, tuple[str, bool]]) -> str | None:
    """Return why a mention changed, given the changes of entities and, by mention, what `_new_corrections` returns."""
    line, is_later = told.get(row.mention, (None, False))
    if line is not None and row.change in ("new", "gone") and "document" not in json.loads(line):
        line = None  # its document is new or removed
    of_entity = causes.get(row.entity_before or "") or causes.get(row.entity_after or "")
    if of_entity and not is_later:
        line = None  # it waits because the entity has changed
    return "; ".join(cause for cause in (of_entity, line) if cause) or None


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


def _gone(a: Run, row_in_a: Ints) -> dict[str, str]:
    """Return the first mention of each cluster of the earlier run that the later one lacks."""
    is_gone = np.ones(a.mention_table.num_rows, np.bool_)
    is_gone[row_in_a[row_in_a >= 0]] = False
    left = np.flatnonzero(is_gone)[::-1]
    columns = (a.link_table[name].take(pa.array(left)).to_pylist() for name in ("cluster_id", "mention_id"))
    return dict(zip(*columns, strict=True))


def _new_corrections(a: Run, b: Run) -> tuple[dict[str, str], dict[str, tuple[str, bool]]]:
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
    found: list[tuple[int, str, str]] = []
    for run in (a, b) if first else ():
        for column in {"mention_id", "follows"}.intersection(run.link_table.column_names):
            links = run.link_table.filter(pc.is_in(run.link_table[column], about))
            about_it, clusters, ids = (links[name].to_pylist() for name in (column, "cluster_id", "mention_id"))
            found += zip(map(first.__getitem__, about_it), clusters, ids, strict=True)
    found.sort(reverse=True)
    of_clusters = {cluster: lines[number] for number, cluster, _ in found}
    return of_clusters, {id_: (lines[number], lines[number] in later) for number, _, id_ in found}


def _ids_at(runs: Iterable[Run], documents: Sequence[str]) -> dict[tuple[str, str], list[str]]:
    """Return the ids of the mentions of documents in any of the runs, by document and spans; the first run first."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for run in runs if documents else ():
        table = run.mention_table.select(["document_id", "spans", "mention_id"])
        rows = table.filter(pc.is_in(table["document_id"], pa.array(documents, pa.string()))).to_pylist()
        for row in rows:
            place = row["document_id"], str([[one["start"], one["end"]] for one in row["spans"]])
            found[place].append(row["mention_id"])
    return found


def _new_edges(a: Run, b: Run, row_in_a: Ints) -> dict[str, tuple[str, str, float]]:
    """Return the lightest edge of each cluster whose ends were apart in the earlier run; ties by row."""
    links, ids = b.link_table, b.mention_table["mention_id"]
    before = np.full(len(row_in_a), -1)
    before[row_in_a >= 0] = a.cluster_rows[row_in_a[row_in_a >= 0]]
    entity = a.cluster_table["entity_id"].take(pa.array(before, mask=before < 0))
    below_it = pc.fill_null(pc.equal(entity, links["parent"]), False).to_numpy()
    parent = pc.fill_null(pc.index_in(links["parent"], ids.combine_chunks()), -1).to_numpy()
    beside_it = (before >= 0) & (before[parent] == before)
    step = pc.fill_null(links["step"], float("inf")).to_numpy()
    rows = np.flatnonzero(np.isfinite(step) & ~np.where(links["parent_is_mention"].to_numpy(), beside_it, below_it))
    rows = rows[np.argsort(step[rows], kind="stable")]
    rows = rows[np.unique(b.cluster_rows[rows], return_index=True)[1]]
    columns = (table.take(rows).to_pylist() for table in (links["cluster_id"], links["parent"], ids, links["step"]))
    found = {cluster: (source, target, weight) for cluster, source, target, weight in zip(*columns, strict=True)}
    return found | _new_nil_edges(b, before)


def _new_nil_edges(b: Run, before: Ints) -> dict[str, tuple[str, str, float]]:
    """Return the lightest listed edge of each discovered entity whose mentions were apart, or new; ties by row."""
    if b.kept is None or "edges" in b.manifest["encoder"] or b.manifest["config"].get("rerank_mentions"):
        return {}
    kept = b.kept()  # its lists end at the threshold
    order, is_nil = numbered(b.mention_table), pc.is_null(b.link_table["entity_id"]).to_numpy()
    found: list[tuple[Ints, Ints, npt.NDArray[np.float32]]] = []
    for place in range(min(b.manifest["config"]["k"], kept["mentions"].shape[1])):
        near, weight = (kept[name][:, place] for name in ("mentions", "mention_dissimilarity"))
        near, row, weight = (values[near >= 0] for values in (order[near], order, weight))
        apart = (before[row] != before[near]) | (before[row] < 0)
        new = apart & is_nil[row] & (b.cluster_rows[row] == b.cluster_rows[near])
        found.append((row[new], near[new], weight[new]))
    if not found:
        return {}
    row, near, weight = map(np.concatenate, zip(*found, strict=True))
    ends = np.sort([row, near], axis=0)
    cluster, was = b.cluster_rows[row], before[ends]
    best = np.lexsort([ends[1], ends[0], weight, cluster])
    best = best[np.unique(cluster[best], return_index=True)[1]]
    source, target = np.where((was[0, best] < 0) & (was[1, best] >= 0), ends[::-1, best], ends[:, best])
    ids = b.mention_table["mention_id"]
    columns = b.cluster_table["cluster_id"].take(cluster[best]), ids.take(source), ids.take(target)
    rows = zip(*(column.to_pylist() for column in columns), weight[best].tolist(), strict=True)
    return {id_: (one, other, own) for id_, one, other, own in rows}


@dataclass(frozen=True, eq=False, slots=True)
class _Clusters:
    ids: list[str]
    entities: list[str | None]
    names: list[str]
    sizes: Ints

    @classmethod
    def of(cls, run: Run, rows: Ints) -> Self:
        table = run.cluster_table.take(pa.array(rows))
        ids, entities, names = (table[name].to_pylist() for name in ("cluster_id", "entity_id", "name"))
        return cls(ids, entities, names, table["size"].to_numpy().astype(np.int64))


def _changed(a: Run, b: Run, row_in_a: Ints) -> tuple[_Clusters, _Clusters, Ints]:
    """Return the clusters that are not the same in both runs, and the pairs of these that a mention moved between.

    A pair has a row for each mention that both runs have: the place of its earlier and of its later cluster.
    """
    kept = row_in_a >= 0
    before, after = a.cluster_rows[row_in_a[kept]], b.cluster_rows[kept]
    tables = a.cluster_table, b.cluster_table
    heir = pc.index_in(tables[0]["cluster_id"], tables[1]["cluster_id"].combine_chunks())
    heir = pc.fill_null(heir, -1).to_numpy().astype(np.int64)
    size, size_now = (table["size"].to_numpy() for table in tables)
    is_same = (heir >= 0) & (np.bincount(before, minlength=len(heir)) == size) & (np.append(size_now, -1)[heir] == size)
    is_same[before[heir[before] != after]] = False
    there = np.flatnonzero(is_same)
    entities = zip(tables, (there, heir[there]), strict=True)
    was, now = (pc.fill_null(table["entity_id"].take(pa.array(rows)), "") for table, rows in entities)
    is_same[there] = pc.equal(was, now).to_numpy()
    left = np.ones(len(tables[1]), np.bool_)
    left[heir[is_same]] = False
    rows = np.flatnonzero(~is_same), np.flatnonzero(left)
    moved = ~is_same[before]
    pairs = np.column_stack([np.searchsorted(rows[0], before[moved]), np.searchsorted(rows[1], after[moved])])
    return _Clusters.of(a, rows[0]), _Clusters.of(b, rows[1]), pairs


def _cluster_changes(before: _Clusters, after: _Clusters, pairs: Ints) -> Iterator[ClusterChange]:
    sources: defaultdict[int, list[int]] = defaultdict(list)
    targets: defaultdict[int, list[int]] = defaultdict(list)
    for old, new in np.unique(pairs, axis=0).tolist():
        sources[new].append(old)
        targets[old].append(new)
    n_kept = np.bincount(pairs[:, 1], minlength=len(after.ids))
    heir = _heirs(before, after, sources, targets)
    origin = {new: old for old, new in heir.items()}
    for new, id_ in enumerate(after.ids):
        old = origin.get(new)
        of = [source for source in sources[new] if source != old]
        into = [] if old is None else [target for target in targets[old] if target != new]
        size = 0 if old is None else int(before.sizes[old])
        kind: ClusterChangeKind | None
        if old is None:
            kind = "new" if not of else "split" if len(of) == 1 else "merged"
        elif (was := before.entities[old]) != (now := after.entities[new]):
            kind = "linked" if was is None else "unlinked" if now is None else "moved"
        elif before.ids[old] != id_:
            kind = "renamed"
        elif any(target not in origin for target in into):
            kind = "split"
        elif into or any(source in heir for source in of):
            kind = "moved"
        elif n_kept[new] < after.sizes[new] or of:
            kind = "grown"
        else:
            kind = "shrunk" if n_kept[new] < size else None
        if kind is not None:
            others = tuple(before.ids[source] for source in of), tuple(after.ids[target] for target in into)
            yield ClusterChange(id_, kind, after.names[new], size, int(after.sizes[new]), *others)
    for old, id_ in enumerate(before.ids):
        if old not in heir:
            n = len(targets[old])
            end: ClusterChangeKind = "gone" if n == 0 else "merged" if n == 1 else "split"
            into_ids = tuple(after.ids[target] for target in targets[old])
            yield ClusterChange(id_, end, before.names[old], int(before.sizes[old]), 0, (), into_ids)


def _heirs(
    before: _Clusters, after: _Clusters, sources: Mapping[int, list[int]], targets: Mapping[int, list[int]]
) -> dict[int, int]:
    """Find the heir of each earlier cluster: by id, else the one that has all its mentions, and of no other cluster."""
    row_before = {id_: row for row, id_ in enumerate(before.ids)}
    row_after = {id_: row for row, id_ in enumerate(after.ids)}
    heir = {row: row_after[id_] for id_, row in row_before.items() if id_ in row_after}
    for old, news in targets.items():
        if old not in heir and len(news) == 1 and sources[news[0]] == [old] and after.ids[news[0]] not in row_before:
            heir[old] = news[0]
    return heir


def _mention_changes(a: Run, b: Run, row_in_a: Ints) -> Iterator[MentionChange]:
    kept = row_in_a >= 0
    changed = ~kept
    old = pa.array(row_in_a, mask=~kept)
    for name in ("entity_id", "cluster_id"):
        was, now = a.link_table[name].take(old), b.link_table[name]
        same = pc.or_(pc.fill_null(pc.equal(was, now), False), pc.and_(pc.is_null(was), pc.is_null(now)))
        changed |= ~same.to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(changed)
    for row, sentence in zip(rows.tolist(), sentences_of(b, mention_view(b, rows)), strict=True):
        yield _mention_change(a, int(row_in_a[row]), b, row, sentence)
    is_left = np.ones(a.mention_table.num_rows, np.bool_)
    is_left[row_in_a[kept]] = False
    left = np.flatnonzero(is_left)
    for row, sentence in zip(left.tolist(), sentences_of(a, mention_view(a, left)), strict=True):
        yield _mention_change(a, row, b, -1, sentence)


def _mention_change(a: Run, row_a: int, b: Run, row_b: int, sentence: str | None) -> MentionChange:
    """Describe the change of a mention, given its index in each run, or -1 for a run without it."""
    run, row = (a, row_a) if row_b < 0 else (b, row_b)
    shown = ("mention_id", "document_id", "text", "gold")
    id_, document, text, gold = (run.mention_table[name][row].as_py() for name in shown)

    def of(run: Run, row: int, name: str) -> Any:
        return None if row < 0 else run.link_table[name][row].as_py()

    was, now = of(a, row_a, "entity_id"), of(b, row_b, "entity_id")
    kind: MentionChangeKind
    if row_a < 0 or row_b < 0:
        kind = "new" if row_a < 0 else "gone"
    elif was == now:
        kind = "regrouped"
    else:
        kind = "linked" if was is None else "unlinked" if now is None else "moved"
    return MentionChange(
        id_,
        document,
        text,
        kind,
        was,
        now,
        of(a, row_a, "cluster_id"),
        of(b, row_b, "cluster_id"),
        of(b, row_b, "parent"),
        of(b, row_b, "step"),
        None if gold is None else tuple(gold),
        sentence,
    )
