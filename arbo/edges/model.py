"""The edge model: the weights of edges, learnt from features of pairs that are cheap to compute.

The weight of an edge is 1 minus the probability that its ends mean the same, plus 2^-20 of the dissimilarity of their
letters, so that ties are rare. Where an edge between two mentions leads both ways, both weights are equal. A mention
that names nothing (see `Facts.nameless`) has no edges to other documents, and no edge leads from it to an earlier
mention: "the company" can refer back to a name, but a name does not refer back to "the company". With a knowledge base,
edges lead back to an earlier mention of the document only if that mention names nothing: an entity is handed on from
the first name to all later mentions, and from a later name to a "she" before it. Between documents, and without a
knowledge base, edges between names lead both ways.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from importlib.resources import as_file, files
from os import fspath
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from arbo.data import KnowledgeBase, MentionInput
from arbo.data.codes import codes_of
from arbo.edges.doubtful import LogOdds, Reader
from arbo.edges.facts import Facts
from arbo.edges.features import (
    ENTITY_FEATURES,
    MENTION_FEATURES,
    EntityNames,
    Matrix,
    entity_features,
    mention_features,
)
from arbo.edges.pairs import mention_pairs
from arbo.edges.trees import Trees
from arbo.encoders.cross import PairEncoder
from arbo.encoders.model_folder import save_model
from arbo.engine import Bools, Floats, Ids, Neighbors
from arbo.errors import DataError
from arbo.files import Format, PathLike, check_manifest, write_json
from arbo.progress import Announce, quiet
from arbo.retrieval.candidates import best_first
from arbo.retrieval.retrieval import Reasons, Retrieval
from arbo.settings import read_json

_FORMAT = Format(
    "arbo-edges", 1, {"features": dict, "trained": dict}, "an edge model", "train it again with arbo train edges"
)
_FILE, _FACTORS = "edges.json", "factors"
_TRACE = 2.0**-20
ENGLISH = "english"
"""Name of the model that arbo contains, see `benchmarks/edges.py --english`."""
THRESHOLD = 0.5
"""Default threshold of an edge model: an edge is kept if it is more likely right than wrong."""
CROSS = "cross_encoder"
"""Name of what the cross-encoder adds to the log-odds of a doubtful pair."""
_N_REASONS = 3
_BLOCK = 100_000


# Without slots: `cached_property` keeps the fingerprint in the instance's dictionary.
@dataclass(frozen=True, eq=False)
class EdgeModel:
    """Learnt weights of edges between mentions and, if trained with a knowledge base, from entities to mentions."""

    mentions: Trees
    entities: Trees | None
    trained: dict[str, Any]
    """How it was trained, such as the numbers of pairs and the settings of the encoder; ready for JSON."""
    reader: Reader | None = None
    """Reads doubtful pairs of mentions; None for a model of trees alone."""
    neighbors: ClassVar[int] = 16
    """Number of nearest mentions by the encoder, among all documents, that each mention is compared with."""

    def applied(self, retrieval: Retrieval, kb: KnowledgeBase | None, k: int, announce: Announce = quiet) -> Retrieval:
        """Return the retrieval with the weights of this model, and at most ``k`` edges into each mention from others.

        Each mention of ``retrieval`` should have at least `neighbors` neighbours. Without ``kb``, mentions are compared
        only with each other; with ``k`` = 0, they are not. ``announce`` shows progress of the cross-encoder.
        """
        facts = Facts.of(retrieval.inputs)
        weighed = replace(retrieval, mentions=self._mentions(facts, retrieval, k, announce)) if k else retrieval
        entity_limit = retrieval.threshold[0]
        if kb is not None and self.entities is not None:
            weighed = replace(weighed, entities=self._entities(facts, retrieval, kb), offset=1.0)
            entity_limit = THRESHOLD
        settings = {**retrieval.settings, "edges": self.settings}
        reasons = partial(self._reasons, facts, retrieval, kb)
        return replace(weighed, threshold=(entity_limit, THRESHOLD), settings=settings, reasons=reasons)

    def _reasons(
        self, facts: Facts, retrieval: Retrieval, kb: KnowledgeBase | None, node: Ids, mention: Ids
    ) -> Reasons:
        """Return the features that counted most for edges from nodes of the graph to mentions."""
        size = len(node), _N_REASONS
        reasons = Reasons(np.full(size, np.nan, object), np.full(size, np.nan, np.float32))
        of_entity = node < retrieval.n_entities
        source, target = node[~of_entity] - retrieval.n_entities, mention[~of_entity]
        reasons.features[~of_entity], reasons.log_odds[~of_entity] = mention_reasons(
            self.mentions, self.reader, retrieval.inputs, facts, source, target
        )
        if kb is not None and self.entities is not None:
            reasons.features[of_entity], reasons.log_odds[of_entity] = entity_reasons(
                self.entities, retrieval, kb, facts, node[of_entity], mention[of_entity]
            )
        return reasons

    def _mentions(self, facts: Facts, retrieval: Retrieval, k: int, announce: Announce) -> Neighbors:
        first, second = mention_pairs(facts, codes_of(retrieval.groups), retrieval.mentions)
        weight = self.weights(retrieval.inputs, facts, first, second, announce)
        back = ~facts.nameless[second]
        if retrieval.n_entities:
            back &= facts.nameless[first] | (facts.columns["document"][first] != facts.columns["document"][second])
        source, target = np.concatenate([first, second[back]]), np.concatenate([second, first[back]])
        return lists_of(source, target, np.concatenate([weight, weight[back]]), facts.columns["rank"], k)

    def weights(
        self, inputs: Sequence[MentionInput], facts: Facts, first: Ids, second: Ids, announce: Announce = quiet
    ) -> Floats:
        """Return the weight of the edge between ``first[i]`` and ``second[i]``; (pairs,).

        These are rows of ``facts``, and ``first[i]`` must have the lower ``rank``.
        """
        weight = np.empty(len(first), np.float32)
        for some in blocks(len(first)):
            features = mention_features(facts, first[some], second[some])
            log_odds = self.mentions.scores(features)
            if self.reader is not None:
                log_odds += self.reader.change(inputs, first[some], second[some], log_odds, announce)
            weight[some] = weights_of(log_odds, features, MENTION_FEATURES)
        return weight

    def _entities(self, facts: Facts, retrieval: Retrieval, kb: KnowledgeBase) -> Neighbors:
        assert self.entities is not None
        pairs = CandidatePairs.of(retrieval, kb)
        scores = np.full(retrieval.entities.ids.shape, -np.inf, np.float32)
        for some in blocks(len(pairs.mention)):
            features = pairs.features(facts, some)
            weight = weights_of(self.entities.scores(features), features, ENTITY_FEATURES)
            scores[pairs.mention[some], pairs.place[some]] = -weight
        ids, scores = best_first(retrieval.entities.ids, scores)
        return Neighbors(ids, -scores)

    @property
    def settings(self) -> dict[str, Any]:
        """The values that identify the model in a manifest."""
        return {**self.trained, "of_entities": self.entities is not None, "fingerprint": self._fingerprint}

    @cached_property
    def _fingerprint(self) -> str:
        parts: Any = self._forests()
        if self.reader is not None:
            parts = [parts, self.reader.factors, self.reader.encoder.tower.fingerprint]
        return sha256(json.dumps(parts).encode()).hexdigest()

    def save(self, path: PathLike) -> None:
        """Write the model completely or not at all: as JSON, or as a folder if it has a cross-encoder.

        Raise UsageError if it cannot be written; see `save_model` for further errors of a folder.
        """
        columns = {"mentions": list(MENTION_FEATURES), "entities": list(ENTITY_FEATURES)}
        content = {**_FORMAT.head(), "trained": self.trained, "features": columns, **self._forests()}
        if self.reader is None:
            write_json(content, path)
            return
        content[_FACTORS] = list(self.reader.factors)
        tower, config = self.reader.encoder.tower, self.reader.encoder.config
        save_model(tower, tower, config, path, lambda folder: write_json(content, folder / _FILE))

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model from a file or folder, or the model for English texts that arbo contains, named ``english``.

        Raises:
            DataError: the file or folder is missing, is not an edge model, is damaged, or was written by a version of
                arbo with other features.
            MissingDependency: the model has a cross-encoder, but torch or transformers is not installed.
        """
        if fspath(path) == ENGLISH:
            with as_file(files("arbo.edges") / f"{ENGLISH}.json") as file:
                return cls._read(file)
        if not Path(path).is_dir():
            return cls._read(path)
        return cls._read(Path(path) / _FILE, PairEncoder.from_pretrained(path))

    @classmethod
    def _read(cls, path: PathLike, encoder: PairEncoder | None = None) -> Self:
        content = check_manifest(read_json(path, "the edge model"), _FORMAT, path)
        if encoder is None and _FACTORS in content:
            raise DataError("this edge model needs the cross-encoder beside it; give the folder", file=str(path))
        if content["features"] != {"mentions": list(MENTION_FEATURES), "entities": list(ENTITY_FEATURES)}:
            problem = "the model was trained with other features than this version of arbo computes"
            raise DataError(f"{problem}; {_FORMAT.advice}", file=str(path))
        trees, file = content.get("entities"), str(path)
        mentions = Trees.from_dict(content.get("mentions"), len(MENTION_FEATURES), file=file)
        entities = None if trees is None else Trees.from_dict(trees, len(ENTITY_FEATURES), file=file)
        reader = None if encoder is None else Reader(encoder, tuple(content[_FACTORS]))
        return cls(mentions, entities, content["trained"], reader)

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
    """Return the ``k`` lightest edges into each mention as lists, padded with -1 and infinity; (mentions, k).

    Edges of equal weight are in order of the source's rank.
    """
    n = len(rank)
    order = np.lexsort((rank[source], weight, target))
    source, target, weight = source[order], target[order], weight[order]
    place = np.arange(len(target)) - np.searchsorted(target, target)
    is_listed: Bools = place < k
    lists = Neighbors.empty(n, k)
    lists.ids[target[is_listed], place[is_listed]] = source[is_listed]
    lists.dissimilarity[target[is_listed], place[is_listed]] = weight[is_listed]
    return lists


