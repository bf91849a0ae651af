"""The pairs of mentions that teach learnt edges: those that linking would compare, with their features."""

from typing import Any, NamedTuple, Self

import numpy as np

from arbo.data import Corpus
from arbo.data.codes import codes_of
from arbo.data.gold import Gold
from arbo.edges.facts import Facts
from arbo.edges.features import Matrix, mention_features
from arbo.edges.model import EdgeModel
from arbo.edges.pairs import mention_pairs
from arbo.engine import Bools, Ids
from arbo.linker import Linker
from arbo.retrieval.retrieval import Retrieval


class Compared(NamedTuple):
    """Annotated pairs of mentions; the arrays have a value for each pair."""

    found: Retrieval
    facts: Facts
    first: Ids
    second: Ids
    features: Matrix
    correct: Bools

    @classmethod
    def of(cls, linker: Linker, corpus: Corpus, most: int | None = None) -> Self:
        """Collect the pairs of a corpus.

        From a group (see `arbo.retrieval.groups`) with more than ``most`` pairs, some of the wrong ones are left out.
        """
        found = linker.retrieve(corpus, k=EdgeModel.neighbors, discover=linker.kb is None)
        facts, classes = Facts.of(found.inputs), Gold.of(corpus)
        first, second = mention_pairs(facts, codes_of(found.groups), found.mentions)
        label = classes.classes
        document, known = facts.columns["document"], known_elsewhere(found, classes)
        kept = classes.annotated[first] & classes.annotated[second]
        kept &= (document[first] == document[second]) | known[first] | known[second]
        first, second = first[kept], second[kept]
        correct = (label[first] == label[second]) & (label[first] >= 0)
        if most is not None:
            kept = thinned(codes_of(found.groups)[first], correct, most)
            first, second, correct = first[kept], second[kept], correct[kept]
        return cls(found, facts, first, second, mention_features(facts, first, second), correct)

    def taken(self, chosen: Ids) -> Self:
        """Return the pairs with these indices."""
        columns: list[Any] = [column[chosen] for column in self[2:]]
        return type(self)(self.found, self.facts, *columns)

    @property
    def queries(self) -> Ids:
        """The indices of the pairs."""
        return np.arange(len(self.first))


def thinned(group: Ids, correct: Bools, most: int) -> Bools:
    """Return which pairs to keep, so that no group has more than ``most`` unless more are correct; (pairs,).

    All correct pairs are kept, and wrong pairs of a larger group at even steps, as many as there is room for.
    """
    kept = np.ones(len(group), np.bool_)
    for large in np.flatnonzero(np.bincount(group) > most):
        wrong = np.flatnonzero((group == large) & ~correct)
        room = max(most - int(correct[group == large].sum()), 0)
        kept[wrong] = False
        kept[wrong[np.arange(room) * len(wrong) // max(room, 1)]] = True
    return kept


def known_elsewhere(found: Retrieval, classes: Gold) -> Bools:
    """Tell for each mention whether its annotation says what it means in other documents too; (mentions,).

    A gold id says so. Gold clusters say so if one of them, in the same group, has mentions of several documents:
    otherwise they are chains inside documents, and two chains of different documents may mean the same.
    """
    by_id = np.array([bool(item.mention.gold) for item in found.inputs], np.bool_)
    group, document = codes_of(found.groups), codes_of([item.document.id for item in found.inputs])
    chained = np.flatnonzero(~by_id & (classes.classes >= 0))
    distinct = np.unique(np.stack([classes.classes[chained], document[chained]]), axis=1)[0]
    across = np.flatnonzero(np.bincount(distinct) > 1)
    return by_id | np.isin(group, group[chained[np.isin(classes.classes[chained], across)]])
