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

    retrieval: Retrieval
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
        retrieval = linker.retrieve(corpus, k=EdgeModel.neighbors, discover=linker.kb is None)
        facts, classes = Facts.of(retrieval.inputs), Gold.of(corpus)
        first, second = mention_pairs(facts, codes_of(retrieval.groups), retrieval.mentions)
        label = classes.classes
        document, known = facts.columns["document"], known_elsewhere(retrieval, classes)
        chosen = classes.annotated[first] & classes.annotated[second]
        chosen &= (document[first] == document[second]) | known[first] | known[second]
        first, second = first[chosen], second[chosen]
        correct = (label[first] == label[second]) & (label[first] >= 0)
        if most is not None:
            chosen = thinned(codes_of(retrieval.groups)[first], correct, most)
            first, second, correct = first[chosen], second[chosen], correct[chosen]
        return cls(retrieval, facts, first, second, mention_features(facts, first, second), correct)

    def taken(self, chosen: Ids) -> Self:
        """Return the pairs with these indices."""
        columns: list[Any] = [column[chosen] for column in self[2:]]
        return type(self)(self.retrieval, self.facts, *columns)

    @property
    def queries(self) -> Ids:
        """The indices of the pairs."""
        return np.arange(len(self.first))


def thinned(group: Ids, correct: Bools, most: int) -> Bools:
    """Return which pairs to keep, so that no group has more than ``most`` unless more are correct; (pairs,).

    All correct pairs are kept, and wrong pairs of a larger group at even steps, as many as there is room for.
    """
    chosen = np.ones(len(group), np.bool_)
    for large in np.flatnonzero(np.bincount(group) > most):
        wrong = np.flatnonzero((group == large) & ~correct)
        room = max(most - int(correct[group == large].sum()), 0)
        chosen[wrong] = False
        chosen[wrong[np.arange(room) * len(wrong) // max(room, 1)]] = True
    return chosen


def known_elsewhere(retrieval: Retrieval, classes: Gold) -> Bools:
    """Tell for each mention whether its annotation says what it means in other documents too; (mentions,).

    A gold id says so. Gold clusters say so if one of them, in the same group, has mentions of several documents:
    otherwise they are chains inside documents, and two chains of different documents may mean the same.
    """
    by_id = np.array([bool(item.mention.gold) for item in retrieval.inputs], np.bool_)
    group, document = codes_of(retrieval.groups), codes_of([item.document.id for item in retrieval.inputs])
    chained = np.flatnonzero(~by_id & (classes.classes >= 0))
    distinct = np.unique(np.stack([classes.classes[chained], document[chained]]), axis=1)[0]
    across = np.flatnonzero(np.bincount(distinct) > 1)
    return by_id | np.isin(group, group[chained[np.isin(classes.classes[chained], across)]])
