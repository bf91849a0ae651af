"""Make the tables of a run from arrays.

``mentions``: ``mention_id, document_id, spans`` (list of start and end in characters, from 0, the end excluded),
``text, expansion`` (the long form of an abbreviation, else null), ``type, domain, gold`` (ids as annotated; null
without an annotation), ``found_score`` (score of a found mention, else null), ``gold_entities`` (the knowledge base's
own ids of the gold entities in the mention's domain), and ``cluster``, the gold cluster, if any mention has one.

``links``: ``mention_id, entity_id, entity_name`` (both null for NIL), ``cluster_id, score`` (similarity of mention and
entity, or a probability, see `Link.score`; null for NIL), ``margin`` (lead of the nearest entity over the second; null
without a second), ``parent`` (entity or mention id; null for NIL), ``parent_is_mention, step`` (dissimilarity of the
edge from the parent; null for NIL), ``bottleneck`` (the largest dissimilarity on the path from the entity; infinite for
NIL), ``candidates, candidate_scores`` (nearest entities and their similarities); after tuning, also ``confidence``
(probability that the link is correct; null for NIL). With an edge model, also ``nearest`` (the parent or, for NIL, the
nearest mention of the cluster from which an edge leads to the mention), and ``reasons, reason_log_odds``: the features
that counted most for that edge, and their shares of its log-odds. With corrections, also ``corrected`` (whether one
names the mention) and ``follows`` (the mention whose correction decided on this one too; else null). Edges that people
decided have no dissimilarity: ``step`` is null, and ``bottleneck`` leaves them out and is null if there is no other.

``clusters``: ``cluster_id, entity_id`` (null for a discovered cluster), ``name, size, weakest_join`` (dissimilarity of
the edge that joined the cluster's last two parts, or the average dissimilarity of these parts under average linkage;
null for the cluster of an entity or of one mention). Clusters of entities come first, in the order of the knowledge
base, then discovered clusters, largest first. The id of a discovered entity is ``new-`` and the id of its first mention
in the order of the documents, so that the same clusters have the same ids in every run; a new entity that corrections
name has the id of its first corrected mention, and their name for it. If this id is taken, ``#2`` or a higher number is
appended.

``documents``: ``document_id, domain, text``; no ``text`` if the run was saved without texts.

``entities``: ``entity_id, name, aliases`` of the entities that are links or candidates.

The column ``metadata`` holds further columns or keys of mentions and documents as a JSON object. It is missing if there
are none, or if the run was saved without texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import numbers, starts, string_lists, strings
from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.data.gold import Gold
from arbo.data.knowledge_base import KnowledgeBase
from arbo.engine import Ids, Partition, Weights
from arbo.linking.confidence import Confidence, evidence
from arbo.retrieval.retrieval import Retrieval
from arbo.text.checks import Span


class NamedEntities(NamedTuple):
    """The entities that a run names: gold entities, links and candidates."""

    rows: Ids
    """Their rows in the knowledge base, ascending."""
    columns: Mapping[str, pa.Array]

    @classmethod
    def of(cls, kb: KnowledgeBase | None, *rows: Ids) -> Self:
        """Read the entities in these rows; -1 stands for none."""
        used = np.unique(np.concatenate([np.unique(own) for own in rows]))
        used, base = used[used >= 0], KnowledgeBase() if kb is None else kb
        names = ("id", "name", "aliases")
        return cls(used, dict(zip(names, base.taken(names, used), strict=True)))

    def column(self, name: str, rows: Ids) -> pa.Array:
        """Return a column of the entities in these rows; null for -1."""
        return self.columns[name].take(numbers(np.searchsorted(self.rows, rows), missing=rows < 0))


def mention_table(corpus: Corpus, names: Sequence[str]) -> pa.Table:
    """Make the table of mentions, one row for each mention, from the names that are compared.

    The column ``gold_entities`` is missing, see `with_gold_entities`.
    """
    mentions = corpus.mentions
    clusters = [m.cluster for m in mentions]
    return pa.table(
        {
            "mention_id": strings([m.id for m in mentions]),
            "document_id": strings([m.document_id for m in mentions]),
            "spans": _spans([m.spans for m in mentions]),
            "text": strings([m.text for m in mentions]),
            "expansion": strings([None if m.text == name else name for m, name in zip(mentions, names, strict=True)]),
            "type": strings([m.type for m in mentions]),
            "domain": strings([document.domain for document in corpus for _ in document.mentions]),
            "gold": string_lists([m.gold for m in mentions]),
            "found_score": _scores([m.score for m in mentions]),
            **({"cluster": strings(clusters)} if any(clusters) else {}),
            **_metadata(mentions),
        }
    )


def with_gold_entities(mentions: pa.Table, gold: Gold, known: NamedEntities) -> pa.Table:
    """Return the table of mentions with the knowledge base's own ids of their gold entities."""
    entities = pa.ListArray.from_arrays(starts(np.diff(gold.indptr)), known.column("id", gold.rows))
    return mentions.add_column(mentions.column_names.index("found_score") + 1, "gold_entities", entities)


