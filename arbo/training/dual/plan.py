"""The plan of an epoch: the positive and the negatives of each mention.

Positives come from the gold clusters, each one entity and its mentions, and from the vectors of the current model. The
positive of a mention, an entity or another mention, is its parent in a graph's minimum spanning tree, rooted at the
entity (ArboEL, sections 2.2 and 3.2); strategies differ in the edges of the graph. A cluster without an entity has only
mentions: its tree is rooted at one of them, and the positive of this mention is its nearest (or a random) other
mention. With ``1nn`` (or ``1rand``), that is the positive of every mention of such a cluster.

- ``entity``: the entity alone;
- ``arborescence``: the complete graph over the cluster;
- ``1nn``, ``1rand``: for each mention a graph of three, the entity, the mention, and its nearest (or a random) other
  mention of the cluster;
- ``all``: all other mentions of the cluster, in whole documents, see `arbo.training.dual.context`.

Negatives are never gold entities of the mention, nor other mentions of one. All belong to the mention's domain (see
`arbo.retrieval.groups`), as in linking. In brackets the names in ArboEL, PEL (the proxy paper) and AMH:

- ``in-batch``: the positives of the other mentions of the batch (in-batch in ArboEL, random in AMH);
- ``in-batch-hard``: the nearest of those, by the vectors of the step (hard in AMH);
- ``in-batch-mixed``: of those a share the nearest, the others at random (mixed in AMH);
- ``in-batch+knn``: those of ``in-batch`` and, where they differ, those of ``knn`` for this mention alone;
- ``random``: entities drawn uniformly from the knowledge base (random in PEL);
- ``knn``: the nearest wrong entities and mentions, half of each, by the vectors of the snapshot (k-NN in ArboEL);
  entities alone if the positives are ``entity`` (hard in PEL), mentions alone without a knowledge base;
- ``mixed``: entities, a share of them near as in ``knn``, the others as in ``random`` (mixed-p in PEL).

Nodes are indexed as in `Snapshot`; if there are fewer negatives than requested, the remaining entries are -1.
"""

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from arbo.engine import Floats, Ids, pair_dissimilarity, pairs_of, silent, spanning_tree
from arbo.retrieval.groups import Group, GroupedEntities, nearest_within, rows_by
from arbo.training.config import PositiveStrategy, TrainingConfig
from arbo.training.data import Rivals, Snapshot, TrainingSet

_POSITIVES, _NEGATIVES = 1, 2  # 0 is the order, see `arbo.training.loop`
_FAR = np.finfo(np.float32).max
"""Weight of the edge to a mention from the entity that its cluster lacks; only the root of a tree takes it."""


def asks_the_model(config: TrainingConfig, owner: Ids) -> bool:
    """Return whether the choice of positives or negatives depends on vectors; ``owner`` is as in `Snapshot.unread`."""
    has_one_text = bool((np.diff(owner) > 0).all())
    return config.positives != "entity" or not has_one_text or config.negatives in ("knn", "mixed", "in-batch+knn")


