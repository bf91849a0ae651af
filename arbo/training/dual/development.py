"""Scores of a model during training: recall and ARI on the development documents."""

from __future__ import annotations

from typing import Any

from arbo.data.gold import RECALL_AT
from arbo.engine import Graph, merge_tree, silent
from arbo.metrics import all_cuts, linking_scores
from arbo.retrieval.domains import entity_parts, mention_parts, nearest_within
from arbo.training.data import TrainingSet
from arbo.training.dual.snapshot import Snapshot

_NEIGHBOURS = 8


def development_scores(data: TrainingSet, snapshot: Snapshot) -> dict[str, float]:
    """Return recall@k, and the best ARI of the mentions' clusters over all thresholds (paper, section 3.5).

    The neighbours are those that linking finds; with the pooling ``tokens``, a first stage proposes them.
    """
    mentions, entities = snapshot.mentions, snapshot.entities
    domains = [item.document.domain for item in data.inputs]
    search: dict[str, Any] = {"metric": snapshot.metric, "search": "exact", "progress": silent}
    parts = entity_parts(domains, [entity.domain for entity in data.kb])
    found = nearest_within(parts, mentions, entities, RECALL_AT[-1], **search).ids
    scores = linking_scores(*data.gold.accepted, found[:, 0], candidates=found, k=RECALL_AT)
    near = nearest_within(mention_parts(domains), mentions, mentions, _NEIGHBOURS, **search)
    tree = merge_tree(Graph.from_neighbors(near))
    cuts = all_cuts(data.gold.classes, tree.left, tree.right, tree.height)
    return {f"recall@{k}": value for k, value in scores.recall.items()} | {"ari": cuts.best("ari").value}
