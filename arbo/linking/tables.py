"""Describe a partition: the tables of a run, its manifest, and its giants. `arbo.results.schema` explains the columns.

The table of links, with all candidates of each mention, is the largest of a run: a fresh result keeps arrays instead,
and makes rows and columns of links when somebody asks for them; it saves the table group by group.

Giants are discovered clusters that are too large: under single linkage, one wrong edge joins two clusters of any size.
The cluster of a frequent entity is large too, but has few names: no correct cluster of CRAFT has more than five
effective names, 1 divided by the chance that two random mentions of it have the same name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache, partial, reduce
from itertools import chain
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.corrections.constraints import Constraints
from arbo.corrections.lines import correction_table
from arbo.data.arrow import numbers, starts, strings
from arbo.data.corpus import Inputs
from arbo.data.fingerprint import hashes_of
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Bools, Ids, Partition, Weights
from arbo.linking.config import AnyConfidence, LinkerConfig
from arbo.results.result import Result
from arbo.results.schema import SCHEMA
from arbo.retrieval.groups import unmapped
from arbo.retrieval.reranking import margins
from arbo.retrieval.retrieval import Retrieval

_SHARE, _MENTIONS, _NAMES = 0.05, 20, 10
"""A giant has more than this share of all mentions, more mentions than this, and at least so many effective names."""
_SLICE = 1 << 16  # number of rows that are made at once


def describe(
    kb: KnowledgeBase | None,
    retrieval: Retrieval,
    clusters: Partition,
    config: LinkerConfig,
    constraints: Constraints | None = None,
    confidence: Mapping[str, AnyConfidence] | None = None,
) -> Result:
    """Make the result of a partition of the mentions of ``retrieval``, which obeys ``constraints``.

    ``confidence`` is that of decisions on all mentions, at "", and on some types. Tables are in document order.
    """
    documents = retrieval.inputs.corpus
    mentions = documents.tables.mentions
    fingerprint = ThreadPoolExecutor(1).submit(lambda: documents.fingerprint)  # meanwhile, the tables are made
    gold, annotated = _gold(mentions, kb)
    n_outside = 0 if kb is None else int((gold.has_id & ~gold.in_kb).sum())
    outside = +Counter({"mentions whose gold ids are not in the knowledge base: they count as NIL": n_outside})
    rows = named_entities(retrieval, clusters)
    known = RunEntities.of(kb, constraints.several if constraints else (), gold.rows, rows)
    length = np.zeros(len(mentions), np.int32)
    length[annotated] = np.diff(gold.indptr)
    own_ids = pa.ListArray.from_arrays(starts(length), known.column("id", gold.rows))
    mentions = mentions.add_column(mentions.column_names.index("found_score") + 1, "gold_entities", own_ids)
    cluster_rows, place = cluster_table(kb, known, retrieval.inputs, clusters, constraints)
    doubts = _ties(retrieval, clusters), gold.doubt(), unmapped(retrieval.inputs, config.map_types)
    followed = None if constraints is None else (constraints.corrected, constraints.follows(clusters))
    counts = {} if constraints is None or followed is None else {"corrections": constraints.counts(followed[1])}
    cluster_ids = cluster_rows["cluster_id"].chunk(0), place
    links = links_of(known, retrieval, clusters, cluster_ids, confidence or {}, followed)
    threshold = dict(zip(("entity", "mention"), config.limits(retrieval.threshold), strict=True))
    if config.nil_linkage == "average":
        threshold["nil"] = config.nil_limit(retrieval.threshold)
    manifest = {
        "config": asdict(config),
        "offset": retrieval.offset,  # similarity = offset - dissimilarity
        "threshold": threshold,
        "encoder": retrieval.settings,
        "search": {"within": retrieval.within},
        "documents": {"documents": len(documents), "mentions": len(mentions), "fingerprint": fingerprint.result()},
        "index": documents.index_names,
        "graph": documents.graph,
        "knowledge_base": None if kb is None else {"entities": len(kb), "fingerprint": kb.fingerprint},
        "kb_source": None if kb is None else kb.source,
        "giants": describe_giants(retrieval.inputs, cluster_rows, place),
        "notes": {
            "documents": documents.notes,
            "knowledge_base": {} if kb is None else kb.notes,
            "gold": {**outside, **gold.changes},
        },
        **counts,
        "warnings": [doubt for doubt in doubts if doubt],
    }
    entities = pa.table({"entity_id" if name == "id" else name: known.column(name, rows) for name in known.columns})
    lines = None if constraints is None else correction_table(constraints.lines)
    return Result(mentions, links, cluster_rows, documents.tables.documents, entities, lines, manifest)


def _gold(mentions: pa.Table, kb: KnowledgeBase | None) -> tuple[Gold, Ids]:
    """Return the annotations of the mentions with gold ids or a gold cluster, and the rows of these mentions."""
    columns = [name for name in ("gold", "cluster") if name in mentions.column_names]
    has_gold = reduce(pc.or_, (mentions[name].is_valid() for name in columns))
    annotated: Any = np.from_dlpack(pc.indices_nonzero(has_gold.combine_chunks()))  # pyarrow 15 crashes without chunks
    return Gold.of(mentions.select([*columns, "domain"]).take(numbers(annotated)), kb), annotated


def _ties(retrieval: Retrieval, clusters: Partition) -> str | None:
    """Describe ties between the nearest entities, if most links have one."""
    is_linked = clusters.entity >= 0
    if retrieval.by_spelling is not None:
        is_linked &= ~retrieval.by_spelling
    near = retrieval.entities.dissimilarity[is_linked, :2]
    n, tied = len(near), int((np.isfinite(near) & (near == near[:, :1])).all(axis=1).sum()) * (near.shape[1] > 1)
    if tied <= n / 2:
        return None
    ties = f"{tied:,} of {n:,} links have the margin 0: several entities are equally near, and ties go to the first"
    return f"{ties} in the knowledge base; `arbo kb check` lists the names that entities share"


def describe_giants(mentions: Inputs, clusters: pa.Table, home: Ids) -> list[dict[str, Any]]:
    """Return the giants of the table of clusters, ready for JSON, the largest first; ``home`` has each mention's row.

    A mention threshold below ``splits_below`` (under average linkage, a NIL threshold) splits the giant.
    """
    is_large = clusters["size"].to_numpy() > max(_MENTIONS, _SHARE * len(home))
    giants = []
    for row in np.flatnonzero(is_large & pc.is_null(clusters["entity_id"]).to_numpy()).tolist():
        names = mentions.names_at(np.flatnonzero(home == row)).to_pylist()
        n, count = len(names), np.array([*Counter(map(str.casefold, names)).values()])
        cluster, weakest = (clusters[name][row].as_py() for name in ("cluster_id", "weakest_join"))
        if n**2 >= _NAMES * (count**2).sum() and weakest is not None:  # or people decided on the whole cluster
            size = {"mentions": n, "share": n / len(home), "names": len(count)}
            giants.append({"cluster": cluster, **size, "splits_below": weakest})
    return giants


class RunEntities(NamedTuple):
    """The entities that a run names: gold entities, links and candidates."""

    columns: Mapping[str, pa.Array]
    place: Ids
    """(entities of the knowledge base + several + 1,) their places in the columns; of those that are not named, any."""

    @classmethod
    def of(cls, kb: KnowledgeBase | None, several: Sequence[Sequence[int]], *rows: Ids) -> Self:
        """Read the entities in these rows; ``several`` are rows of entities that are one together, after the others.

        Their ids and names are joined by ``|``.
        """
        base = KnowledgeBase() if kb is None else kb
        is_named = np.zeros(len(base) + len(several) + 1, np.bool_)
        for used in (*rows, *map(np.array, several)):
            is_named[used] = True
        is_named[len(base) :] = False
        used, names = np.flatnonzero(is_named), ("id", "name", "aliases")
        place = np.cumsum(is_named, dtype=np.int32) - 1
        columns = dict(zip(names, base.taken(names, used), strict=True))
        if several:
            place[len(base) : -1] = len(used) + np.arange(len(several))
            parts = [base.taken(names[:2], np.array(rows)) for rows in several]
            ids, each = ([part.to_pylist() for part in column] for column in zip(*parts, strict=True))
            more: dict[str, list[Any]] = {"id": [*map("|".join, ids)], "name": [*map("|".join, each)]}
            more["aliases"] = [[]] * len(several)
            columns = {name: pa.concat_arrays([old, pa.array(more[name], old.type)]) for name, old in columns.items()}
            columns["several"] = pa.array([*[None] * len(used), *ids], pa.list_(pa.string()))
        return cls(columns, place)

    def column(self, name: str, rows: Ids) -> pa.Array:
        """Return a column of the entities in these rows; null for -1."""
        return self.columns[name].take(numbers(self.place[rows], missing=rows < 0))


def slices(n: int) -> Iterator[slice]:
    """Divide rows into slices, so that what is made of a slice is never as long as a table; at least one."""
    return (slice(begin, min(begin + _SLICE, n)) for begin in range(0, max(1, n), _SLICE))


def named_entities(retrieval: Retrieval, clusters: Partition) -> Ids:
    """Return the rows of the entities that are links or candidates, in order of first appearance."""
    lists = (clusters.entity, np.ascontiguousarray(retrieval.entities.ids).ravel())
    used: Any = np.from_dlpack(pa.chunked_array([*map(numbers, lists)]).unique())
    return np.asarray(used[used >= 0])


def cluster_table(
    kb: KnowledgeBase | None, known: RunEntities, mentions: Inputs, clusters: Partition, constraints: Constraints | None
) -> tuple[pa.Table, Ids]:
    """Make the table of clusters, some of which people named; also return the row of each mention's cluster."""
    n_entities, order = clusters.n_entities, mentions.rows
    label_of = clusters.labels[n_entities:]
    size = np.bincount(label_of)
    label = np.flatnonzero(size)
    size, is_new = size[label], label >= n_entities
    ranked = np.lexsort((label, np.where(is_new, -size, 0), is_new))
    label, size, is_new = label[ranked], size[ranked], is_new[ranked]
    rank = np.empty_like(clusters.labels)
    rank[label] = np.arange(len(label))
    place = rank[label_of]
    entities, entity_names = (known.column(name, label[~is_new]) for name in ("id", "name"))
    first = np.full(len(label), len(order), order.dtype)
    np.minimum.at(first, place, order)
    ids, first = mentions.ids, first[is_new]
    usual = _usual_names(mentions, place, len(entities), len(label))
    if named := {} if constraints is None else constraints.named(clusters):
        new, names = {node: row for row, node in enumerate(label[is_new].tolist())}, usual.to_pylist()
        for node in named.keys() & new.keys():
            mention, names[new[node]] = named[node]
            first[new[node]] = order[mention]
        usual = strings(names)
    ids = pa.concat_arrays([entities, _new_ids(ids.take(numbers(first)), kb)])
    weakest = clusters.weakest_joins()[label].astype(np.float32)
    columns = {
        "cluster_id": ids,
        "entity_id": pa.concat_arrays([entities, pa.nulls(len(usual), pa.string())]),
        "name": pa.concat_arrays([entity_names, usual]),
        "size": numbers(size.astype(np.int32)),
        "weakest_join": numbers(weakest, missing=np.isneginf(weakest)),  # people, or nobody, joined the mentions
    }
    return pa.table(columns), place


