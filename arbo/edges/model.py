"""The edge model: the weights of edges, learnt from features of pairs that are cheap to compute.

The weight of an edge is 1 minus the probability that its ends mean the same, plus 2^-20 of the dissimilarity of their
letters, so that ties are rare. Between documents, and without a knowledge base, edges between names lead both ways,
with equal weights. A mention that names nothing (see `Facts.nameless`) has no edges to other documents, and none to an
earlier mention: "the company" can refer back to a name, but a name does not refer back to "the company". With a
knowledge base, edges lead back to an earlier mention of the document only if that one names nothing, such as "she".
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from arbo.data import KnowledgeBase, codes_of
from arbo.edges.features import (
    ENTITY_FEATURES,
    MENTION_FEATURES,
    EntityNames,
    Facts,
    FirstTexts,
    entity_features,
    mention_features,
    mention_pairs,
)
from arbo.edges.trees import Trees, blocks
from arbo.engine import Floats, Ids, Neighbors, in_parallel
from arbo.errors import DataError
from arbo.files import Format, PathLike, write_json
from arbo.retrieval.groups import fill
from arbo.retrieval.reranking import best_first
from arbo.retrieval.retrieval import Reasons, Retrieval
from arbo.settings import read_json

_KEYS = {"features": dict, "trained": dict, "config": dict}
_FORMAT = Format("arbo-edges", 1, _KEYS, "an edge model", "train it again with arbo train edges")
_FEATURES = {"mentions": list(MENTION_FEATURES), "entities": list(ENTITY_FEATURES)}
_TRACE = 2.0**-20
_KEPT = "texts."  # what the names of the arrays of first texts begin with
THRESHOLD = 0.5  # default threshold of an edge model: an edge is kept if it is more likely right than wrong
_N_REASONS = 3
LogOdds = npt.NDArray[np.float64]
_BLOCK = 100_000


# Without slots: `cached_property` keeps the settings in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class EdgeModel:
    """Learnt weights of edges between mentions and, if trained with a knowledge base, from entities to mentions."""

    mentions: Trees
    entities: Trees | None
    trained: dict[str, Any]  # how, such as the numbers of pairs and the settings of the encoder; ready for JSON
    learnt: str = field(default="", repr=False)  # hashes of the documents behind it, see `arbo.data.fingerprint`
    config: dict[str, Any] = field(default_factory=dict, repr=False)  # of linking, the best for what calibrated it
    first: FirstTexts | None = field(default=None, repr=False)  # what a run that grows keeps
    neighbors: ClassVar[int] = 16  # number of nearest mentions by the encoder that each mention is compared with

    def frozen(self, settings: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the model with the arrays that a run keeps; ``settings`` are those of its model."""
        first = [arrays[name] for name in map(_KEPT.__add__, FirstTexts._fields) if name in arrays]
        return replace(self, first=FirstTexts(*first) if first else None)

    def applied(self, retrieval: Retrieval, kb: KnowledgeBase | None, k: int) -> Retrieval:
        """Return the retrieval with the weights of this model, and at most ``k`` edges into each mention from others.

        Each mention of ``retrieval`` should have at least `neighbors` neighbours.
        """
        facts = Facts.of(retrieval.inputs, retrieval.alike)
        facts = facts.with_stories(self.first) if kb is None else facts
        kept = {f"{_KEPT}{name}": array for name, array in zip(FirstTexts._fields, facts.first or (), strict=False)}
        weighed = replace(retrieval, mentions=self._mentions(facts, retrieval, k), kept=kept) if k else retrieval
        entity_limit = retrieval.threshold[0]
        if kb is not None and self.entities is not None:
            weighed = replace(weighed, entities=self._entities(facts, retrieval, kb), offset=1.0)
            entity_limit = THRESHOLD
        settings = {**retrieval.settings, "edges": self.settings}
        reasons = partial(self._reasons, facts, retrieval, kb)
        return replace(weighed, threshold=(entity_limit, THRESHOLD), settings=settings, reasons=reasons, links=None)

    def _reasons(
        self, facts: Facts, retrieval: Retrieval, kb: KnowledgeBase | None, node: Ids, mention: Ids
    ) -> Reasons:
        """Return the features that counted most for edges from nodes of the graph to mentions."""
        size = len(node), _N_REASONS
        reasons = Reasons(np.full(size, np.nan, object), np.full(size, np.nan, np.float32))
        of_entity, trees = node < retrieval.n_entities, self.entities
        source, target = node[~of_entity] - retrieval.n_entities, mention[~of_entity]
        swap = facts.columns["rank"][source] > facts.columns["rank"][target]
        first, second = np.where(swap, target, source), np.where(swap, source, target)
        reasons.features[~of_entity], reasons.log_odds[~of_entity] = largest_shares(
            MENTION_FEATURES,
            len(first),
            lambda some: self.mentions.shares(mention_features(facts, first[some], second[some])),
        )
        if kb is not None and trees is not None:
            entity, target = node[of_entity].astype(np.int32), mention[of_entity]
            about = facts, EntityNames.of(kb, entity), facts.with_documents(retrieval)
            reasons.features[of_entity], reasons.log_odds[of_entity] = largest_shares(
                ENTITY_FEATURES,
                len(target),
                lambda some: trees.shares(entity_features(*about, target[some], entity[some])),
            )
        return reasons

    def _mentions(self, facts: Facts, retrieval: Retrieval, k: int) -> Neighbors:
        first, second = mention_pairs(facts, codes_of(retrieval.groups), retrieval.mentions)
        weight = np.empty(len(first), np.float32)
        for some in blocks(len(first), _BLOCK):
            features = mention_features(facts, first[some], second[some])
            weight[some] = weights_of(self.mentions.scores(features), features, MENTION_FEATURES)
        back = ~facts.nameless[second]
        if retrieval.n_entities:
            back &= facts.nameless[first] | (facts.columns["document"][first] != facts.columns["document"][second])
        source, target = np.concatenate([first, second[back]]), np.concatenate([second, first[back]])
        lists, rank = Neighbors.empty(len(facts), k), facts.columns["rank"]
        fill(lists, target, rank[source], np.concatenate([weight, weight[back]]))
        return lists._replace(ids=np.append(np.argsort(rank), -1).astype(np.int32)[lists.ids])

    def _entities(self, facts: Facts, retrieval: Retrieval, kb: KnowledgeBase) -> Neighbors:
        assert self.entities is not None
        ids = retrieval.entities.ids
        mention, entity = np.nonzero(ids >= 0)[0], ids[ids >= 0]
        about = facts, EntityNames.of(kb, entity), facts.with_documents(retrieval)
        weight = np.empty(len(entity), np.float32)
        for some in blocks(len(entity), _BLOCK):
            features = entity_features(*about, mention[some], entity[some])
            weight[some] = weights_of(self.entities.scores(features), features, ENTITY_FEATURES)
        scores = np.full(ids.shape, -np.inf, np.float32)
        scores[ids >= 0] = -weight
        ids, scores = best_first(ids, scores)
        return Neighbors(ids, -scores)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The values that identify the model in a manifest."""
        fingerprint = sha256(json.dumps(self._forests()).encode()).hexdigest()
        return {**self.trained, "of_entities": self.entities is not None, "fingerprint": fingerprint}

    def save(self, path: PathLike) -> None:
        """Write the model as JSON, completely or not at all; raise UsageError if it cannot be written."""
        content = {**_FORMAT.head, "trained": self.trained, "learnt": self.learnt, "features": _FEATURES}
        content |= {"config": self.config, **self._forests()}
        write_json(content, path)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model from a file.

        Raise DataError if the file is missing, is not an edge model, is damaged, or was written by a version of arbo
        with other features.
        """
        content = _FORMAT.checked(read_json(path, "the edge model"), path)
        if content["features"] != _FEATURES:
            problem = "the model was trained with other features than this version of arbo computes"
            raise DataError(f"{problem}; {_FORMAT.advice}", file=str(path))
        trees, file = content.get("entities"), str(path)
        mentions = Trees.from_dict(content.get("mentions"), len(MENTION_FEATURES), file=file)
        entities = None if trees is None else Trees.from_dict(trees, len(ENTITY_FEATURES), file=file)
        return cls(mentions, entities, content["trained"], content.get("learnt", ""), content["config"])

    def _forests(self) -> dict[str, dict[str, Any] | None]:
        return {"mentions": self.mentions.as_dict(), "entities": self.entities and self.entities.as_dict()}


def weights_of(log_odds: LogOdds, features: Floats, names: tuple[str, ...]) -> Floats:
    """Return the dissimilarity of each pair, float32; of equal ones, that with more common letters is smaller."""
    letters = features[:, names.index("letters")]
    return np.asarray(1 - 1 / (1 + np.exp(-log_odds)) + _TRACE * (1 - letters), np.float32)


def largest_shares(names: tuple[str, ...], n: int, shares_of: Callable[[slice], LogOdds]) -> Reasons:
    """Return the features that counted most for ``n`` pairs; ``shares_of`` returns all shares of a block of pairs."""
    reasons = Reasons(np.empty((n, _N_REASONS), object), np.empty((n, _N_REASONS), np.float32))

    def fill(some: slice) -> None:
        shares = shares_of(some)
        features = np.broadcast_to(np.array(names, object), shares.shape)
        reasons.features[some], reasons.log_odds[some] = Reasons.of(features, shares, _N_REASONS)

    in_parallel(fill, blocks(n, _BLOCK // 5))  # shares take more memory than features
    return reasons
