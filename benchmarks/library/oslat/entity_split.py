"""Split annotated texts by entity: the data of the OSLAT experiment (Li et al. 2022, section 5.1)."""

from dataclasses import dataclass, replace

import numpy as np

from arbo.data import Corpus, Document, KnowledgeBase
from arbo.data.gold import Gold
from arbo.errors import DataError
from clustering.arrays import Bools, Ids
from library.oslat.pairs import Pairs

_BINS = (0.2, 0.4, 0.4)
"""Shares of the unseen entities that are drawn from the frequent, the middle and the rare third of the entities."""


@dataclass(frozen=True, eq=False, slots=True)
class EntitySplit:
    """Pairs of a text and an entity to train on, and pairs to test on, some of them of entities that training lacks."""

    train: Corpus
    """Texts with only the mentions of training pairs; texts without such a mention are left out."""
    test: Pairs
    unseen: Ids
    """Rows of the entities whose pairs are all in the test part, ascending."""


def entity_split(
    corpus: Corpus, kb: KnowledgeBase, *, unseen: float = 0.1, test: float = 0.1, least: int = 5, seed: int = 0
) -> EntitySplit:
    """Split the pairs of a text and an entity, first by entity, then by text.

    A share ``unseen`` of the entities goes with all its pairs to the test part. Entities are sorted by their number of
    texts (of equal numbers, in the order of the knowledge base) and cut into thirds; 20 % of the unseen ones are drawn
    from the most frequent third, 40 % from each of the others. Of the pairs of each other entity, the share ``test``
    (rounded down) goes to the test part, but ``least`` pairs stay for training. A held-out pair does not hold out its
    text: training may read it for its other entities, and is not told of this one.

    ``corpus`` has the pieces of documents. The seed and the data determine the split. Raise DataError if no text has an
    entity of the knowledge base.
    """
    pairs = Pairs.of(corpus, kb)
    if not len(pairs):
        raise DataError("no text has an entity of the knowledge base; check that the ids and the domains match")
    rng = np.random.default_rng(seed)
    entities, count = np.unique(pairs.entity, return_counts=True)
    held = _drawn(entities, count, round(unseen * len(entities)), rng)
    is_test = np.isin(pairs.entity, held)
    for entity in np.setdiff1d(entities, held).tolist():
        own = np.flatnonzero(pairs.entity == entity)
        n_test = max(0, min(int(test * len(own)), len(own) - least))
        is_test[rng.choice(own, n_test, replace=False)] = True
    return EntitySplit(documents_of(_taken(pairs, ~is_test), kb), _taken(pairs, is_test), held)


def documents_of(pairs: Pairs, kb: KnowledgeBase) -> Corpus:
    """Return the texts of pairs, with only the mentions and the gold ids of these pairs."""
    wanted = set(zip(pairs.text.tolist(), pairs.entity.tolist(), strict=True))
    right = iter(Gold.of(pairs.corpus, kb).lists)
    made: list[Document] = []
    for row, document in enumerate(pairs.corpus):
        own = [
            (mention, tuple(kb.entities[entity].id for entity in next(right) if (row, entity) in wanted))
            for mention in document.mentions
        ]
        kept = tuple(replace(mention, gold=ids) for mention, ids in own if ids)
        if kept:
            made.append(replace(document, mentions=kept))
    return Corpus(made, pairs.corpus.notes)


def _taken(pairs: Pairs, chosen: Bools) -> Pairs:
    mentions = tuple(pairs.mentions[place] for place in np.flatnonzero(chosen))
    return Pairs(pairs.corpus, pairs.text[chosen], pairs.entity[chosen], mentions)


def _drawn(entities: Ids, count: Ids, n: int, rng: np.random.Generator) -> Ids:
    """Draw the unseen entities, ascending."""
    thirds = np.array_split(entities[np.argsort(-count, kind="stable")], len(_BINS))
    wanted = np.diff(np.round(np.cumsum([0, *_BINS]) * n)).astype(np.int64)
    drawn = [
        rng.choice(third, min(n_of, len(third)), replace=False) for third, n_of in zip(thirds, wanted, strict=True)
    ]
    return np.sort(np.concatenate(drawn))