def _new_ids(mention_ids: pa.Array, kb: KnowledgeBase | None) -> pa.Array:
    """Make the ids of discovered entities from their first mentions; none is an id of the knowledge base."""
    usual = pc.binary_join_element_wise(*strings(["new-"]), mention_ids, *strings([""]))  # `str` would import pandas
    hashes = hashes_of(usual)
    if kb is None or (np.searchsorted(kb.hashes, hashes) == np.searchsorted(kb.hashes, hashes, "right")).all():
        return usual
    taken = dict[str, str]()
    for name in sorted(usual.to_pylist()):  # so that no id depends on the sizes of clusters
        ids = chain([name], (f"{name}#{number}" for number in range(2, len(kb) + len(usual) + 2)))
        taken[next(id_ for id_ in ids if id_ not in kb and id_ not in taken)] = name
    return strings([*map({name: id_ for id_, name in taken.items()}.get, usual.to_pylist())])


def _usual_names(mentions: Inputs, place: Ids, begin: int, end: int) -> pa.Array:
    """Return the most frequent name in each of the clusters ``begin .. end - 1``; ties go to the first name."""
    size, row_of = np.bincount(place, minlength=end), np.empty(end, np.int64)
    row_of[place] = np.arange(len(place))  # that of a cluster of one mention
    rows = np.flatnonzero((place >= begin) & (size[place] > 1))
    parts = [mentions.names_at(rows[some]).dictionary_encode() for some in slices(len(rows))]
    coded = pa.chunked_array(parts).unify_dictionaries().chunks
    code = np.concatenate([np.from_dlpack(part.indices) for part in coded])  # `to_numpy` imports pandas
    n_names = max(1, len(coded[0].dictionary))
    pair, row, count = np.unique(place[rows] * np.int64(n_names) + code, return_index=True, return_counts=True)
    order = np.lexsort((row, -count, pair // n_names))
    cluster, first = np.unique(pair[order] // n_names, return_index=True)
    row_of[cluster] = rows[row[order[first]]]
    return mentions.names_at(row_of[begin:])


Column: TypeAlias = Callable[[Ids], pa.Array]
"""Makes a column of some mentions, which are numbers in the order of the search."""


@dataclass(frozen=True, eq=False, slots=True)
class Links:
    """What rows of links are made of; it gives rows and columns as a `pyarrow.Table` does, and is pickled as one."""

    ids: pa.Array  # (rows,) ids of the mentions
    mention: Ids  # (rows,) the number of each mention
    columns: Mapping[str, Column]  # the columns after ``mention_id``

    def __len__(self) -> int:
        return len(self.mention)

    def __reduce__(self) -> tuple[Any, ...]:
        return pa.Table.slice, (self.slice(),)

    @property
    def column_names(self) -> Sequence[str]:
        """The names of the columns, in order."""
        return ["mention_id", *self.columns]

    def slice(self, begin: int = 0, length: int | None = None) -> pa.Table:
        """Make so many rows from one on; by default, all that follow."""
        mentions = self.mention[begin : None if length is None else begin + length]
        return self._made(self.ids.slice(begin, len(mentions)), mentions, self.column_names)

    def take(self, rows: pa.Array) -> pa.Table:
        """Make some rows."""
        return self._made(self.ids.take(rows), self.mention[np.asarray(rows)], self.column_names)

    def select(self, names: Sequence[str]) -> pa.Table:
        """Make some columns; raise KeyError for an unknown name."""
        return self._made(self.ids, self.mention, names)

    def _made(self, ids: pa.Array, mention: Ids, names: Sequence[str]) -> pa.Table:
        """Make columns of mentions with these ids, in slices, so that besides it nothing as long is in memory."""
        parts = [mention[some] for some in slices(len(mention))]
        made = (pa.chunked_array([*map(self.columns[name], parts)]) if name != "mention_id" else ids for name in names)
        return pa.table(dict(zip(names, made, strict=True)))


def links_of(
    known: RunEntities,
    retrieval: Retrieval,
    clusters: Partition,
    cluster_ids: tuple[pa.Array, Ids],
    confidence: Mapping[str, AnyConfidence],
    followed: tuple[Bools, Ids] | None,
) -> Links:
    """Return the links of a partition; scores and confidence are computed, so that no vectors are kept.

    ``cluster_ids`` are the ids of the clusters, and the place of each mention's cluster among them. ``followed`` says
    which mentions corrections name, and whose each mention follows, -1 for none. For ``confidence`` see `describe`.
    """
    names = retrieval.inputs
    mention = np.empty(len(names), np.int32)
    mention[names.rows] = np.arange(len(mention), dtype=np.int32)

    def node_ids(nodes: Ids) -> pa.Array:
        """Return the ids of nodes of the graph, which are entities, then mentions; null for -1."""
        is_mention = nodes >= clusters.n_entities
        entities = known.column("id", np.where(is_mention, -1, nodes))
        return pc.coalesce(entities, names.ids_at(np.where(is_mention, nodes - clusters.n_entities, -1)))

    scored = np.where(clusters.entity < retrieval.n_entities, clusters.entity, np.int32(-1))  # not several together
    score, probability = _scores(retrieval, scored, mention, confidence)
    probability[clusters.entity >= retrieval.n_entities] = np.nan
    columns = _entity_columns(known, retrieval, clusters, cluster_ids, score)
    columns["parent"] = lambda mentions: node_ids(clusters.parent[clusters.n_entities + mentions])
    if retrieval.reasons is not None:
        columns |= _reason_columns(node_ids, retrieval, clusters)
    if confidence:
        columns["confidence"] = lambda mentions: _floats(probability[mentions], np.isnan(probability[mentions]))
    if followed is not None:
        corrected, follows = followed
        columns["corrected"] = lambda mentions: numbers(corrected[mentions])
        columns["follows"] = lambda mentions: names.ids_at(follows[mentions])
    return Links(names.ids, mention, {name: columns[name] for name in SCHEMA["links"] if name in columns})


def _entity_columns(
    known: RunEntities, retrieval: Retrieval, clusters: Partition, cluster_ids: tuple[pa.Array, Ids], score: Weights
) -> dict[str, Column]:
    n, entity, (near, dissimilarity) = clusters.n_entities, clusters.entity, retrieval.entities
    parent, weight, heaviest = clusters.parent[n:], clusters.weight[n:], clusters.bottleneck[n:]
    spelled = np.zeros(len(entity), np.bool_) if retrieval.by_spelling is None else retrieval.by_spelling
    offset = np.float32(retrieval.offset)

    def margin(mentions: Ids) -> pa.Array:
        """Return null where there is no second entity, or spelling decided between two that are equally near."""
        lead = margins(-dissimilarity[mentions, :2])
        return numbers(lead, missing=np.isinf(lead) | spelled[mentions])

    def bottleneck(mentions: Ids) -> pa.Array:
        """Return the heaviest edges, infinite for NIL; null if there are only edges that people decided."""
        edge = np.where(entity[mentions] >= 0, heaviest[mentions], np.inf)
        return _floats(edge, np.isneginf(edge))

    def lists(column: Callable[[Any], pa.Array], values: Any, mentions: Ids) -> pa.Array:
        is_there = near[mentions] >= 0
        return pa.ListArray.from_arrays(starts(is_there.sum(axis=1)), column(values[mentions][is_there]))

    return {
        "entity_id": lambda mentions: known.column("id", entity[mentions]),
        "entity_name": lambda mentions: known.column("name", entity[mentions]),
        "cluster_id": lambda mentions: cluster_ids[0].take(numbers(cluster_ids[1][mentions])),
        "score": lambda mentions: _floats(score[mentions], ~np.isfinite(score[mentions])),
        "margin": margin,
        "candidates": partial(lists, partial(known.column, "id"), near),
        "candidate_scores": partial(lists, lambda near: numbers(offset - near), dissimilarity),
        "parent_is_mention": lambda mentions: numbers(parent[mentions] >= n),
        "step": lambda mentions: _floats(weight[mentions], ~np.isfinite(weight[mentions])),
        "bottleneck": bottleneck,
    }


def _scores(
    retrieval: Retrieval, entity: Ids, mention: Ids, confidence: Mapping[str, AnyConfidence]
) -> tuple[Weights, Weights]:
    """Return the similarity of each mention and its entity, undefined without one, and the confidence; NaN if none."""
    has_type = dict(zip(confidence, map(retrieval.has_type, confidence), strict=True))
    score, probability = np.empty(len(entity), np.float32), np.full(len(entity), np.nan, np.float32)
    for some in slices(len(mention)):
        mentions = mention[some]
        features = retrieval.evidence(entity[mentions], mentions)
        score[mentions] = features[:, 0]
        features[entity[mentions] < 0] = 0
        for type_, has_it in has_type.items():  # those of a type after those of all
            own = has_it[mentions]
            values = np.where(entity[mentions] < 0, confidence[type_].nil, confidence[type_].of(features))
            probability[mentions[own]] = values[own]
    return score, probability


def _reason_columns(node_ids: Column, retrieval: Retrieval, clusters: Partition) -> dict[str, Column]:
    """Return the node from which an edge leads to each mention (-1 for none), its reasons and their log-odds."""
    assert retrieval.reasons is not None
    n, n_entities, labels = len(clusters.entity), clusters.n_entities, clusters.labels
    near = retrieval.mentions.ids + n_entities
    together = (near >= n_entities) & (labels[near] == labels[n_entities:, None])
    first = together.argmax(axis=1) if near.shape[1] else np.zeros(n, np.int64)
    source = clusters.parent[n_entities:].astype(np.int64)
    alone = np.flatnonzero((source < 0) & together.any(axis=1))
    source[alone] = near[alone, first[alone]]
    joined = np.flatnonzero((source >= 0) & ~np.isneginf(clusters.weight[n_entities:]))
    why, row, before = retrieval.reasons, retrieval.as_before, retrieval.links

    @cache
    def lists() -> tuple[Ids, list[pa.Array]]:
        """Return the place of each mention's reasons, and these and their log-odds, made when somebody reads them."""
        old, new, kept = joined[:0], joined, list[list[pa.Array]]([[], []])
        if row is not None and before is not None:
            old = joined[(row[joined] >= 0) & (row[source[joined] - n_entities] >= 0)]
            columns = before(row[old], ["nearest", "reasons", "reason_log_odds"])
            nearest, *known = (column.combine_chunks() for column in columns.columns)
            is_same = pc.and_(pc.equal(nearest, node_ids(source[old])), pc.greater(pc.list_value_length(known[0]), 0))
            kept = [[column.filter(is_same)] for column in known]
            old = old[np.from_dlpack(pc.indices_nonzero(pc.fill_null(is_same, False)))]
            new = np.setdiff1d(joined, old, assume_unique=True)
        features, shares = why(source[new], new)
        counted = np.isfinite(shares)
        flat = strings(features[counted].tolist()), _floats(shares[counted])
        start = starts(np.append(counted.sum(axis=1), 0))  # the last list is that of all others
        made = [pa.ListArray.from_arrays(start, column) for column in flat]
        place = np.full(n, len(joined))
        place[np.concatenate([old, new])] = np.arange(len(joined))
        return place, [pa.concat_arrays([*one, other]) for one, other in zip(kept, made, strict=True)]

    def column(which: int) -> Column:
        return lambda mentions: lists()[1][which].take(numbers(lists()[0][mentions]))

    return {"nearest": lambda mentions: node_ids(source[mentions]), "reasons": column(0), "reason_log_odds": column(1)}


def _floats(values: Weights, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    return numbers(values.astype(np.float32), missing=missing)
