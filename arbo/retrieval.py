"""From mentions to the graph: encode, find neighbours, and keep what the decisions are explained with.

Neighbours are of the mention's own domain, see `arbo.domains`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from arbo.abbreviations import expander
from arbo.documents import Corpus
from arbo.domains import entity_parts, mention_parts, nearest_within, recall_within
from arbo.encoders import Encoder, MentionInput
from arbo.errors import UsageError
from arbo.progress import Announce
from clustering import Graph
from clustering.comparison import Embeddings, is_exact, pair_dissimilarity
from clustering.dissimilarity import offset_of
from clustering.knn import Neighbors
from clustering.search import SearchMethod


@dataclass(frozen=True, eq=False, slots=True)
class Retrieval:
    """The nearest entities and mentions of each mention; from here on everything is cheap."""

    inputs: list[MentionInput]
    mention_vectors: Embeddings
    entity_vectors: Embeddings | None
    entities: Neighbors
    mentions: Neighbors
    encoder: Encoder
    search: SearchMethod
    """How neighbours were found; where tokens are compared, what the first stage proposes."""
    recall: Mapping[str, float]
    """The share of the exact neighbours that was found, measured on a sample: of ``entities`` and of ``mentions``,
    where the search of these `clustering.comparison.is_exact` not."""

    def graph(self, k: int) -> Graph:
        """Build the inference graph: edges into each mention from its ``k`` nearest mentions and its nearest entity."""
        n_entities = len(self.entity_vectors) if self.entity_vectors else 0
        return Graph.from_neighbors(self.mentions.first(k), self.entities.first(1), n_entities=n_entities)

    def similarity(self, dissimilarity: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Turn dissimilarities into similarities (higher is closer): the one place where the sign changes."""
        return np.float32(offset_of(self.encoder.metric)) - dissimilarity

    def dissimilarity_to(self, entity: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """Dissimilarity of each mention and the entity given for it, infinite for -1; (mentions,)."""
        found = np.full(len(entity), np.inf, np.float32)
        if self.entity_vectors is None:
            return found
        if self.entities.ids.shape[1]:
            is_nearest = (entity >= 0) & (self.entities.ids[:, 0] == entity)
            found[is_nearest] = self.entities.dissimilarity[is_nearest, 0]
        other = np.flatnonzero((entity >= 0) & np.isinf(found))
        if len(other):
            found[other] = pair_dissimilarity(
                self.mention_vectors, self.entity_vectors, other, entity[other], metric=self.encoder.metric
            )
        return found


def mention_inputs(corpus: Corpus, *, expand_abbreviations: bool) -> list[MentionInput]:
    """List the mentions of a corpus as encoders see them."""
    inputs: list[MentionInput] = []
    for document in corpus:
        expand = expander(document.text) if expand_abbreviations and document.mentions else str
        inputs.extend(MentionInput(expand(mention.text), mention, document) for mention in document.mentions)
    return inputs


def retrieve(
    encoder: Encoder,
    inputs: list[MentionInput],
    entity_vectors: Embeddings | None,
    *,
    entity_domains: Sequence[str | None],
    k: int,
    candidates: int,
    search: SearchMethod,
    announce: Announce,
) -> Retrieval:
    """Encode mentions and find the ``candidates`` nearest entities and ``k`` nearest other mentions of each.

    Both are of the mention's domain; ``entity_domains`` names that of each entity. Lists end in empty places (-1 and
    infinity) where a domain holds fewer.

    Raises:
        UsageError: no mention has an entity in its domain, or an approximate search of sparse vectors.

    """
    domains = [item.document.domain for item in inputs]
    mention_of = mention_parts(domains)
    entity_of = entity_parts(domains, entity_domains)
    vectors = encoder.encode_mentions(inputs, announce)
    if search != "exact" and issparse(vectors.matrix):
        raise UsageError(f"search={search!r} is for dense vectors, such as a transformer's; these are searched exactly")
    entities = mentions = Neighbors(np.empty((len(inputs), 0), np.int32), np.empty((len(inputs), 0), np.float32))
    if entity_vectors is not None and inputs:
        entities = nearest_within(
            entity_of,
            vectors,
            entity_vectors,
            min(candidates, len(entity_vectors)),
            metric=encoder.metric,
            search=search,
            progress=announce("nearest entities"),
        )
    if len(inputs) > 1:
        mentions = nearest_within(
            mention_of,
            vectors,
            vectors,
            min(k, len(inputs) - 1),
            metric=encoder.metric,
            search=search,
            progress=announce("nearest mentions"),
        )
    recall = {}
    if entity_vectors is not None and not is_exact(entity_vectors, search):
        recall["entities"] = recall_within(entity_of, entities, vectors, entity_vectors, metric=encoder.metric)
    if not is_exact(vectors, search):
        recall["mentions"] = recall_within(mention_of, mentions, vectors, vectors, metric=encoder.metric)
    return Retrieval(inputs, vectors, entity_vectors, entities, mentions, encoder, search, recall)
