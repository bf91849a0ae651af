"""Positives of each mention: the gold entity, or another mention of it.

All strategies use the gold clusters, each one entity and its mentions, and the vectors of the current model. They
differ in the edges of the graph; the positive of a mention is its parent in the graph's minimum spanning tree, rooted
at the entity (ArboEL, sections 2.2 and 3.2). A cluster without an entity has only mentions: its tree is rooted at one
of them, and the positive of this mention is its nearest (or a random) other mention. With ``1nn`` (or ``1rand``), that
is the positive of every mention of such a cluster.

======================  ================================================================================
``entity``              the entity alone
``arborescence``        the complete graph over the cluster
``1nn``, ``1rand``      for each mention a graph of three: the entity, the mention, and its nearest (or a random)
                        other mention of the cluster, as the paper says
======================  ================================================================================
"""

from dataclasses import replace

import numpy as np

from arbo.engine import Floats, Ids, pair_dissimilarity, pairs_of, silent, spanning_tree
from arbo.retrieval.groups import Group, nearest_within
from arbo.training.config import PositiveStrategy
from arbo.training.data import Snapshot

_FAR = np.finfo(np.float32).max
"""Weight of the edge to a mention from the entity that its cluster lacks; only the root of a tree takes it."""


def pick_positives(snapshot: Snapshot, strategy: PositiveStrategy, rng: np.random.Generator) -> Ids:
    """Return the positive of each mention as a node of ``snapshot``; -1 for a mention without a cluster; (mentions,).

    A positive is another mention, or the text of the gold entity that is nearest to the mention.
    """
    clustered = np.flatnonzero(snapshot.gold >= 0)
    mentions = clustered[snapshot.gold[clustered] < snapshot.entities.n]
    text, door = nearest_text(snapshot, mentions, snapshot.gold[mentions])
    chosen = np.full(len(snapshot.gold), -1)
    chosen[mentions] = text
    if strategy == "entity":
        return chosen
    root = np.full(len(snapshot.gold), _FAR, np.float32)
    root[mentions] = door
    hung = np.full(len(snapshot.gold), -1)
    other = hung.copy()
    if strategy == "1rand":
        other = _random_other(snapshot.gold, rng)
    elif strategy == "1nn" or len(mentions) < len(clustered):
        other = _nearest_other(snapshot)
    if strategy == "arborescence":
        for cluster in _clusters(snapshot.gold):
            rows = snapshot.mentions.matrix[snapshot.mentions.row[cluster]]
            parent = spanning_tree(rows, root[cluster], metric=snapshot.metric).parent
            hung[cluster] = np.where(parent >= 0, cluster[parent], -1)
    else:
        linked = np.flatnonzero(other >= 0)
        step = np.full(len(root), np.inf, np.float32)
        pairs = snapshot.mentions, snapshot.mentions, linked, other[linked]
        step[linked] = pair_dissimilarity(*pairs, metric=snapshot.metric)
        # The spanning tree omits the heaviest of three edges.
        by_mention = linked[root[linked] > np.maximum(root[other[linked]], step[linked])]
        hung[by_mention] = other[by_mention]
    hung = np.where((hung < 0) & (root == _FAR), other, hung)
    return np.where(hung >= 0, snapshot.n_texts + hung, chosen)


def nearest_text(snapshot: Snapshot, mention: Ids, entity: Ids) -> tuple[Ids, Floats]:
    """Return the entity's nearest text to the mention, ties to the first, and its dissimilarity; (pairs,) each.

    Raise ValueError if an entity has no text.
    """
    text, pair = pairs_of(snapshot.entities.owner, entity)
    count = np.bincount(pair, minlength=len(entity))
    if (count == 0).any():
        raise ValueError(f"entity {entity[np.argmin(count)]} has no text")
    texts = replace(snapshot.entities, owner=np.arange(snapshot.n_texts, dtype=np.int32), n=snapshot.n_texts)
    weight = pair_dissimilarity(snapshot.mentions, texts, mention[pair], text, metric=snapshot.metric)
    best = np.lexsort((text, weight, pair))[np.cumsum(count) - count]
    return text[best], weight[best]


def _clusters(gold: Ids) -> list[Ids]:
    order = np.argsort(gold, kind="stable")
    order = order[np.searchsorted(gold[order], 0) :]
    return np.split(order, np.flatnonzero(np.diff(gold[order])) + 1) if len(order) else []


def _random_other(gold: Ids, rng: np.random.Generator) -> Ids:
    """Choose another mention of the cluster; -1 for a mention that is alone."""
    other = np.full(len(gold), -1)
    for cluster in _clusters(gold):
        if len(cluster) > 1:
            places = rng.integers(len(cluster) - 1, size=len(cluster))
            other[cluster] = cluster[places + (places >= np.arange(len(cluster)))]
    return other


def _nearest_other(snapshot: Snapshot) -> Ids:
    """Find the nearest other mention of the cluster, ties to the first; -1 for a mention that is alone."""
    clusters, mentions = [Group(rows, rows, None) for rows in _clusters(snapshot.gold)], snapshot.mentions
    near = nearest_within(clusters, mentions, mentions, 1, metric=snapshot.metric, progress=silent)
    return near.ids[:, 0].astype(np.int64)
