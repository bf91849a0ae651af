"""Negatives: what each mention is pushed away from; never one of its gold entities, nor another mention of them.

==============  ========================================================================================
``in-batch``    the positives of the other mentions of the batch (`in_batch`)
``random``      entities drawn uniformly from the knowledge base, as in the proxy paper
``knn``         the nearest wrong entities and the nearest mentions of other entities, half of each; with the
                positives ``entity``, entities alone: the ArboEL paper's own and its baseline (section 3.2)
``mixed``       a share of them near, the others random, as in the proxy paper
==============  ========================================================================================

Nodes are numbered as in `Snapshot`; a row that has fewer negatives than asked for ends with -1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np

from arbo.torch_search import best_scanner
from arbo.training.positives import Snapshot, nearest_text
from clustering.arrays import Bools, Ids
from clustering.knn import nearest
from clustering.vectors import Vectors


class Gold(NamedTuple):
    """All gold ids of each mention, as numbers: entities of the knowledge base, then ids that it lacks."""

    indptr: Ids
    """(mentions + 1,)"""
    id: Ids
    """(gold ids,) those of mention ``m`` from ``indptr[m]`` on."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Self:
        """Make one of the ids of each mention."""
        return cls(np.cumsum([0, *map(len, rows)]), np.array([id_ for row in rows for id_ in row], np.int64))

    def accepts(self, mention: Ids, entity: Ids) -> Bools:
        """Say whether an entity is right for a mention; (pairs,)."""
        width = np.int64(1 + max(self.id.max(initial=0), entity.max(initial=0)))
        own = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr)) * width + self.id
        return np.isin(mention * width + entity, own)

    def corefer(self, a: Ids, b: Ids) -> Bools:
        """Say whether two mentions have a gold id in common; (pairs,)."""
        count = np.diff(self.indptr)[b]
        pair = np.repeat(np.arange(len(b)), count)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(self.indptr[b], count)
        right = self.accepts(a[pair], self.id[place])
        return np.bincount(pair[right], minlength=len(b)) > 0


def near(snapshot: Snapshot, gold: Gold, mentions: Ids, *, n_entities: int, n_mentions: int) -> Ids:
    """Find the nearest wrong entities, then the nearest mentions of others; (mentions, n_entities + n_mentions).

    The search is exact, over all entities and all mentions of the training data. An entity stands as its nearest text.
    """
    entity = _nearest_allowed(
        snapshot, mentions, snapshot.entities, n_entities, lambda m, e: ~gold.accepts(m, e), itself=False
    )
    found = np.flatnonzero(entity.ravel() >= 0)
    entity.ravel()[found] = nearest_text(snapshot, np.repeat(mentions, n_entities)[found], entity.ravel()[found])[0]
    mention = _nearest_allowed(
        snapshot, mentions, snapshot.mentions, n_mentions, lambda m, other: ~gold.corefer(m, other), itself=True
    )
    mention[mention >= 0] += snapshot.n_texts
    return np.hstack([entity, mention])


def random(snapshot: Snapshot, gold: Gold, mentions: Ids, n: int, rng: np.random.Generator) -> Ids:
    """Draw wrong entities uniformly, none twice for a mention; of several texts of an entity one; (mentions, n)."""
    n_entities = len(snapshot.entities)
    drawn = np.full((len(mentions), n), -1)
    for column in range(n):
        todo = np.arange(len(mentions))
        for _ in range(100):
            entity = rng.integers(n_entities, size=len(todo))
            taken = gold.accepts(mentions[todo], entity) | (drawn[todo, :column] == entity[:, None]).any(axis=1)
            drawn[todo[~taken], column] = entity[~taken]
            todo = todo[taken]
            if not len(todo):
                break
    entities = drawn[drawn >= 0]
    begin = np.searchsorted(snapshot.entities.owner, entities)
    count = np.searchsorted(snapshot.entities.owner, entities, side="right") - begin
    drawn[drawn >= 0] = begin + rng.integers(count)
    return np.take_along_axis(drawn, np.argsort(drawn < 0, axis=1, kind="stable"), axis=1)


def in_batch(owner: Ids, gold: Gold, mentions: Ids, positive: Ids) -> Ids:
    """Give every mention of a batch the positives of the others, each once; (mentions, distinct positives).

    Args:
        owner: (entity texts,) the entity of each.
        gold: what is right.
        mentions: (batch,) the mentions.
        positive: (batch,) the positive of each, a node.

    """
    nodes = np.unique(positive)
    mention = np.repeat(mentions, len(nodes))
    node = np.tile(nodes, len(mentions))
    wrong = np.zeros(len(node), np.bool_)
    is_text = node < len(owner)
    wrong[is_text] = ~gold.accepts(mention[is_text], owner[node[is_text]])
    wrong[~is_text] = ~gold.corefer(mention[~is_text], node[~is_text] - len(owner))
    return np.where(wrong, node, -1).reshape(len(mentions), len(nodes))


def _nearest_allowed(
    snapshot: Snapshot, mentions: Ids, corpus: Vectors, n: int, allowed: Callable[[Ids, Ids], Bools], *, itself: bool
) -> Ids:
    """Find the nearest things that are allowed, fetching as many as it takes; (mentions, n), -1 at the end."""
    found = np.full((len(mentions), n), -1)
    todo, width = np.arange(len(mentions)), n + 8
    while n and len(todo):
        own = mentions[todo]
        queries = Vectors(
            snapshot.mentions.matrix, snapshot.mentions.row[own], np.arange(len(own), dtype=np.int32), len(own)
        )
        ids = nearest(
            queries,
            corpus,
            width,
            metric=snapshot.metric,
            scanner=best_scanner(),
            self_ids=own if itself else None,
        ).ids
        fits = ids >= 0
        fits[fits] = allowed(np.repeat(own, width)[fits.ravel()], ids[fits])
        order = np.argsort(~fits, axis=1, kind="stable")[:, :n]
        found[todo] = np.where(np.take_along_axis(fits, order, axis=1), np.take_along_axis(ids, order, axis=1), -1)
        todo = todo[(fits.sum(axis=1) < n) & (width < len(corpus))]
        width *= 4
    return found
