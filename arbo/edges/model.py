"""The edge model: the weights of edges, learnt from features of pairs that are cheap to compute.

The weight of an edge is 1 minus the probability that its ends mean the same, plus 2^-20 of the dissimilarity of their
letters, so that ties are rare. Where an edge between two mentions leads both ways, both weights are equal. A mention
that names nothing (see `Facts.nameless`) has no edges to other documents, and no edge leads from it to an earlier
mention: "the company" can refer back to a name, but a name does not refer back to "the company". With a knowledge base,
edges lead back to an earlier mention of the document only if that mention names nothing: an entity is handed on from
the first name to all later mentions, and from a later name to a "she" before it. Between documents, and without a
knowledge base, edges between names lead both ways.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from importlib.resources import as_file, files
from os import fspath
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from arbo.data.codes import codes_of
from arbo.data.inputs import MentionInput
from arbo.data.knowledge_base import KnowledgeBase
from arbo.edges.facts import Facts
from arbo.edges.features import (
    ENTITY_FEATURES,
    MENTION_FEATURES,
    EntityNames,
    Matrix,
    entity_features,
    mention_features,
)
from arbo.edges.pairs import mention_pairs, n_within
from arbo.edges.reasons import blocks, mention_reasons, reasons
from arbo.edges.trees import Trees
from arbo.engine import Bools, Floats, Ids, Neighbors
from arbo.errors import DataError
from arbo.files import Format, PathLike, check_manifest, write_json
from arbo.retrieval.candidates import best_first
from arbo.retrieval.retrieval import Reasons, Retrieval
from arbo.settings import read_json

_FORMAT = Format(
    "arbo-edges", 1, {"features": dict, "trained": dict}, "an edge model", "train it again with arbo train-edges"
)
_TRACE = 2.0**-20
ENGLISH = "english"
"""Name of the model that arbo contains, see `benchmarks/edges.py --english`."""
THRESHOLD = 0.5
"""Default threshold of an edge model: an edge is kept if it is more likely right than wrong."""


# Without slots: `cached_property` keeps the fingerprint in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class EdgeModel:
    """Learnt weights of edges between mentions and, if trained with a knowledge base, from entities to mentions."""

    mentions: Trees
    entities: Trees | None
    trained: dict[str, Any]
    """How it was trained, such as the numbers of pairs and the settings of the encoder; ready for JSON."""
    neighbors: ClassVar[int] = 16
    """Number of nearest mentions by the encoder, among all documents, that each mention is compared with."""

    def applied(self, retrieval: Retrieval, kb: KnowledgeBase | None, k: int) -> Retrieval:
        """Return the retrieval with the weights of this model, and at most ``k`` edges from other mentions into each.

        Args:
            retrieval: the neighbours of each mention by an encoder; each should have at least `neighbors` of them.
            kb: the knowledge base; None to discover.
            k: the largest number of edges from other mentions into each mention; with 0, mentions are not compared.

        """
        facts = Facts.of(retrieval.inputs)
        found = replace(retrieval, mentions=self._mentions(facts, retrieval, k)) if k else retrieval
        entity_limit = retrieval.threshold[0]
        if kb is not None and self.entities is not None:
            found = replace(found, entities=self._entities(facts, retrieval, kb), offset=1.0)
            entity_limit = THRESHOLD
        settings = {**retrieval.settings, "edges": self.settings}
        told = partial(self._reasons, facts, retrieval, kb)
        return replace(found, threshold=(entity_limit, THRESHOLD), settings=settings, reasons=told)

    def _reasons(
        self, facts: Facts, retrieval: Retrieval, kb: KnowledgeBase | None, node: Ids, mention: Ids
    ) -> Reasons:
        """Return the features that counted most for edges from nodes of the graph to mentions."""
        known = node < retrieval.n_entities
        others = mention_reasons(self.mentions, facts, node[~known] - retrieval.n_entities, mention[~known])
        size = len(node), others.features.shape[1]
        found = Reasons(np.full(size, np.nan, object), np.full(size, np.nan, np.float32))
        found.features[~known], found.log_odds[~known] = others
        if kb is not None and self.entities is not None:
            entity = np.full(len(facts), -1, np.int32)
            entity[mention[known]] = node[known]
            pairs = CandidatePairs.linked(retrieval, kb, entity)
            own = reasons(self.entities, ENTITY_FEATURES, len(pairs.mention), partial(pairs.features, facts))
            place = np.searchsorted(pairs.mention, mention[known])
            found.features[known], found.log_odds[known] = own.features[place], own.log_odds[place]
        return found

    def _mentions(self, facts: Facts, retrieval: Retrieval, k: int) -> Neighbors:
        first, second = mention_pairs(facts, codes_of(retrieval.worlds), retrieval.mentions)
        weight = self.weights(facts, first, second)
        back = ~facts.nameless[second]
        if retrieval.n_entities:
            back &= facts.nameless[first] | (facts.columns["document"][first] != facts.columns["document"][second])
        source, target = np.concatenate([first, second[back]]), np.concatenate([second, first[back]])
        return lists_of(source, target, np.concatenate([weight, weight[back]]), facts.columns["rank"], k)

    def weights(self, facts: Facts, first: Ids, second: Ids) -> Floats:
        """Return the weights of edges between pairs of mentions; (pairs,) each, the mention of lower ``rank`` first."""
        weight = np.empty(len(first), np.float32)
        for some in blocks(len(first)):
            features = mention_features(facts, first[some], second[some])
            weight[some] = _weights(self.mentions, features, MENTION_FEATURES)
        return weight

    def _entities(self, facts: Facts, retrieval: Retrieval, kb: KnowledgeBase) -> Neighbors:
        assert self.entities is not None
        pairs = CandidatePairs.of(retrieval, kb)
        scores = np.full(retrieval.entities.ids.shape, -np.inf, np.float32)
        for some in blocks(len(pairs.mention)):
            weight = _weights(self.entities, pairs.features(facts, some), ENTITY_FEATURES)
            scores[pairs.mention[some], pairs.place[some]] = -weight
        ids, scores = best_first(retrieval.entities.ids, scores)
        return Neighbors(ids, -scores)

    def n_pairs(self, inputs: Sequence[MentionInput], kb: KnowledgeBase | None, k: int, candidates: int) -> int:
        """Return roughly how many pairs `applied` compares."""
        sizes = Counter(item.document.id for item in inputs).values()
        mentions = sum(map(n_within, sizes)) + self.neighbors * len(inputs) if k else 0
        return mentions + (len(inputs) * min(candidates, len(kb)) if kb is not None and self.entities else 0)

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the model in a manifest."""
        return {**self.trained, "of_entities": self.entities is not None, "fingerprint": self._fingerprint}

    @cached_property
    def _fingerprint(self) -> str:
        return sha256(json.dumps(self._forests()).encode()).hexdigest()

    def save(self, path: PathLike) -> None:
        """Write the model as JSON, completely or not at all."""
        columns = {"mentions": list(MENTION_FEATURES), "entities": list(ENTITY_FEATURES)}
        header = {"format": _FORMAT.name, "format_version": _FORMAT.version}
        write_json({**header, "trained": self.trained, "features": columns, **self._forests()}, path)

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model from a file, or the model for English texts that arbo contains, which is named ``english``.

        Raises:
            DataError: the file is missing, is not an edge model, is damaged, or was written by a version of arbo with
                other features.

        """
        if fspath(path) == ENGLISH:
            with as_file(files("arbo.edges") / f"{ENGLISH}.json") as file:
                return cls._read(file)
        return cls._read(path)

    @classmethod
    def _read(cls, path: PathLike) -> Self:
        content = check_manifest(read_json(path, "the edge model"), _FORMAT, path)
        if content["features"] != {"mentions": list(MENTION_FEATURES), "entities": list(ENTITY_FEATURES)}:
            raise DataError(f"the model was trained with other features; {_FORMAT.mend}", file=str(path))
        forests = {
            name: Trees.from_dict(content.get(name), len(features), file=str(path))
            for name, features in (("mentions", MENTION_FEATURES), ("entities", ENTITY_FEATURES))
            if name == "mentions" or content.get(name) is not None
        }
        return cls(forests["mentions"], forests.get("entities"), content["trained"])

    def _forests(self) -> dict[str, dict[str, Any] | None]:
        return {"mentions": self.mentions.as_dict(), "entities": self.entities and self.entities.as_dict()}


class CandidatePairs(NamedTuple):
    """Each mention with each of its candidates; the arrays have a value for each pair."""

    mention: Ids
    place: Ids
    """The place of the candidate in the mention's list."""
    entity: Ids
    similarity: Floats
    """Similarity by the encoder."""
    names: EntityNames

    @classmethod
    def of(cls, retrieval: Retrieval, kb: KnowledgeBase) -> Self:
        """Pair the mentions with their candidates."""
        mention, place = np.nonzero(retrieval.entities.ids >= 0)
        entity = retrieval.entities.ids[mention, place].astype(np.int64)
        similarity = retrieval.similarity(retrieval.entities.dissimilarity[mention, place])
        return cls(mention, place, entity, similarity, EntityNames.of(kb, np.unique(entity)))

    @classmethod
    def linked(cls, retrieval: Retrieval, kb: KnowledgeBase, entity: Ids) -> Self:
        """Pair each mention with one of its candidates; ``entity`` is (mentions,), with -1 for none."""
        mention = np.flatnonzero(entity >= 0)
        similarity = retrieval.similarity(retrieval.dissimilarity_to(entity))[mention]
        names = EntityNames.of(kb, np.unique(entity[mention]).astype(np.int64))
        return cls(mention, np.zeros_like(mention), entity[mention].astype(np.int64), similarity, names)

    def features(self, facts: Facts, some: slice) -> Matrix:
        """Return the features of some of the pairs; (pairs, features)."""
        return entity_features(facts, self.names, self.mention[some], self.entity[some], self.similarity[some])


def lists_of(source: Ids, target: Ids, weight: Floats, rank: Ids, k: int) -> Neighbors:
    """Return the ``k`` lightest edges into each mention as lists; equal weights are in order of the source's rank."""
    n = len(rank)
    order = np.lexsort((rank[source], weight, target))
    source, target, weight = source[order], target[order], weight[order]
    place = np.arange(len(target)) - np.searchsorted(target, target)
    kept: Bools = place < k
    found = Neighbors(np.full((n, k), -1, np.int32), np.full((n, k), np.inf, np.float32))
    found.ids[target[kept], place[kept]] = source[kept]
    found.dissimilarity[target[kept], place[kept]] = weight[kept]
    return found


def _weights(trees: Trees, features: Matrix, names: tuple[str, ...]) -> Floats:
    letters = features[:, names.index("letters")]
    return np.asarray(1 - trees.probability(features) + _TRACE * (1 - letters), np.float32)
