"""Scores of a result against the gold annotations of its mentions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eval import (
    ClusteringScores,
    Contingency,
    CoreferenceScores,
    LinkingScores,
    NilScores,
    clustering_scores,
    counts_from_contingency,
    gold_is_nil,
    linking_scores,
    nil_scores,
    scores_from_counts,
)

if TYPE_CHECKING:
    from arbo.documents import Document
    from arbo.result import Result

RECALL_AT = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Gold:
    """Gold annotations as arrays, with the entities that occur in them numbered."""

    entity: dict[str, int]
    """Number of each entity id that is gold, predicted or a candidate."""
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]
    """Entities accepted for each mention; -1 for an id outside the knowledge base."""
    annotated: npt.NDArray[np.bool_]
    classes: list[frozenset[str] | None]
    """Set of gold ids of each mention, those in the knowledge base by its own ids; None without an id."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well mentions were linked, called NIL, and clustered; None where that does not apply."""

    mentions: int
    linking: LinkingScores | None
    nil: NilScores | None
    clustering: ClusteringScores | None
    """Agreement of the clusters with the sets of gold ids, over the mentions that have one."""
    coreference: CoreferenceScores | None
    accuracy_with_nil: float | None
    """Share of the annotated mentions that are linked to a gold entity, or are NIL and called so."""
    clustered: int
    """Mentions that clustering and coreference are over."""

    def as_dict(self) -> dict[str, Any]:
        """Return all figures by name, ready for JSON."""
        return {
            "mentions": self.mentions,
            "accuracy_with_nil": self.accuracy_with_nil,
            "linking": self.linking.as_dict() if self.linking else None,
            "nil": self.nil.as_dict() if self.nil else None,
            "clustering": dict(self.clustering) if self.clustering else None,
            "coreference": dict(self.coreference) if self.coreference else None,
            "clustered_mentions": self.clustered,
        }

    def rows(self) -> list[tuple[str, float, str]]:
        """Return the headline figures: name, value between 0 and 1, and what it is over."""
        rows = []
        if self.linking:
            counts = self.linking.overall
            rows.append(("accuracy", counts.accuracy, f"{counts.correct} of {counts.mentions} with a concept"))
            rows.append(("accuracy in KB", counts.accuracy_in_kb, f"{counts.correct} of {counts.in_kb} in the KB"))
            rows += [(f"recall@{k}", value, "") for k, value in counts.recall.items() if k in (4, 16, 64)]
            for name, part in (("seen", self.linking.seen), ("unseen", self.linking.unseen)):
                if part:
                    rows.append((f"accuracy, {name}", part.accuracy, f"{part.correct} of {part.mentions}"))
        if self.nil and self.accuracy_with_nil is not None and (self.nil.gold or self.nil.predicted):
            rows.append(
                ("accuracy with NIL", self.accuracy_with_nil, f"of {self.nil.mentions} links and NIL decisions")
            )
            rows.append(
                (
                    "NIL precision",
                    self.nil.precision,
                    f"{self.nil.correct} of {self.nil.predicted} called NIL",
                )
            )
            rows.append(("NIL recall", self.nil.recall, f"{self.nil.correct} of {self.nil.gold} that are NIL"))
            rows.append(("NIL F1", self.nil.f1, ""))
        if self.clustering and self.coreference:
            rows.append(("ARI", self.clustering["ari"], f"{self.clustered} mentions with gold ids"))
            rows.append(("B-cubed F1", self.coreference["b3"]["f1"], ""))
            rows.append(("CoNLL F1", self.coreference["conll"], ""))
        return rows

    def __str__(self) -> str:
        if not self.rows():
            return "nothing to score: no mention has a gold annotation"
        return "\n".join(f"{name:<18}{value:7.4f}  {over}".rstrip() for name, value, over in self.rows())