def _metadata(items: Sequence[Document | Mention]) -> dict[str, pa.Array]:
    stored = [json.dumps(item.metadata, ensure_ascii=False) if item.metadata else None for item in items]
    return {"metadata": strings(stored, pa.large_string())} if any(stored) else {}


def _of_nodes(known: NamedEntities, mention_ids: pa.Array, n_entities: int, nodes: Ids) -> pa.Array:
    """Return the ids of entities and mentions by their nodes in the graph; null for -1."""
    mention = nodes - n_entities
    ids = known.column("id", np.where(mention < 0, nodes, -1))
    return pc.coalesce(ids, mention_ids.take(numbers(mention, missing=mention < 0)))


def link_table(
    mention_ids: pa.Array,
    known: NamedEntities,
    retrieval: Retrieval,
    clusters: Partition,
    cluster_ids: pa.Array,
    confidence: Confidence | None,
) -> pa.Table:
    """Make the table of links, one row for each mention."""
    n, n_entities = len(clusters.entity), clusters.n_entities
    linked = clusters.entity >= 0
    given = evidence(retrieval, clusters.entity)
    parent, step = clusters.parent[n_entities:], clusters.weight[n_entities:]
    bottleneck = np.where(linked, clusters.bottleneck[n_entities:], np.inf)
    near = retrieval.entities.dissimilarity
    has_margin = np.isfinite(near[:, 1]) if near.shape[1] > 1 else np.zeros(n, np.bool_)
    margin = np.zeros(n, np.float32)
    margin[has_margin] = np.diff(near[has_margin, :2]).ravel()
    found = retrieval.entities.ids >= 0
    start = starts(found.sum(axis=1))
    table = pa.table(
        {
            "mention_id": mention_ids,
            "entity_id": known.column("id", clusters.entity),
            "entity_name": known.column("name", clusters.entity),
            "cluster_id": cluster_ids,
            "score": _floats(given[:, 0], ~linked),
            "margin": _floats(margin, ~has_margin),
            "parent": _of_nodes(known, mention_ids, n_entities, parent),
            "parent_is_mention": numbers(parent >= n_entities),
            "step": _floats(step, ~np.isfinite(step)),
            "bottleneck": _floats(bottleneck, np.isneginf(bottleneck)),
            "candidates": pa.ListArray.from_arrays(start, known.column("id", retrieval.entities.ids[found])),
            "candidate_scores": pa.ListArray.from_arrays(start, numbers(retrieval.similarity(near)[found])),
        }
    )
    for name, column in _reasons(retrieval, clusters, partial(_of_nodes, known, mention_ids, n_entities)).items():
        table = table.append_column(name, column)
    if confidence is None:
        return table
    given[~linked] = 0
    return table.append_column("confidence", _floats(confidence.of(given), ~linked))


def _reasons(retrieval: Retrieval, clusters: Partition, ids_of: Callable[[Ids], pa.Array]) -> dict[str, pa.Array]:
    """Return the columns that tell why a mention is in its cluster, if the edges are learnt."""
    if retrieval.reasons is None:
        return {}
    n, n_entities, labels = len(clusters.entity), clusters.n_entities, clusters.labels
    near = retrieval.mentions.ids + n_entities
    together = (near >= n_entities) & (labels[near] == labels[n_entities:, None])
    first = together.argmax(axis=1) if near.shape[1] else np.zeros(n, np.int64)
    source = clusters.parent[n_entities:].astype(np.int64)
    alone = np.flatnonzero((source < 0) & together.any(axis=1))
    source[alone] = near[alone, first[alone]]
    joined = np.flatnonzero((source >= 0) & ~np.isneginf(clusters.weight[n_entities:]))
    told = retrieval.reasons(source[joined], joined)
    known = np.zeros((n, told.features.shape[1]), np.bool_)
    known[joined] = np.isfinite(told.log_odds)
    start = starts(known.sum(axis=1))
    kept = known[joined]
    return {
        "nearest": ids_of(source),
        "reasons": pa.ListArray.from_arrays(start, strings(told.features[kept].tolist())),
        "reason_log_odds": pa.ListArray.from_arrays(start, _floats(told.log_odds[kept])),
    }