def weights_of(log_odds: LogOdds, features: Matrix, names: tuple[str, ...]) -> Floats:
    """Return the dissimilarity of each pair, float32; of equal ones, that with more common letters is smaller."""
    letters = features[:, names.index("letters")]
    return np.asarray(1 - 1 / (1 + np.exp(-log_odds)) + _TRACE * (1 - letters), np.float32)


def blocks(n: int) -> Iterator[slice]:
    """Yield slices that divide ``n`` pairs into blocks; only the features of one block are in memory at a time."""
    return (slice(begin, begin + _BLOCK) for begin in range(0, n, _BLOCK))


def mention_reasons(
    trees: Trees, reader: Reader | None, mentions: Sequence[MentionInput], facts: Facts, source: Ids, target: Ids
) -> Reasons:
    """Return the features that counted most for edges between mentions; what ``reader`` adds counts as `CROSS`."""
    rank = facts.columns["rank"]
    swap = rank[source] > rank[target]
    first, second = np.where(swap, target, source), np.where(swap, source, target)

    def shares(some: slice) -> LogOdds:
        features = mention_features(facts, first[some], second[some])
        if reader is None:
            return trees.shares(features)
        change = reader.change(mentions, first[some], second[some], trees.scores(features))
        return np.column_stack([trees.shares(features), change])

    return largest_shares((*MENTION_FEATURES, CROSS), len(first), shares)