class Plan(NamedTuple):
    """The positive and negatives of each mention, chosen with one snapshot of the model, as nodes of `Snapshot`."""

    positive: Ids  # (mentions,) -1 for a mention that is not trained on
    negative: Ids  # (mentions, negatives) -1 for none; without those of the batch

    @classmethod
    def of(cls, data: TrainingSet, snapshot: Snapshot, config: TrainingConfig, step: int) -> Self:
        """Choose positives and negatives; ``step`` and the seed of ``config`` seed random choices."""
        rng, other_rng = (np.random.default_rng([config.seed, what, step]) for what in (_POSITIVES, _NEGATIVES))
        positive = pick_positives(snapshot, config.positives, rng)
        queries, n = data.queries, config.n_negatives
        chosen = np.empty((len(queries), 0), np.int64)
        if config.negatives in ("knn", "in-batch+knn"):
            n_mentions = n if not len(data.kb) else 0 if config.positives == "entity" else n // 2
            chosen = near(snapshot, data.rivals, queries, n_entities=n - n_mentions, n_mentions=n_mentions)
        elif config.negatives in ("random", "mixed"):
            n_hard = round(config.hard_share * n) if config.negatives == "mixed" else 0
            hard = near(snapshot, data.rivals, queries, n_entities=n_hard, n_mentions=0)
            near_ones = np.where(hard >= 0, snapshot.entities.owner[hard], -1)
            chosen = np.hstack([hard, random(snapshot, data.rivals, queries, n - n_hard, other_rng, but=near_ones)])
        negative = np.full((len(positive), chosen.shape[1]), -1)
        negative[queries] = chosen
        return cls(positive, negative)

    def nodes(self, data: TrainingSet, owner: Ids, batch: Ids, config: TrainingConfig, step: int) -> Ids:
        """Return the positive and the negatives of each mention of a batch; (batch, 1 + negatives)."""
        positive, negative = self.positive[batch], self.negative[batch]
        if config.negatives.startswith("in-batch"):
            shared = in_batch(owner, data.rivals, batch, positive)
            if config.negatives == "in-batch-mixed":
                shared = np.random.default_rng([config.seed, _NEGATIVES, step]).permuted(shared, axis=1)
            negative = np.hstack([shared, np.where(np.isin(negative, positive), -1, negative)])
        return np.column_stack([positive, negative])


def near(snapshot: Snapshot, rivals: Rivals, mentions: Ids, *, n_entities: int, n_mentions: int) -> Ids:
    """Find the nearest wrong entities, each as its nearest text, and wrong mentions; (mentions, both numbers)."""
    entity = _nearest_wrong(snapshot, rivals, mentions, n_entities, of_kb=True)
    mention = _nearest_wrong(snapshot, rivals, mentions, n_mentions, of_kb=False)
    row, place = np.nonzero(entity >= 0)
    entity[row, place] = nearest_text(snapshot, mentions[row], entity[row, place])[0]
    mention[mention >= 0] += snapshot.n_texts
    return np.hstack([entity, mention])


def random(snapshot: Snapshot, rivals: Rivals, mentions: Ids, n: int, rng: np.random.Generator, *, but: Ids) -> Ids:
    """Sample distinct wrong entities of each mention uniformly, and return one random text of each; (mentions, n).

    ``but``, (mentions, any), lists distinct wrong entities that must not be drawn, padded with -1.
    """
    by_domain = np.argsort(rivals.entity_domain, kind="stable")
    domains = rivals.entity_domain[by_domain]
    first, end = (np.searchsorted(domains, rivals.domain[mentions], side) for side in ("left", "right"))
    inside = rivals.id < len(by_domain)
    inside[inside] = rivals.entity_domain[rivals.id[inside]] == rivals.domain[rivals.mention[inside]]
    n_wrong = end - first - np.bincount(rivals.mention[inside], minlength=len(rivals.domain))[mentions]
    n_wrong -= (but >= 0).sum(axis=1)
    drawn = np.full((len(mentions), n), -1)
    for column in range(n):
        todo = np.flatnonzero(n_wrong > column)
        while len(todo):
            entity = by_domain[rng.integers(first[todo], end[todo])]
            out = np.hstack([but[todo], drawn[todo, :column]])
            fits = rivals.is_wrong(mentions[todo], entity) & (out != entity[:, None]).all(axis=1)
            drawn[todo[fits], column] = entity[fits]
            todo = todo[~fits]
    entities = drawn[drawn >= 0]
    begin = np.searchsorted(snapshot.entities.owner, entities)
    drawn[drawn >= 0] = begin + rng.integers(np.searchsorted(snapshot.entities.owner, entities, side="right") - begin)
    return drawn


