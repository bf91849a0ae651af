"""From mentions to the graph: encode, search neighbours, and keep the data for explanations."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from arbo import engine
from arbo.data.inputs import Inputs
from arbo.encoders.encoder import Encoder
from arbo.engine import Bools, Decisions, Floats, Graph, Ids, Neighbors, Vectors, Weights
from arbo.progress import Announce
from arbo.retrieval import groups
from arbo.retrieval.groups import Group, GroupedEntities, SearchAll, search_all

Find: TypeAlias = Callable[..., Neighbors]
"""A search like `nearest_within` that knows the vectors of the mentions, such as `EarlierSearch.nearest_within`."""


class PairScores(NamedTuple):
    """(pairs, 2) mentions with rows of entities, and (pairs,) their scores."""

    pairs: Ids
    scores: Floats


class Mentions(NamedTuple):
    """Mentions in the order of `Corpus.order`, and how to encode them."""

    encoder: Encoder
    """The encoder, fitted."""
    inputs: Inputs
    encode: Callable[[], Vectors]
    """Returns their vectors, always the same."""
    find: Find | None = None
    """Searches their neighbours if some are known."""
    known: PairScores | None = None
    """Known scores of a reranker, see `arbo.retrieval.reranking`."""

    @classmethod
    def of(cls, inputs: Inputs, order: Ids, encoder: Encoder, announce: Announce) -> Self:
        """Take the mentions of a corpus in an order; the encoder encodes them in the order of ``inputs``."""
        encode = cache(lambda: encoder.encode_mentions(inputs, announce).taken(order))
        return cls(encoder, inputs.taken(order), encode)


class SearchSettings(NamedTuple):
    """The numbers of neighbours to search for, and where."""

    k: int
    """Number of nearest other mentions per mention."""
    candidates: int
    """Number of nearest entities per mention."""
    within: float | None = None
    """Largest dissimilarity of mentions to list; None for no limit."""
    per_document: bool = False
    """Whether mentions are compared only with mentions of their own document."""
    first: Ids | None = None
    """(mentions,) the first mention of the same name, see `arbo.retrieval.groups.first_alike`; only these are compared,
    and all others have one neighbour, this one, at `clustering.average.SAME`. None compares all mentions."""


class Reasons(NamedTuple):
    """The features that counted most for the weights of edges, largest first."""

    features: npt.NDArray[np.object_]
    """(edges, most) names of features; NaN for an edge that the edge model did not weigh."""
    log_odds: Floats
    """(edges, most) the share of each feature in the log-odds of the edge."""

    @classmethod
    def of(cls, features: npt.NDArray[np.object_], shares: Weights, most: int | None = None) -> Self:
        """Take the largest shares in log-odds, (edges, features) both."""
        order = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :most]
        largest = np.take_along_axis(shares, order, axis=1).astype(np.float32)
        return cls(np.take_along_axis(features, order, axis=1), largest)


@dataclass(frozen=True, eq=False, slots=True)
class Retrieval:
    """The nearest entities and mentions of each mention, and all that later steps need."""

    inputs: Inputs
    groups: Sequence[Hashable]
    """(mentions,) the group of each mention, see `arbo.retrieval.groups`."""
    n_entities: int
    entities: Neighbors
    mentions: Neighbors
    distance: Callable[[Ids, Ids], Floats]
    """Returns the dissimilarity of pairs of mentions and entities that are not neighbours."""
    offset: float
    """The similarity is this value minus the dissimilarity: 1 for cosines and probabilities, 0 for inner products."""
    threshold: tuple[float, float]
    """Default thresholds on entity edges and on mention edges."""
    settings: dict[str, Any]
    """The values that identify encoder and reranker in a manifest."""
    within: float | None = None
    """Beyond this dissimilarity, ``mentions`` lists nothing, so that larger thresholds need another search; None if it
    is complete."""
    by_spelling: Bools | None = None
    """(mentions,) whether spelling chose between equally near entities, see `arbo.retrieval.candidates`."""
    reasons: Callable[[Ids, Ids], Reasons] | None = None
    """Returns the reasons for edges from nodes of the graph to mentions; None without an edge model."""

    def graph(self, k: int, decisions: Decisions | None = None, more: int = 0) -> Graph:
        """Build the graph, with edges into each mention from its ``k`` nearest mentions and its nearest entity.

        ``more`` roots for decisions follow the entities. A mention for which the decisions rule out an entity has edges
        from all its candidates.
        """
        entities = self.entities.first(1)
        if decisions is not None and len(decisions.wrong):
            has_all = np.zeros((len(self.inputs), 1), np.bool_)
            has_all[decisions.wrong_ones()[:, 0]] = True
            is_first = np.arange(self.entities.ids.shape[1]) == 0
            entities = self.entities._replace(ids=np.where(has_all | is_first, self.entities.ids, np.int32(-1)))
        return Graph.from_neighbors(self.mentions.first(k), entities, n_entities=self.n_entities + more)

    def similarity(self, dissimilarity: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Convert dissimilarities to similarities (higher is closer)."""
        return np.float32(self.offset) - dissimilarity

    def dissimilarity_to(self, entity: npt.NDArray[np.int32], mention: Ids) -> npt.NDArray[np.float32]:
        """Return the dissimilarity of ``mention[i]`` to ``entity[i]``; infinity for -1."""
        of_pair = np.full(len(entity), np.inf, np.float32)
        ids, dissimilarity = self.entities.of(mention)
        pair, place = np.nonzero((ids == entity[:, None]) & (entity >= 0)[:, None])
        of_pair[pair] = dissimilarity[pair, place]
        other = np.flatnonzero((entity >= 0) & np.isinf(of_pair))
        if len(other):
            of_pair[other] = self.distance(mention[other], entity[other])
        return of_pair


