"""The names model: the weights of edges between names alone, learnt from lists of persons, firms, places and products.

arbo contains one, see `benchmarks/names_model.py`. Equal names are one, see `arbo.retrieval.groups.first_alike`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from arbo.data import KnowledgeBase
from arbo.edges.features import distinct
from arbo.edges.model import LogOdds, largest_shares, weights_of
from arbo.edges.name_list import acronyms
from arbo.edges.name_pairs import IN_WORDS, NAME_FEATURES, OF_LIST, EarlierNames, NameTable, differ
from arbo.edges.trees import Trees, blocks
from arbo.engine import SAME, Bools, Floats, Graph, Ids, Neighbors, average_tree, in_parallel
from arbo.retrieval.groups import fill
from arbo.retrieval.reranking import looked_up
from arbo.retrieval.retrieval import PairScores, Reasons, Retrieval

FILE = "names.json"  # the file of the model beside this one
_PENALTY, _FAR = 4.0, 2.0
"""What differing names, and names that are no neighbours, cost in log-odds, where columns weigh too."""
_OWN_WORDS, _RIGHT = 0.5, 0.45
"""In a list of terms: what words of their own cost in log-odds, and the expected share of right pairs in clusters."""
_RIVALS = 2.5, 1.0
"""The odds of a name are divided by this power of the names that extend it in different ways; the second, of terms."""
_KEPT = "names."  # what the names of the arrays that a run keeps begin with


@dataclass(frozen=True, eq=False)
class NamesModel:
    """Learnt weights of edges between names alone; 1 for names that `differ`, which have no edge."""

    trees: Trees
    threshold: float  # largest average dissimilarity of clusters that are merged, by default, if names are no terms
    earlier: EarlierNames | None = None  # what a run that grows knows
    neighbors: ClassVar[int] = 8  # number of nearest names by letters that each name is compared with

    @classmethod
    @cache
    def shipped(cls) -> NamesModel:
        """Return the model that arbo contains."""
        content = json.loads((files("arbo.edges") / FILE).read_text("utf-8"))
        return cls(Trees.from_dict(content["trees"], len(NAME_FEATURES), file=FILE), content["threshold"])

    def frozen(self, settings: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the model with the arrays that a run keeps; ``settings`` are those of its model."""
        return replace(self, earlier=EarlierNames(*(arrays[f"{_KEPT}{name}"] for name in EarlierNames._fields)))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The values that identify the model in a manifest."""
        trees = json.dumps([self.trees.as_dict(), self.threshold])
        return {"model": "names", "fingerprint": sha256(trees.encode()).hexdigest()}

    def applied(self, retrieval: Retrieval, kb: KnowledgeBase | None, k: int) -> Retrieval:
        """Return the retrieval with the weights of this model, and at most ``k`` edges into each name from others.

        ``kb`` must be None; each name of ``retrieval`` should have at least `neighbors` neighbours.
        """
        names = ComparedNames.of(retrieval, self.earlier).alike()
        scored, shares = names.scored(self._weights), partial(self._shares, names)
        limit = names.threshold(scored, self.threshold)
        return names.weighed(retrieval, k, scored, scored.scores, self.settings, limit, shares)

    def log_odds(self, names: ComparedNames, first: Ids, second: Ids) -> LogOdds:
        """Return the log-odds of pairs of compared names, less penalties; (pairs,)."""
        table = names.table

        def weighed(some: slice) -> LogOdds:
            features = table.features(first[some], second[some], names.lists)
            is_far = np.isnan(features[:, NAME_FEATURES.index("letters")])
            return self.trees.scores(features) - _PENALTY * differ(features) - _FAR * is_far

        return np.concatenate([np.empty(0), *in_parallel(weighed, blocks(len(first)))])

    def _weights(self, names: ComparedNames, first: Ids, second: Ids) -> Floats:
        """Return the weights of pairs of names; 1 for those that `differ`."""
        weight, are_terms = np.ones(len(first), np.float32), names.first_names.are_terms[0]

        def weigh(some: slice) -> None:
            features = names.features(first[some], second[some])
            may = ~differ(features, are_terms)
            log_odds = self.trees.scores(features[may]) - _OWN_WORDS * differ(features[may])
            rivals = names.table.rivals(first[some][may], second[some][may], names.lists)
            log_odds -= _RIVALS[int(are_terms)] * np.log1p(rivals)
            weight[some][may] = weights_of(log_odds, features[may], NAME_FEATURES)

        in_parallel(weigh, blocks(len(first)))
        return weight

    def _shares(self, names: ComparedNames, first: Ids, second: Ids) -> Reasons:
        """Return the features that counted most for pairs of names."""
        names, first, second = names.of_pairs(first, second)
        return largest_shares(
            IN_WORDS,
            len(first),
            lambda part: self.trees.shares(names.features(first[part], second[part]))[:, :OF_LIST],
        )


@dataclass(frozen=True, eq=False)
class ComparedNames:
    """The mentions that are compared, numbered from 0, with their neighbours by letters."""

    rows: Ids  # (names,) the mention of each
    number: Ids  # (mentions,) the number of each mention, or -1 if it is one with an earlier one
    lists: Neighbors
    names: Sequence[str]
    earlier: EarlierNames | None
    as_before: Ids | None  # (names,) see `Retrieval.as_before`

    @classmethod
    def of(cls, retrieval: Retrieval, earlier: EarlierNames | None = None) -> Self:
        """Return the mentions that a retrieval compares."""
        lists, n = retrieval.mentions, len(retrieval.inputs)
        rows = np.flatnonzero((lists.dissimilarity[:, :1] != SAME).all(axis=1))
        number = np.full(n + 1, -1, np.int64)
        number[rows] = np.arange(len(rows))
        near, before = lists.of(rows), retrieval.as_before
        as_before = None if before is None else before[rows]
        lists = Neighbors(number[near.ids], near.dissimilarity)
        return cls(rows, number[:n], lists, retrieval.inputs.taken(rows).names, earlier, as_before)

    @cached_property
    def table(self) -> NameTable:
        """The tokens of the names, which are counted unless an earlier run did."""
        return NameTable.of(self.names, self.earlier)

    @property
    def first_names(self) -> Any:
        """What is known of the first names of the list, an `EarlierNames`."""
        return self.earlier or self.table.earlier

    def threshold(self, scored: PairScores, usual: float) -> float:
        """Return the usual threshold or, of terms, the largest that joins a `_RIGHT` share of pairs that are right.

        The expected number of right pairs is the sum of the scores; pairs that were not compared count as wrong.
        """
        (first, second), n = scored.pairs.T, len(self.rows)
        if self.first_names.are_terms[0]:
            limits = np.arange(0.99, 0.5, -0.01).round(2).tolist()
            tree = average_tree(Graph.from_edges(first, second, scored.scores, n_entities=0, n_nodes=n), limits[0])
            for limit in limits:
                label = tree.cut(limit)
                right = 1 - scored.scores[label[first] == label[second]].astype(np.float64)
                if right.sum() >= _RIGHT * (np.bincount(label).astype(np.float64) ** 2 - np.bincount(label)).sum() / 2:
                    return float(limit)
        return usual

    def of_pairs(self, first: Ids, second: Ids) -> tuple[ComparedNames, Ids, Ids]:
        """Return the names of pairs, with what their lists have of them, and the pairs; all if they are divided yet."""
        if self.earlier is None:
            return self, first, second
        ends = np.unique(np.stack([first, second]))
        near = self.lists.ids[ends]
        some = np.union1d(ends, near[near >= 0])  # see `NameTable.rivals`
        number = np.full(len(self.rows) + 1, -1, np.int64)
        number[some] = np.arange(len(some))
        lists, few = self.lists.of(some), [self.names[row] for row in some.tolist()]
        names = replace(self, rows=self.rows[some], lists=lists._replace(ids=number[lists.ids]), names=few)
        return names, number[first], number[second]

    def alike(self) -> Self:
        """Return the names with those neighbours alone that have letters in common, since ids order the others."""
        ids, dissimilarity = self.lists
        return replace(self, lists=Neighbors(np.where(dissimilarity < 1, ids, -1), dissimilarity))

    def pairs(self, some: Bools | None = None, *, all_kinds: bool = False) -> tuple[Ids, Ids]:
        """Return the distinct pairs of names of which one is a neighbour, or of ``all_kinds`` an acronym, of the other.

        With ``some``, (names,), one name of each pair is one of these.
        """
        ids = self.lists.ids
        is_near = ids >= 0 if some is None else (ids >= 0) & (some[ids] | some[:, None])
        source, target = ids[is_near], np.repeat(np.arange(len(ids)), is_near.sum(axis=1))
        if all_kinds:
            source, target = map(np.append, (source, target), acronyms(self.names, some))
        return distinct(np.minimum(source, target), np.maximum(source, target), len(ids))

    def features(self, first: Ids, second: Ids) -> Floats:
        """Return the features of pairs of names, those of letters 0 for names that are no neighbours."""
        features = self.table.features(first, second, self.lists)
        np.nan_to_num(features[:, NAME_FEATURES.index("letters") : OF_LIST], copy=False)
        return features

    def near(self, first: Ids, second: Ids) -> Bools:
        """Return for each pair whether one name is a neighbour of the other; (pairs,)."""
        near = np.zeros(len(first), bool)
        for column in self.lists.ids.T:
            near |= (column[first] == second) | (column[second] == first)
        return near

    def scored(self, score: Callable[[ComparedNames, Ids, Ids], Any]) -> PairScores:
        """Score the pairs of names; those whose names have the neighbours of an earlier run are its pairs."""
        if self.earlier is None or self.as_before is None:
            pairs = self.pairs(all_kinds=True)
            return PairScores(np.column_stack(pairs), score(self, *pairs))
        is_new, n = self.as_before < 0, len(self.rows)
        number = np.full(1 + max(self.as_before.max(initial=0), self.earlier.pairs.max(initial=0)), -1, np.int32)
        number[self.as_before[~is_new]] = np.flatnonzero(~is_new)
        known = number[self.earlier.pairs]
        stays = (known[:, 0] >= 0) & (known[:, 1] >= 0)
        known, new = known[stays], self.pairs(is_new, all_kinds=True)
        place = np.searchsorted(known[:, 0] * np.int64(n) + known[:, 1], new[0] * n + new[1])
        scores = np.insert(self.earlier.scores[stays], place, score(*self.of_pairs(*new)))
        return PairScores(np.insert(known, place, np.column_stack(new), axis=0), scores)

    def scores(self, pairs: Ids, score: Callable[[ComparedNames, Ids, Ids], Any]) -> Any:
        """Score pairs of names, (pairs, 2); those whose names have the neighbours of an earlier run have its scores."""
        if self.earlier is None or self.as_before is None or not len(self.earlier.scores):
            return score(self, *pairs.T)
        before = self.as_before[pairs]
        scores, is_new = looked_up(PairScores(self.earlier.pairs, self.earlier.scores), *before.T)
        is_new |= (before < 0).any(axis=1)
        scores[is_new] = score(*self.of_pairs(*pairs[is_new].T))
        return scores

    def weighed(
        self,
        retrieval: Retrieval,
        k: int,
        scored: PairScores,
        weight: Floats,
        settings: Mapping[str, Any],
        threshold: float,
        reasons: Callable[[Ids, Ids], Reasons],
    ) -> Retrieval:
        """Return a retrieval with the ``k`` lightest edges into each name, which lead both ways, from a model.

        ``weight`` is that of each pair that is ``scored``, 1 for one without an edge. ``settings`` identify the model;
        ``reasons`` returns those of pairs of names, the smaller one first.
        """
        joins = weight < 1
        first, second = scored.pairs[joins].T
        lists = Neighbors.empty(len(retrieval.inputs), k)
        for ends in ((first, second), (second, first)):
            fill(lists, self.rows[ends[0]], self.rows[ends[1]], weight[joins])
        if retrieval.mentions.ids.shape[1]:
            more = self.number[: len(lists.ids)] < 0
            lists.ids[more, 0], lists.dissimilarity[more, 0] = retrieval.mentions.ids[more, 0], SAME
        settings, limits = {**retrieval.settings, "edges": settings}, (retrieval.threshold[0], threshold)
        how: dict[str, Any] = {"settings": settings, "threshold": limits, "reasons": partial(self._reasons, reasons)}
        known = self.first_names._replace(pairs=self.rows.astype(np.int32)[scored.pairs], scores=scored.scores)
        kept = {f"{_KEPT}{name}": array for name, array in known._asdict().items()}
        return replace(retrieval, mentions=lists, offset=1.0, kept=kept, **how)

    def _reasons(self, of_pairs: Callable[[Ids, Ids], Reasons], node: Ids, mention: Ids) -> Reasons:
        """Return the reasons for edges from nodes of the graph to mentions; none for one without a compared name."""
        source, target = self.number[node], self.number[mention]
        some = np.flatnonzero((source >= 0) & (target >= 0))
        shown = of_pairs(np.minimum(source[some], target[some]), np.maximum(source[some], target[some]))
        shape = len(node), shown.features.shape[1]
        reasons = Reasons(np.full(shape, np.nan, object), np.full(shape, np.nan, np.float32))
        reasons.features[some], reasons.log_odds[some] = shown
        return reasons
