"""Differences between any two runs, which may have other documents, settings or models; mentions are matched by id."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data import grouped, numbers, strings
from arbo.data.releases import Exchange, Keys
from arbo.files import PathLike
from arbo.results.export import sentences_of
from arbo.results.run import Bools, Ints, Run, rows_in

_FIRST = ("moved", "split", "merged", "linked", "unlinked", "gone", "renamed", "grown", "shrunk", "new")
"""The kinds of changes of clusters, those that matter most first."""
_IDS = pa.list_(pa.string())
_CLUSTERS = pa.schema(
    {name: pa.string() for name in ("cluster", "change", "name")}
    | {"before": pa.int64(), "after": pa.int64(), "of": _IDS, "into": _IDS, "cause": pa.string()}
)


@dataclass(frozen=True, slots=True, repr=False)
class Diff:
    """The changes from one run to another, as tables; unchanged clusters and mentions are left out.

    The ``change`` of a cluster is ``new``: all its mentions are new; ``gone``: none of its mentions is left; ``grown``
    or ``shrunk``: it gained or lost mentions; ``merged``: all its remaining mentions are in another cluster, or it
    joins several earlier clusters; ``split``: its mentions are now in several clusters, or it is a part of such a
    cluster; ``moved``: mentions moved between it and clusters that both runs have, or its entity changed; ``linked``: a
    discovered entity became an entity of the knowledge base; ``unlinked``: the reverse; ``renamed``: its id changed.

    That of a mention is ``linked``: from NIL to an entity; ``unlinked``: from an entity to NIL; ``moved``: from one
    entity to another; ``regrouped``: same entity or still NIL, but in a cluster with another id; ``new``: only in the
    later run; ``gone``: only in the earlier run.
    """

    clusters: pa.Table
    """In the order of the later run; clusters that are only in the earlier run come last, with their id in this run.

    Columns: ``cluster, change, name``; ``before`` and ``after``, the numbers of mentions; ``of`` and ``into``, the
    other clusters of the earlier and of the later run that have some of its mentions; and ``cause``, the change of its
    entity in the knowledge base, such as ``D1 is gone``, null if it has not changed."""
    mentions: pa.Table
    """In the order of the later run; mentions that are only in the earlier run come last.

    Columns: ``mention, document, text, change``; ``entity_before, entity_after`` (null for NIL), ``cluster_before,
    cluster_after``; in the later run, ``parent``, the entity or mention whose edge links it, and ``weight``, the
    dissimilarity of this edge (null for NIL); ``gold``, its gold ids, ``sentence`` (null without texts), and ``cause``
    as of clusters, of its entity before or after. All values of a run without the mention are null."""
    knowledge_base: Mapping[str, int] = field(default_factory=dict)
    """The numbers of entities that are ``new``, ``gone`` or ``changed`` in the knowledge base of the later run, and of
    those in the earlier run that are ``replaced``, which are also gone."""
    decisions: Sequence[str] = ()
    """Of each decision of people that changed mentions: who decided what, and how many mentions followed."""
    settings: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """The settings of linker, encoder and other models that differ, before and after; ready for JSON."""

    def as_dict(self) -> dict[str, Any]:
        """Return the rows and, if there are any, the changes of knowledge base and settings; ready for JSON."""
        rows = {"clusters": self.clusters.to_pylist(), "mentions": self.mentions.to_pylist()}
        more = {"knowledge_base": dict(self.knowledge_base), "settings": dict(self.settings)}
        return rows | {what: changes for what, changes in more.items() if changes}

    def mention_view(self, limit: int | None = None) -> pa.Table:
        """Make a table of the first ``limit`` changed mentions (default: all): entity or NIL cluster, in both runs."""
        rows, cause = self.mentions.slice(0, limit), ("cause",) if self.knowledge_base else ()
        columns = {name: rows[name] for name in ("change", "mention", "document", "text")}
        columns |= {run: pc.coalesce(rows[f"entity_{run}"], rows[f"cluster_{run}"]) for run in ("before", "after")}
        return pa.table(columns | {name: rows[name] for name in ("gold", *cause, "sentence")})

    @property
    def ranked(self) -> pa.Table:
        """The changes of clusters, the kinds that matter most first, and within a kind the largest clusters."""
        kind = [_FIRST.index(one) for one in self.clusters["change"].to_pylist()]
        size = np.maximum(*(self.clusters[run].to_numpy() for run in ("before", "after")))
        return self.clusters.take(np.lexsort((-size, kind)))

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the numbers of changes under ``clusters``, ``mentions`` and, if there are any, ``knowledge_base``."""
        tables = {"clusters": self.clusters, "mentions": self.mentions}
        changes = {what: dict(Counter(table["change"].to_pylist())) for what, table in tables.items()}
        return {"knowledge_base": dict(self.knowledge_base), **changes} if self.knowledge_base else changes

    def __str__(self) -> str:
        kinds = ((what, ", ".join(f"{n:,} {kind}" for kind, n in of.items())) for what, of in self.counts().items())
        lines = [f"{what.replace('_', ' ')}: {changes or 'no change'}" for what, changes in kinds]
        changed = (f"{name} from {was!s:.40} to {now!s:.40}" for name, (was, now) in self.settings.items())
        return "\n".join([*lines, *self.decisions, *(["settings: " + ", ".join(changed)] if self.settings else [])])

    def __repr__(self) -> str:
        return f"Diff({'; '.join(str(self).splitlines())})"