def retrieve(
    mentions: Mentions,
    entities: GroupedEntities | None,
    groups_of: Sequence[Hashable],
    settings: SearchSettings,
    announce: Announce,
    search_all: SearchAll = search_all,
) -> Retrieval:
    """Find the nearest entities and the nearest other mentions of each mention, as many as ``settings`` says.

    ``groups_of`` are the groups of the mentions. Neighbours belong to the group of the mention; if it has too few,
    lists are padded with -1 and infinity. Raise UsageError if no mention has an entity in its group.
    """
    encoder, inputs, encode, find, _ = mentions
    entity_groups = [] if entities is None else groups.with_entities(groups_of, entities.rows)
    if settings.per_document:
        groups_of = list(zip(groups_of, inputs.column("document_id"), strict=True))
    vectors: Any = encode() if find is None else None
    search = find or partial(groups.nearest_within, queries=vectors, search_all=search_all)

    def nearest(name: str, its_groups: Sequence[Group], things: Any, k: int, within: float | None = None) -> Neighbors:
        how: Any = {"metric": encoder.metric, "progress": announce(f"nearest {name}")}
        return search(its_groups, things=things, k=k, within=within, **how) if inputs else Neighbors.empty(0, 0)

    candidates = Neighbors.empty(len(inputs), 0)
    if entities is not None:
        candidates = nearest("entities", entity_groups, entities, min(settings.candidates, entities.entities.n))
    k = min(settings.k, len(inputs) - 1)
    first = settings.first
    neighbors = nearest("mentions", groups.among_mentions(groups_of, first), vectors, k, settings.within)
    if first is not None and k > 0:
        more = np.flatnonzero(first != np.arange(len(first)))
        neighbors.ids[more, 0], neighbors.dissimilarity[more, 0] = first[more], engine.SAME
    return Retrieval(
        inputs,
        groups_of,
        0 if entities is None else entities.entities.n,
        candidates,
        neighbors,
        partial(_distance, encode, entities, encoder),
        engine.offset_of(encoder.metric),
        encoder.threshold,
        encoder.settings,
        settings.within,
    )


def _distance(
    encode: Callable[[], Vectors], entities: GroupedEntities | None, encoder: Encoder, mention: Ids, entity: Ids
) -> Floats:
    assert entities is not None  # otherwise there is no entity to ask for
    return engine.pair_dissimilarity(encode(), entities.whole, mention, entity, metric=encoder.metric)
