"""How good a model is while it is trained: recall and clusters on the development documents."""

from __future__ import annotations

import numpy as np

from arbo.torch_search import best_scanner
from arbo.training.data import TrainingSet
from arbo.training.positives import Snapshot
from clustering import Graph, merge_tree
from clustering.arrays import Ids
from clustering.knn import nearest
from eval import all_cuts, linking_scores

RECALL_AT = (1, 2, 4, 8, 16, 32, 64)
_NEIGHBOURS = 8


def development_scores(data: TrainingSet, snapshot: Snapshot) -> dict[str, float]:
    """Return recall@k, and the best ARI of the mentions' clusters over all thresholds (paper, section 3.5)."""
    mentions, entities = snapshot.mentions, snapshot.entities
    found = nearest(
        mentions, entities, min(RECALL_AT[-1], len(entities)), metric=snapshot.metric, scanner=best_scanner()
    )
    scores = linking_scores(
        data.gold.indptr,
        np.where(data.gold.id < len(entities), data.gold.id, -1),
        found.ids[:, 0],
        candidates=found.ids,
        k=[k for k in RECALL_AT if k <= found.ids.shape[1]],
    )
    near = nearest(
        mentions,
        mentions,
        min(_NEIGHBOURS, len(mentions) - 1),
        metric=snapshot.metric,
        scanner=best_scanner(),
        self_ids=np.arange(len(mentions)),
    )
    tree = merge_tree(Graph.from_neighbors(near))
    cuts = all_cuts(_classes(data), tree.left, tree.right, tree.height)
    return {f"recall@{k}": value for k, value in scores.recall.items()} | {"ari": cuts.best("ari").value}


def _classes(data: TrainingSet) -> Ids:
    """Give each set of gold ids a number; (mentions,)."""
    number: dict[frozenset[int], int] = {}
    rows = np.split(data.gold.id, data.gold.indptr[1:-1])
    return np.array([number.setdefault(frozenset(row.tolist()), len(number)) for row in rows], np.int64)