def in_batch(owner: Ids, rivals: Rivals, mentions: Ids, positive: Ids) -> Ids:
    """Return the positives of other mentions that can be negatives of each mention; (mentions, distinct positives).

    Others are -1. ``owner`` has the entity of each entity text, ``positive`` the node of each mention's positive.
    """
    nodes = np.unique(positive)
    mention = np.repeat(mentions, len(nodes))
    node = np.tile(nodes, len(mentions))
    wrong = np.zeros(len(node), np.bool_)
    is_text = node < len(owner)
    wrong[is_text] = rivals.is_wrong(mention[is_text], owner[node[is_text]])
    wrong[~is_text] = rivals.are_apart(mention[~is_text], node[~is_text] - len(owner))
    return np.where(wrong, node, -1).reshape(len(mentions), len(nodes))


def _nearest_wrong(snapshot: Snapshot, rivals: Rivals, mentions: Ids, n: int, *, of_kb: bool) -> Ids:
    """Find wrong entities or mentions, widening the search until there are enough; (mentions, n), padded with -1."""
    vectors, domain = (snapshot.entities, rivals.entity_domain) if of_kb else (snapshot.mentions, rivals.domain)
    things = GroupedEntities(vectors, rows_by(domain.tolist()))
    is_wrong = rivals.is_wrong if of_kb else rivals.are_apart
    nodes = np.full((len(mentions), n), -1)
    todo, width = np.arange(len(mentions) if n else 0), n + 8
    while len(todo):
        asking = mentions[todo]
        by_domain = rows_by(rivals.domain[asking].tolist())
        groups = [Group(rows, things.rows[key], key) for key, rows in by_domain.items() if key in things.rows]
        queries = snapshot.mentions.taken(asking)
        ids = nearest_within(groups, queries, things, width, metric=snapshot.metric, progress=silent).ids
        fits = ids >= 0
        fits[fits] = is_wrong(np.repeat(asking, width)[fits.ravel()], ids[fits])
        order = np.argsort(~fits, axis=1, kind="stable")[:, :n]
        nodes[todo] = np.take_along_axis(np.where(fits, ids, -1), order, axis=1)
        todo = todo[(fits.sum(axis=1) < n) & (ids[:, -1] >= 0)]
        width *= 4
    return nodes


def pick_positives(snapshot: Snapshot, strategy: PositiveStrategy, rng: np.random.Generator) -> Ids:
    """Return the positive of each mention: another one, or the gold entity's nearest text; -1 for none; (mentions,)."""
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
        for cluster in _clusters(snapshot.gold):
            if len(cluster) > 1:
                places = rng.integers(len(cluster) - 1, size=len(cluster))
                other[cluster] = cluster[places + (places >= np.arange(len(cluster)))]
    elif strategy == "1nn" or len(mentions) < len(clustered):
        clusters, every = [Group(rows, rows, None) for rows in _clusters(snapshot.gold)], snapshot.mentions
        lists = nearest_within(clusters, every, every, 1, metric=snapshot.metric, progress=silent)
        other = lists.ids[:, 0].astype(np.int64)  # ties to the first; -1 for a mention that is alone
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
    """Return the entity's nearest text to the mention, ties to the first, and its dissimilarity; (pairs,) each."""
    text, pair = pairs_of(snapshot.entities.owner, entity)
    count = np.bincount(pair, minlength=len(entity))
    texts = replace(snapshot.entities, owner=np.arange(snapshot.n_texts, dtype=np.int32), n=snapshot.n_texts)
    weight = pair_dissimilarity(snapshot.mentions, texts, mention[pair], text, metric=snapshot.metric)
    best = np.lexsort((text, weight, pair))[np.cumsum(count) - count]
    return text[best], weight[best]


def _clusters(gold: Ids) -> list[Ids]:
    rows = rows_by(gold.tolist())
    return [rows[cluster] for cluster in np.unique(gold[gold >= 0]).tolist()]