def evaluate(result: Result, *, train: Iterable[Document] | None = None) -> Evaluation:
    """Score a result; see `Result.evaluate`."""
    gold = gold_of(result)
    has_kb = result.manifest["knowledge_base"] is not None
    predicted = _numbers(gold.entity, result.link_table["entity_id"])
    linking = nil = with_nil = None
    if has_kb and gold.annotated.any():
        candidates = _candidates(gold.entity, result.link_table["candidates"])
        linking = linking_scores(
            gold.indptr,
            gold.indices,
            predicted,
            annotated=gold.annotated,
            candidates=candidates,
            k=[k for k in RECALL_AT if k <= candidates.shape[1]],
            seen=None if train is None else _seen(result, gold, train),
        )
        is_nil = gold_is_nil(gold.indptr, gold.indices, annotated=gold.annotated)
        nil = nil_scores(is_nil, predicted < 0, annotated=gold.annotated)
        with_nil = (linking.overall.correct + nil.correct) / nil.mentions
    clustering = coreference = None
    known = np.array([ids is not None for ids in gold.classes], np.bool_)
    if known.any():
        cluster = result.link_table["cluster_id"].combine_chunks().dictionary_encode().indices.to_numpy()[known]
        number: dict[frozenset[str], int] = {}
        truth = np.array([number.setdefault(ids, len(number)) for ids in gold.classes if ids is not None])
        clustering = clustering_scores(truth, cluster)
        coreference = scores_from_counts(counts_from_contingency(Contingency.from_labels(truth, cluster)))
    return Evaluation(len(gold.classes), linking, nil, clustering, coreference, with_nil, int(known.sum()))


def gold_of(result: Result) -> Gold:
    """Read the gold annotations of a result's mentions."""
    as_annotated = result.mention_table["gold"].to_pylist()
    in_kb = result.mention_table["gold_entities"].to_pylist()
    ids = pc.unique(
        pa.concat_arrays(
            [
                pc.list_flatten(result.mention_table["gold_entities"]).combine_chunks(),
                result.link_table["entity_id"].drop_null().combine_chunks(),
                pc.list_flatten(result.link_table["candidates"]).combine_chunks(),
            ]
        )
    )
    entity = {id_: number for number, id_ in enumerate(ids.to_pylist())}
    rows = [
        [entity[id_] for id_ in inside] or ([-1] if ids else [])
        for ids, inside in zip(as_annotated, in_kb, strict=True)
    ]
    return Gold(
        entity,
        np.cumsum([0, *map(len, rows)]),
        np.array([number for row in rows for number in row], np.int64),
        np.array([ids is not None for ids in as_annotated], np.bool_),
        [frozenset(inside or ids) if ids else None for ids, inside in zip(as_annotated, in_kb, strict=True)],
    )


def _numbers(entity: dict[str, int], ids: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.array([-1 if id_ is None else entity[id_] for id_ in ids.to_pylist()], np.int64)


def _candidates(entity: dict[str, int], lists: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    rows = lists.to_pylist()
    table = np.full((len(rows), max(map(len, rows), default=0)), -1, np.int64)
    for row, ids in enumerate(rows):
        table[row, : len(ids)] = [entity[id_] for id_ in ids]
    return table


def _seen(result: Result, gold: Gold, train: Iterable[Document]) -> npt.NDArray[np.bool_]:
    """Mentions with a gold id that some training mention has, be it under an alternative id."""
    as_annotated = result.mention_table["gold"].to_pylist()
    in_kb = result.mention_table["gold_entities"].to_pylist()
    own_id = {ids[0]: inside[0] for ids, inside in zip(as_annotated, in_kb, strict=True) if ids and len(inside) == 1}
    trained = {id_ for document in train for mention in document.mentions for id_ in mention.gold or ()}
    trained |= {own_id[id_] for id_ in trained if id_ in own_id}
    return np.array(
        [
            not trained.isdisjoint(ids or ()) or not trained.isdisjoint(own or ())
            for ids, own in zip(as_annotated, gold.classes, strict=True)
        ],
        np.bool_,
    )