def entity_reasons(
    trees: Trees, retrieval: Retrieval, kb: KnowledgeBase, facts: Facts, entity: Ids, mention: Ids
) -> Reasons:
    """Return the features that counted most for the edges from ``entity[i]`` to ``mention[i]``."""
    linked = np.full(len(facts), -1, np.int32)
    linked[mention] = entity
    pairs = CandidatePairs.linked(retrieval, kb, linked)
    n = len(pairs.mention)
    reasons = largest_shares(ENTITY_FEATURES, n, lambda some: trees.shares(pairs.features(facts, some)))
    place = np.searchsorted(pairs.mention, mention)
    return Reasons(reasons.features[place], reasons.log_odds[place])


def largest_shares(names: tuple[str, ...], n: int, shares_of: Callable[[slice], LogOdds]) -> Reasons:
    """Return the features that counted most for ``n`` pairs; ``shares_of`` returns all shares of a block of pairs."""
    reasons = Reasons(np.empty((n, _N_REASONS), object), np.empty((n, _N_REASONS), np.float32))
    for some in blocks(n):
        shares = shares_of(some)
        largest = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :_N_REASONS]
        reasons.features[some] = np.array(names, object)[largest]
        reasons.log_odds[some] = np.take_along_axis(shares, largest, axis=1)
    return reasons