def diff(a: Run | PathLike, b: Run | PathLike) -> Diff:
    """Compare two runs: an earlier one, ``a``, and a later one, ``b``.

    Raise DataError as `Result.load` does if one is a folder that cannot be read.

    >>> import arbo
    >>> documents, kb = arbo.load_sample()
    >>> before, after = (arbo.Linker(kb).link(part) for part in (documents[:40], documents))
    >>> changes = diff(before, after)
    >>> {*changes.mentions["change"].to_pylist()} <= {"new", "linked", "unlinked", "moved", "regrouped"}
    True
    >>> len(diff(after, after).clusters)
    0
    """
    a, b = (run if isinstance(run, Run) else Run.load(run) for run in (a, b))
    row_in_a, exchange = rows_in(a, b), _exchange_of(a, b)
    was, now, pairs = _changed(a, b, row_in_a)
    causes = exchange.causes(row["cluster_id"] for row in was + now) if exchange else {}
    changes = _cluster_changes(was, now, pairs)
    named = [{**row, "cluster": row["cluster_id"], "cause": causes.get(row["cluster_id"])} for row in changes]
    clusters = pa.Table.from_pylist(named, _CLUSTERS)
    mentions = _mention_changes(a, b, row_in_a, causes)
    counts, settings = exchange.counts if exchange else {}, _settings(a.manifest, b.manifest)
    return Diff(clusters, mentions, counts, _decisions(b, mentions["mention"]), settings)


def _decisions(run: Run, changed: pa.ChunkedArray) -> list[str]:
    """Return a sentence for each decision that was obeyed and changed mentions, in the order of the run."""
    if run.correction_table is None or "follows" not in run.link_table.column_names:
        return []
    records = (row["record"] for row in run.corrections if row["status"] == "obeyed")
    about = {record["mention"]: record for record in records if "mention" in record}
    rows = {id_: run.row_of[id_] for id_ in changed.to_pylist() if id_ in run.row_of}
    followed = Counter(run.link_table["follows"].take(numbers(np.array([*rows.values()], np.int64))).to_pylist())
    sentences = []
    for id_ in sorted((followed.keys() | rows.keys()) & about.keys() & run.row_of.keys(), key=run.row_of.__getitem__):
        link, author = run.link_of(id_), about[id_].get("author") or "correction"
        decision = link.entity_name or about[id_].get("new", "NIL")
        decision = f"not {about[id_]['not']}, but {decision}" if "not" in about[id_] else decision
        more = f"; {followed[id_]:,} followed" if followed[id_] else ""
        sentences.append(f"{author}: {link.name!r:.60} is {decision:.60}{more}")
    return sentences


