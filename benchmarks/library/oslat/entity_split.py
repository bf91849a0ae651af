"""The split of a corpus by entities: the data of the OSLAT experiment (Li et al. 2022, section 5.1)."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

import arbo
from arbo.data.corpus import Corpus
from arbo.data.documents import Document, Mention
from arbo.data.gold import Gold
from arbo.spans.pieces import Pairs
from clustering.arrays import Bools, Ids

_BINS = (0.2, 0.4, 0.4)
"""Shares of the unseen entities that are drawn from the third of the frequent, the middling and the rare ones."""


@dataclass(frozen=True, eq=False, slots=True)
class EntitySplit:
    """Pairs to train on and pairs to test on, of entities that training sees and of some that it does not."""

    train: Corpus
    """Texts with the mentions of pairs to train on alone, in the order given; what has none is left out."""
    test: Pairs
    unseen: Ids
    """Rows of the entities whose pairs are all held out, ascending."""


def entity_split(
    corpus: Corpus, kb: arbo.KnowledgeBase, *, unseen: float = 0.1, test: float = 0.1, least: int = 5, seed: int = 0
) -> EntitySplit:
    """Split the pairs of text and entity of a corpus: by entity, then by text.

    A tenth of the entities is unseen, all of their pairs are for test. They are drawn from the entities sorted by how
    many texts they are in (the first in the knowledge base before others of equally many) and cut into thirds of equal
    numbers: 20 % from the third of the most frequent, 40 % from each of the others. Of each other entity a tenth of its
    pairs, rounded down, is for test, but never so many that fewer than five are left for training.

    What the paper leaves open is read so: it is the pair that is held out, not the text, which may be trained on with
    its other entities ("from the perspective of the entity"). Training does not know that the entity is there too.

    Args:
        corpus: pieces of documents; entities are those that `Pairs.of` finds.
        kb: the entities.
        unseen: share of the entities, rounded.
        test: share of the pairs of each seen entity, rounded down.
        least: pairs that each seen entity keeps for training, or all that it has.
        seed: of the drawing.

    Raises:
        ValueError: no text names an entity of the knowledge base.
    """
    pairs = Pairs.of(corpus, kb)
    if not len(pairs):
        raise ValueError("no text is annotated with an entity of the knowledge base: do the ids match?")
    random = np.random.default_rng(seed)
    entities, count = np.unique(pairs.entity, return_counts=True)
    held = _drawn(entities, count, round(unseen * len(entities)), random)
    is_test = np.isin(pairs.entity, held)
    for entity in np.setdiff1d(entities, held).tolist():
        own = np.flatnonzero(pairs.entity == entity)
        n_test = max(0, min(int(test * len(own)), len(own) - least))
        is_test[random.choice(own, n_test, replace=False)] = True
    return EntitySplit(_trained(_taken(pairs, ~is_test), kb), _taken(pairs, is_test), held)


def disjoint(pairs: Pairs) -> Bools:
    """Tell of each pair whether its text names the entity in several spans at once, at least one time."""
    return np.array([any(len(spans) > 1 for spans in mentions) for mentions in pairs.mentions], np.bool_)


def _taken(pairs: Pairs, chosen: Bools) -> Pairs:
    mentions = tuple(pairs.mentions[place] for place in np.flatnonzero(chosen))
    return Pairs(pairs.corpus, pairs.text[chosen], pairs.entity[chosen], mentions)


def _drawn(entities: Ids, count: Ids, n: int, random: np.random.Generator) -> Ids:
    """Draw the unseen entities, ascending."""
    thirds = np.array_split(entities[np.argsort(-count, kind="stable")], len(_BINS))
    wanted = np.diff(np.round(np.cumsum([0, *_BINS]) * n)).astype(np.int64)
    drawn = [
        random.choice(third, min(n_of, len(third)), replace=False) for third, n_of in zip(thirds, wanted, strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def _trained(pairs: Pairs, kb: arbo.KnowledgeBase) -> Corpus:
    """Return the texts of pairs with the mentions of these pairs alone."""
    entities: dict[int, set[int]] = defaultdict(set)
    for text, entity in zip(pairs.text.tolist(), pairs.entity.tolist(), strict=True):
        entities[text].add(entity)
    return Corpus((_only(pairs.corpus[text], own, kb) for text, own in entities.items()), pairs.corpus.notes)


def _only(document: Document, entities: set[int], kb: arbo.KnowledgeBase) -> Document:
    """Return a document with the mentions of some entities alone, and with no other gold ids."""

    def kept() -> Iterator[Mention]:
        for mention, rows in zip(document.mentions, Gold.of(Corpus([document]), kb).lists, strict=True):
            if own := tuple(kb.entities[row].id for row in rows if row in entities):
                yield replace(mention, gold=own)

    return replace(document, mentions=tuple(kept()))
