"""The links of a run, of which rows and columns are made when somebody asks for them.

The table of links, with all candidates of each mention, is the largest of a run: a fresh result keeps arrays instead,
and saves the table group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from arbo.data.arrow import numbers, starts, strings
from arbo.engine import Bools, Ids, Partition, Weights
from arbo.linking.confidence import Confidence
from arbo.linking.tables import MentionNames, RunEntities, slices
from arbo.results.schema import SCHEMA
from arbo.retrieval.candidates import margins
from arbo.retrieval.retrieval import Retrieval

Column: TypeAlias = Callable[[Ids], pa.Array]
"""Makes a column of some mentions, which are numbers in the order of the search."""


@dataclass(frozen=True, eq=False, slots=True)
class Links:
    """What rows of links are made of; it gives rows and columns as a `pyarrow.Table` does, and is pickled as one."""

    ids: pa.Array
    """(rows,) ids of the mentions."""
    mention: Ids
    """(rows,) the number of each mention."""
    columns: Mapping[str, Column]
    """The columns after ``mention_id``."""

    def __len__(self) -> int:
        return len(self.mention)

    def __reduce__(self) -> tuple[Any, ...]:
        return pa.Table.slice, (self.slice(),)

    @property
    def column_names(self) -> Sequence[str]:
        """The names of the columns, in order."""
        return ["mention_id", *self.columns]

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self.slice(0, 0).schema

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
        mentions = [mention[some] for some in slices(len(mention))]
        make = {name: self.columns[name] for name in names if name != "mention_id"}
        made = {name: pa.chunked_array([*map(column, mentions)]) for name, column in make.items()}
        return pa.table({name: made.get(name, ids) for name in names})


def links_of(
    names: MentionNames,
    known: RunEntities,
    retrieval: Retrieval,
    clusters: Partition,
    cluster_ids: tuple[pa.Array, Ids],
    confidence: Confidence | None,
    followed: tuple[Bools, Ids] | None,
) -> Links:
    """Return the links of a partition; scores, confidence and reasons are computed, so that no vectors are kept.

    ``cluster_ids`` are the ids of the clusters, and the place of each mention's cluster among them. ``followed`` says
    which mentions corrections name, and whose correction each mention follows, -1 for none; (mentions,) both.
    """
    mention = np.empty(len(names.order), np.int32)
    mention[names.order] = np.arange(len(mention), dtype=np.int32)

    def node_ids(nodes: Ids) -> pa.Array:
        """Return the ids of nodes of the graph, which are entities, then mentions; null for -1."""
        is_mention = nodes >= clusters.n_entities
        entities = known.column("id", np.where(is_mention, -1, nodes))
        return pc.coalesce(entities, names.ids_of(np.where(is_mention, nodes - clusters.n_entities, -1)))

    scored = np.where(clusters.entity < retrieval.n_entities, clusters.entity, np.int32(-1))  # not several together
    score, probability = _scores(retrieval, scored, mention, confidence)
    columns = _decision_columns(known, node_ids, retrieval, clusters, cluster_ids, score)
    columns |= _candidate_columns(known, retrieval)
    if retrieval.reasons is not None:
        columns |= _reason_columns(node_ids, retrieval, clusters)
    if probability is not None:
        columns["confidence"] = lambda mentions: numbers(probability[mentions], missing=scored[mentions] < 0)
    if followed is not None:
        corrected, follows = followed
        columns["corrected"] = lambda mentions: numbers(corrected[mentions])
        columns["follows"] = lambda mentions: names.ids_of(follows[mentions])
    order = [*SCHEMA["links"]].index
    return Links(names.ids, mention, {name: columns[name] for name in sorted(columns, key=order)})


def _decision_columns(
    known: RunEntities,
    node_ids: Column,
    retrieval: Retrieval,
    clusters: Partition,
    cluster_ids: tuple[pa.Array, Ids],
    score: Weights,
) -> dict[str, Column]:
    n, entity, near, (ids, place) = clusters.n_entities, clusters.entity, retrieval.entities.dissimilarity, cluster_ids
    parent, weight, heaviest = clusters.parent[n:], clusters.weight[n:], clusters.bottleneck[n:]
    spelled = np.zeros(len(entity), np.bool_) if retrieval.by_spelling is None else retrieval.by_spelling
    return {
        "entity_id": lambda mentions: known.column("id", entity[mentions]),
        "entity_name": lambda mentions: known.column("name", entity[mentions]),
        "cluster_id": lambda mentions: ids.take(numbers(place[mentions])),
        "score": lambda mentions: _floats(score[mentions], ~np.isfinite(score[mentions])),
        "margin": lambda mentions: _margin(near[mentions, :2], spelled[mentions]),
        "parent": lambda mentions: node_ids(parent[mentions]),
        "parent_is_mention": lambda mentions: numbers(parent[mentions] >= n),
        "step": lambda mentions: _floats(weight[mentions], ~np.isfinite(weight[mentions])),
        "bottleneck": lambda mentions: _bottleneck(heaviest[mentions], entity[mentions] >= 0),
    }


def _candidate_columns(known: RunEntities, retrieval: Retrieval) -> dict[str, Column]:
    ids, dissimilarity = retrieval.entities
    offset = np.float32(retrieval.offset)

    def lists(mentions: Ids, values: Callable[[Bools], pa.Array]) -> pa.Array:
        """Return a list for each mention, with the values of its candidates, of which it may have fewer than others."""
        is_there = ids[mentions] >= 0
        return pa.ListArray.from_arrays(starts(is_there.sum(axis=1)), values(is_there))

    return {
        "candidates": lambda mentions: lists(mentions, lambda there: known.column("id", ids[mentions][there])),
        "candidate_scores": lambda mentions: lists(
            mentions, lambda there: numbers((offset - dissimilarity[mentions])[there])
        ),
    }


def _scores(
    retrieval: Retrieval, entity: Ids, mention: Ids, confidence: Confidence | None
) -> tuple[Weights, Weights | None]:
    """Return the similarity of each mention and its entity, and the confidence; undefined for NIL."""
    score, probability = np.empty(len(entity), np.float32), np.empty(len(entity), np.float32)
    for some in slices(len(mention)):
        mentions = mention[some]
        features = retrieval.evidence(entity[mentions], mentions)
        score[mentions] = features[:, 0]
        if confidence is not None:
            features[entity[mentions] < 0] = 0
            probability[mentions] = confidence.of(features)
    return score, None if confidence is None else probability


def _bottleneck(heaviest: Weights, linked: Bools) -> pa.Array:
    """Return the heaviest edges, infinite for NIL; null if there are only edges that people decided."""
    weight = np.where(linked, heaviest, np.inf)
    return _floats(weight, np.isneginf(weight))


def _margin(dissimilarity: Weights, by_spelling: Bools) -> pa.Array:
    """Return the lead of the nearest entity over the second, from (mentions, 2 or fewer) dissimilarities.

    It is null where there is no second, or spelling decided between two that are equally near.
    """
    margin = margins(-dissimilarity)
    return numbers(margin, missing=np.isinf(margin) | by_spelling)


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
    why = retrieval.reasons(source[joined], joined)
    known = np.zeros((n, why.features.shape[1]), np.bool_)
    known[joined] = np.isfinite(why.log_odds)
    start = starts(known.sum(axis=1))
    counted = known[joined]
    flat = strings(why.features[counted].tolist()), _floats(why.log_odds[counted])
    reasons, log_odds = (pa.ListArray.from_arrays(start, column) for column in flat)
    return {
        "nearest": lambda mentions: node_ids(source[mentions]),
        "reasons": lambda mentions: reasons.take(numbers(mentions)),
        "reason_log_odds": lambda mentions: log_odds.take(numbers(mentions)),
    }


def _floats(values: Weights, missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    return numbers(values.astype(np.float32), missing=missing)
