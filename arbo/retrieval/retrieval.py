"""From mentions to the graph: encode, find neighbours, and keep what the decisions are explained with.

Neighbours are of the mention's own domain, see `arbo.retrieval.domains`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from arbo.data.inputs import MentionInput
from arbo.encoders.encoder import Encoder
from arbo.engine import Embeddings, Floats, Graph, Ids, Neighbors, SearchMethod, is_exact, offset_of, pair_dissimilarity
from arbo.errors import UsageError
from arbo.progress import Announce
from arbo.retrieval.domains import entity_parts, mention_parts, nearest_within, recall_within


class EncodedEntities(NamedTuple):
    """The entities of a knowledge base as an encoder sees them."""

    vectors: Embeddings
    domains: Sequence[str | None]
    """(entities,)"""


@dataclass(frozen=True, eq=False, slots=True)
class Retrieval:
    """The nearest entities and mentions of each mention; from here on everything is cheap."""

    inputs: list[MentionInput]
    n_entities: int
    entities: Neighbors
    mentions: Neighbors
    distance: Callable[[Ids, Ids], Floats]
    """Gives the dissimilarity of mentions and entities that are not among the neighbours, pair by pair."""
    offset: float
    """What a dissimilarity is subtracted from to make a similarity: 1 for cosines and probabilities, 0 for products."""
    threshold: tuple[float, float]
    """Default thresholds on (entity, mention) edges."""
    settings: dict[str, Any]
    """What identifies encoder and reranker in a manifest."""
    search: SearchMethod
    """How neighbours were found; where tokens are compared, what the first stage proposes."""
    recall: Mapping[str, float]
    """The share of the exact neighbours that was found, measured on a sample: of ``entities`` and of ``mentions``,
    where the search of these is not exact, see `clustering.comparison.is_exact`."""

    def graph(self, k: int) -> Graph:
        """Build the inference graph: edges into each mention from its ``k`` nearest mentions and its nearest entity."""
        return Graph.from_neighbors(self.mentions.first(k), self.entities.first(1), n_entities=self.n_entities)

    def similarity(self, dissimilarity: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Turn dissimilarities into similarities (higher is closer): the one place where the sign changes."""
        return np.float32(self.offset) - dissimilarity

    def dissimilarity_to(self, entity: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Dissimilarity of each mention and the entity given for it, infinite for -1; (mentions,)."""
        found = np.full(len(entity), np.inf, np.float32)
        mention, place = np.nonzero((self.entities.ids == entity[:, None]) & (entity >= 0)[:, None])
        found[mention] = self.entities.dissimilarity[mention, place]
        other = np.flatnonzero((entity >= 0) & np.isinf(found))
        if len(other):
            found[other] = self.distance(other, entity[other])
        return found


def retrieve(
    encoder: Encoder,
    inputs: list[MentionInput],
    entities: EncodedEntities | None,
    *,
    k: int,
    candidates: int,
    search: SearchMethod,
    announce: Announce,
) -> Retrieval:
    """Encode mentions and find the ``candidates`` nearest entities and ``k`` nearest other mentions of each.

    Both are of the mention's domain. Lists end in empty places (-1 and infinity) where a domain holds fewer.

    Raises:
        UsageError: no mention has an entity in its domain, or an approximate search of sparse vectors.

    """
    domains = [item.document.domain for item in inputs]
    parts = {"mentions": mention_parts(domains)}
    if entities is not None:
        parts["entities"] = entity_parts(domains, entities.domains)
    vectors = encoder.encode_mentions(inputs, announce)
    if search != "exact" and issparse(vectors.matrix):
        raise UsageError(f"search={search!r} is for dense vectors, such as a transformer's; these are searched exactly")
    things, most = {"mentions": vectors}, {"mentions": min(k, len(inputs) - 1)}
    if entities is not None:
        things = {"entities": entities.vectors, **things}
        most["entities"] = min(candidates, len(entities.vectors))
    empty = Neighbors(np.empty((len(inputs), 0), np.int32), np.empty((len(inputs), 0), np.float32))
    found = {"entities": empty, "mentions": empty}
    recall = {}
    for name, others in things.items():
        if inputs and most[name] >= 0:
            found[name] = nearest_within(
                parts[name],
                vectors,
                others,
                most[name],
                metric=encoder.metric,
                search=search,
                progress=announce(f"nearest {name}"),
            )
        if not is_exact(others, search):
            recall[name] = recall_within(parts[name], found[name], vectors, others, metric=encoder.metric)
    return Retrieval(
        inputs,
        0 if entities is None else len(entities.vectors),
        found["entities"],
        found["mentions"],
        partial(_distance, vectors, entities, encoder),
        offset_of(encoder.metric),
        encoder.threshold,
        encoder.settings,
        search,
        recall,
    )


def _distance(
    vectors: Embeddings, entities: EncodedEntities | None, encoder: Encoder, mention: Ids, entity: Ids
) -> Floats:
    assert entities is not None  # otherwise there is no entity to ask for
    return pair_dissimilarity(vectors, entities.vectors, mention, entity, metric=encoder.metric)