def _floats(values: Weights, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    return numbers(values.astype(np.float32), missing=missing)


def _scores(values: Sequence[float | None], kind: type[np.floating[Any]] = np.float64) -> pa.Array:
    return numbers(np.array(values, kind), missing=np.array([value is None for value in values], np.bool_))


def _spans(spans: Sequence[Sequence[Span]]) -> pa.Array:
    ends = np.array([*chain.from_iterable(spans)], np.int32).reshape(-1, 2)
    pairs = pa.StructArray.from_arrays([numbers(ends[:, 0]), numbers(ends[:, 1])], ["start", "end"])
    return pa.ListArray.from_arrays(starts(np.array([*map(len, spans)], np.int32)), pairs)


def document_table(corpus: Corpus) -> pa.Table:
    """Make the table of documents."""
    return pa.table(
        {
            "document_id": strings([document.id for document in corpus]),
            "domain": strings([document.domain for document in corpus]),
            "text": strings([document.text for document in corpus], pa.large_string()),
            **_metadata(corpus),
        }
    )


def entity_table(known: NamedEntities, retrieval: Retrieval, clusters: Partition) -> pa.Table:
    """Make the table of the entities that are links or candidates, in order of first appearance."""
    near = retrieval.entities.ids
    rows = np.concatenate([clusters.entity[clusters.entity >= 0], near[near >= 0]])
    distinct: Any = np.from_dlpack(numbers(rows).unique())  # takes less memory than `numpy.unique`
    columns = {"entity_id": "id", "name": "name", "aliases": "aliases"}
    return pa.table({name: known.column(column, distinct) for name, column in columns.items()})


def cluster_table(
    kb: KnowledgeBase | None,
    known: NamedEntities,
    mention_ids: pa.Array,
    names: pa.Array,
    clusters: Partition,
    named: Mapping[int, tuple[int, str]],
    arrival: npt.NDArray[np.int64],
) -> tuple[pa.Table, pa.Array]:
    """Make the table of clusters from the id and name of each mention; also return the cluster id of each mention.

    ``named`` maps the label of each cluster that people named to the row of the mention that gives the cluster its id,
    and to its name. ``arrival`` is the place of each mention in the order of the documents as they came.
    """
    n_entities = clusters.n_entities
    label, place, size = np.unique(clusters.labels[n_entities:], return_inverse=True, return_counts=True)
    is_new = label >= n_entities
    order = np.lexsort((label, np.where(is_new, -size, 0), is_new))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    label, size, is_new, place = label[order], size[order], is_new[order], rank[place]
    entities, entity_names = (strings(known.column(name, label[~is_new]).to_pylist()) for name in ("id", "name"))
    earliest = np.full(len(label), len(arrival), np.int64)
    np.minimum.at(earliest, place, arrival)
    first = np.argsort(arrival)[earliest[is_new]]
    usual = _usual_names(names, place, len(entities), len(label))
    if named:
        new, given = {node: row for row, node in enumerate(label[is_new].tolist())}, usual.to_pylist()
        for node in named.keys() & new.keys():
            first[new[node]], given[new[node]] = named[node]
        usual = strings(given)
    ids = pa.concat_arrays([entities, _new_ids(mention_ids.take(numbers(first)), kb)])
    joins = clusters.weakest_joins()
    weakest = np.full(len(clusters.labels), -np.inf, np.float32)
    weakest[clusters.labels[joins.source]] = joins.weight
    weakest = weakest[label]
    table = pa.table(
        {
            "cluster_id": ids,
            "entity_id": pa.concat_arrays([entities, pa.nulls(len(usual), pa.string())]),
            "name": pa.concat_arrays([entity_names, usual]),
            "size": numbers(size.astype(np.int32)),
            "weakest_join": _floats(weakest, np.isneginf(weakest)),  # people, or nobody, joined the mentions
        }
    )
    return table, ids.take(numbers(place))


def _new_ids(mention_ids: pa.Array, kb: KnowledgeBase | None) -> pa.Array:
    """Make the ids of discovered entities from their first mentions; all differ from each other and from known ids."""
    if kb is None and len(mention_ids) == len(mention_ids.unique()):
        return pc.binary_join_element_wise("new-", mention_ids, "")
    first = mention_ids.to_pylist()
    name_of: dict[str, str] = {}
    taken: set[str] = set()
    for mention_id in sorted(first):  # so that no name depends on the sizes of clusters
        name, number = f"new-{mention_id}", 1
        while name in taken or (kb is not None and name in kb):
            number += 1
            name = f"new-{mention_id}#{number}"
        name_of[mention_id] = name
        taken.add(name)
    return strings([name_of[mention_id] for mention_id in first])


def _usual_names(names: pa.Array, place: npt.NDArray[np.int64], begin: int, end: int) -> pa.Array:
    """Return the most frequent name in each of the clusters ``begin .. end - 1``; ties go to the first name."""
    size, found = np.bincount(place, minlength=end), np.empty(end, np.int64)
    found[place] = np.arange(len(place))  # that of a cluster of one mention
    rows = np.flatnonzero((place >= begin) & (size[place] > 1))
    coded = names.take(numbers(rows)).dictionary_encode()
    code = np.from_dlpack(coded.indices).astype(np.int64)  # `to_numpy` imports pandas
    n_names = max(1, len(coded.dictionary))
    pair, row, count = np.unique(place[rows] * n_names + code, return_index=True, return_counts=True)
    order = np.lexsort((row, -count, pair // n_names))
    cluster, first = np.unique(pair[order] // n_names, return_index=True)
    found[cluster] = rows[row[order[first]]]
    return names.take(numbers(found[begin:]))
