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
from arbo.edges.model import LogOdds, blocks, largest_shares, weights_of
from arbo.edges.name_pairs import NAME_FEATURES, OF_LIST, EarlierNames, NameTable, differ
from arbo.edges.trees import Trees
from arbo.engine import SAME, Floats, Ids, Neighbors
from arbo.retrieval.groups import fill
from arbo.retrieval.reranking import looked_up
from arbo.retrieval.retrieval import PairScores, Reasons, Retrieval

FILE = "names.json"
"""The file of the model beside this one."""
_PENALTY = 4.0
"""What differing names cost in log-odds, where columns weigh too."""
_KEPT = "names."
"""What the names of the arrays that a run keeps begin with."""


@dataclass(frozen=True, eq=False)
class NamesModel:
    """Learnt weights of edges between names alone; 1 for names that `differ`, which have no edge."""

    trees: Trees
    threshold: float
    """Largest average dissimilarity of clusters that are merged, by default."""
    earlier: EarlierNames | None = None
    """What a run that grows knows."""
    neighbors: ClassVar[int] = 8
    """Number of nearest names by letters that each name is compared with."""

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
        names = ComparedNames.of(retrieval, self.earlier)
        pairs = np.column_stack(names.pairs())
        weight, shares = names.scores(pairs, self._weights), partial(self._shares, names)
        return names.weighed(retrieval, k, PairScores(pairs, weight), weight, self.settings, self.threshold, shares)

    def log_odds(self, names: ComparedNames, first: Ids, second: Ids) -> LogOdds:
        """Return the log-odds of pairs of compared names, less a penalty for names that `differ`; (pairs,)."""
        log_odds = np.empty(len(first))
        for some in blocks(len(first)):
            features = names.table.features(first[some], second[some], names.lists)
            log_odds[some] = self.trees.scores(features) - _PENALTY * differ(features)
        return log_odds

    def _weights(self, names: ComparedNames, first: Ids, second: Ids) -> Floats:
        """Return the weights of pairs of names; 1 for those that `differ`."""
        weight = np.ones(len(first), np.float32)
        for some in blocks(len(first)):
            features = names.table.features(first[some], second[some], names.lists)
            may = ~differ(features)
            weight[some][may] = weights_of(self.trees.scores(features[may]), features[may], NAME_FEATURES)
        return weight

    def _shares(self, names: ComparedNames, first: Ids, second: Ids) -> Reasons:
        """Return the features that counted most for pairs of names."""
        return largest_shares(
            NAME_FEATURES[:OF_LIST],
            len(first),
            lambda part: self.trees.shares(names.table.features(first[part], second[part], names.lists))[:, :OF_LIST],
        )


@dataclass(frozen=True, eq=False)
class ComparedNames:
    """The mentions that are compared, numbered from 0, with their neighbours by letters."""

    rows: Ids
    """(names,) the mention of each."""
    number: Ids
    """(mentions,) the number of each mention, or -1 if it is one with an earlier one."""
    lists: Neighbors
    names: Sequence[str]
    earlier: EarlierNames | None
    as_before: Ids | None
    """(names,) see `Retrieval.as_before`."""

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

    def taken(self, names: Ids) -> ComparedNames:
        """Return some of the names, with what their lists have of them."""
        number = np.full(len(self.rows) + 1, -1, np.int64)
        number[names] = np.arange(len(names))
        lists, few = self.lists.of(names), [self.names[row] for row in names.tolist()]
        return replace(self, rows=self.rows[names], lists=lists._replace(ids=number[lists.ids]), names=few)

    def pairs(self) -> tuple[Ids, Ids]:
        """Return the distinct pairs of names of which one is a neighbour of the other."""
        is_near = self.lists.ids >= 0
        source, target = self.lists.ids[is_near], np.repeat(np.arange(len(self.rows)), is_near.sum(axis=1))
        return distinct(np.minimum(source, target), np.maximum(source, target), len(self.rows))

    def scores(self, pairs: Ids, score: Callable[[ComparedNames, Ids, Ids], Any]) -> Any:
        """Score pairs of names, (pairs, 2); those whose names have the neighbours of an earlier run have its scores."""
        if self.earlier is None or self.as_before is None or not len(self.earlier.scores):
            return score(self, *pairs.T)
        before = self.as_before[pairs]
        scores, is_new = looked_up(PairScores(self.earlier.pairs, self.earlier.scores), *before.T)
        is_new |= (before < 0).any(axis=1)
        some, ends = np.unique(pairs[is_new], return_inverse=True)
        scores[is_new] = score(self.taken(some), *ends.reshape(-1, 2).T)
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
        source, target = np.concatenate([first, second]), np.concatenate([second, first])
        fill(lists, self.rows[target], self.rows[source], np.tile(weight[joins], 2), source)
        if retrieval.mentions.ids.shape[1]:
            more = self.number < 0
            lists.ids[more, 0], lists.dissimilarity[more, 0] = retrieval.mentions.ids[more, 0], SAME
        settings, limits = {**retrieval.settings, "edges": settings}, (retrieval.threshold[0], threshold)
        how: dict[str, Any] = {"settings": settings, "threshold": limits, "reasons": partial(self._reasons, reasons)}
        first_names: Any = self.earlier or self.table.earlier
        known = first_names._replace(pairs=self.rows[scored.pairs].astype(np.int32), scores=scored.scores)
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