def _exchange_of(a: Run, b: Run) -> Exchange | None:
    """Return what changed in the knowledge base; None if it is the same, or a run lacks the hashes of its entities."""
    was, now = (run.manifest["knowledge_base"] for run in (a, b))
    if was is None or now is None or was["fingerprint"] == now["fingerprint"]:
        return None
    arrays = [run.arrays() for run in (a, b)]
    if not all("kb.ids" in kept_by_run for kept_by_run in arrays):
        return None
    before, after = (Keys(kept_by_run["kb.ids"], kept_by_run["kb.contents"]) for kept_by_run in arrays)
    return Exchange(before, after, now.get("replaced", {}))


def _settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    was, now = (dict(_leaves({**run["config"], "encoder": run["encoder"]})) for run in (before, after))
    pairs = {name: (was.get(name), now.get(name)) for name in now | was}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _leaves(value: Mapping[str, Any], begin: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings that are no mappings, or empty ones; dots join the keys in their names."""
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _leaves(inner, f"{begin}{key}.")
        else:
            yield f"{begin}{key}", inner


_Clusters = list[dict[str, Any]]


def _changed(a: Run, b: Run, row_in_a: Ints) -> tuple[_Clusters, _Clusters, Ints]:
    """Return the clusters that are not the same in both runs, and the pairs of these that share mentions, (3, pairs).

    A pair has the places of both clusters, and the number of mentions that they share.
    """
    shared, n = row_in_a >= 0, max(1, len(b.cluster_table))
    pair, count = np.unique(a.cluster_rows[row_in_a[shared]] * n + b.cluster_rows[shared], return_counts=True)
    rows = np.divmod(pair, n)
    tables = [run.cluster_table.select(["cluster_id", "entity_id", "name", "size"]) for run in (a, b)]
    was, now = (table.take(numbers(row)) for table, row in zip(tables, rows, strict=True))
    is_same = np.logical_and(was["size"].to_numpy() == count, now["size"].to_numpy() == count)
    for name in ("cluster_id", "entity_id"):
        is_same &= ~_differ(was[name], now[name])
    left = [np.delete(np.arange(len(table)), row[is_same]) for table, row in zip(tables, rows, strict=True)]
    places = [np.searchsorted(some, row[~is_same]) for some, row in zip(left, rows, strict=True)]
    before, after = (table.take(numbers(some)).to_pylist() for table, some in zip(tables, left, strict=True))
    return before, after, np.stack([*places, count[~is_same]])


def _cluster_changes(before: _Clusters, after: _Clusters, pairs: Ints) -> Iterator[dict[str, Any]]:
    old_of, new_of, _ = pairs.tolist()
    sources, targets = grouped(zip(new_of, old_of, strict=True)), grouped(zip(old_of, new_of, strict=True))
    n_shared = np.bincount(pairs[1], pairs[2], minlength=len(after))
    heir = _heirs(before, after, sources, targets)
    origin = {new: old for old, new in heir.items()}
    for new, now in enumerate(after):
        old = origin.get(new)
        of = [source for source in sources[new] if source != old]
        into = [] if old is None else [target for target in targets[old] if target != new]
        was = None if old is None else before[old]
        size = 0 if was is None else was["size"]
        if was is None:
            kind = "new" if not of else "split" if len(of) == 1 else "merged"
        elif was["entity_id"] != now["entity_id"]:
            kind = "linked" if was["entity_id"] is None else "unlinked" if now["entity_id"] is None else "moved"
        elif was["cluster_id"] != now["cluster_id"]:
            kind = "renamed"
        elif any(target not in origin for target in into):
            kind = "split"
        elif into or any(source in heir for source in of):
            kind = "moved"
        elif n_shared[new] < now["size"] or of:
            kind = "grown"
        else:
            kind = "shrunk" if n_shared[new] < size else ""
        if kind:
            others = {"of": _ids(before, of), "into": _ids(after, into)}
            yield {**now, "change": kind, "before": size, "after": now["size"], **others}
    for old, was in enumerate(before):
        if old not in heir:
            n, others = len(targets[old]), {"of": [], "into": _ids(after, targets[old])}
            end = "gone" if n == 0 else "merged" if n == 1 else "split"
            yield {**was, "change": end, "before": was["size"], "after": 0, **others}


def _ids(clusters: _Clusters, places: Sequence[int]) -> list[str]:
    return [clusters[place]["cluster_id"] for place in places]


def _heirs(
    before: _Clusters, after: _Clusters, sources: Mapping[int, list[int]], targets: Mapping[int, list[int]]
) -> dict[int, int]:
    """Find the heir of each earlier cluster: by id, else the one that has all its mentions, and of no other cluster."""
    row_after = {cluster["cluster_id"]: row for row, cluster in enumerate(after)}
    heir = {row: row_after[one["cluster_id"]] for row, one in enumerate(before) if one["cluster_id"] in row_after}
    taken = {*heir.values()}
    for old, news in targets.items():
        if old not in heir and len(news) == 1 and sources[news[0]] == [old] and news[0] not in taken:
            heir[old] = news[0]
    return heir


def _mention_changes(a: Run, b: Run, row_in_a: Ints, causes: Mapping[str, str]) -> pa.Table:
    shared = row_in_a >= 0
    changed, old = ~shared, numbers(row_in_a, missing=~shared)
    links = [run.link_rows.select(["entity_id", "cluster_id", "parent", "step"]) for run in (a, b)]
    for name in ("entity_id", "cluster_id"):
        changed |= _differ(links[0][name].take(old), links[1][name])
    rows, left = np.flatnonzero(changed), np.delete(np.arange(a.mention_table.num_rows), row_in_a[shared])
    places = np.append(row_in_a[rows], left), np.append(rows, np.full(len(left), -1))
    was, now = (table.take(numbers(at, missing=at < 0)) for table, at in zip(links, places, strict=True))
    names = ["mention_id", "document_id", "text", "gold"]
    both = [run.mention_table.select(names).take(numbers(at)) for run, at in ((b, rows), (a, left))]
    described, sentences = pa.concat_tables(both), sentences_of(b, rows) + sentences_of(a, left)
    entities = was["entity_id"], now["entity_id"]
    is_null = [column.is_null().to_numpy() for column in (was["cluster_id"], now["cluster_id"], *entities)]
    cases = [*is_null[:2], ~_differ(*entities), *is_null[2:]]
    kind = np.select(cases, ["new", "gone", "regrouped", "linked", "unlinked"], "moved").tolist()
    pairs = zip(*(ids.to_pylist() for ids in entities), strict=True)
    columns = {
        **dict(zip(("mention", "document", "text"), described.columns, strict=False)),
        "change": strings(kind),
        "entity_before": entities[0],
        "entity_after": entities[1],
        "cluster_before": was["cluster_id"],
        "cluster_after": now["cluster_id"],
        "parent": now["parent"],
        "weight": now["step"],
        "gold": described["gold"],
        "sentence": strings(sentences),
        "cause": strings([causes.get(before or "") or causes.get(after or "") for before, after in pairs]),
    }
    return pa.table(columns)


def _differ(was: pa.ChunkedArray, now: pa.ChunkedArray) -> Bools:
    """Return whether ids differ, of which null is one."""
    return np.asarray(pc.not_equal(pc.fill_null(was, ""), pc.fill_null(now, "")))
