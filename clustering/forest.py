"""Forests: the parent of each mention."""

from typing import NamedTuple

import numpy as np

from .arrays import Bools, Ids, Weights
from .entity_edges import EntityEdges


class Forest(NamedTuple):
    """Parents of mentions; mentions count from 0, entities are negative."""

    parent: Ids  # (mentions,) the parent of the mention; the mention itself if no entity reaches it
    weight: Weights  # (mentions,) weight of the edge from the parent; NaN if no entity reaches the mention

    @property
    def is_reached(self) -> Bools:
        """(mentions,) whether an entity reaches the mention."""
        return ~np.isnan(self.weight)


def unreached(n_mentions: int, ids: Ids, weights: Weights) -> Forest:
    """Return a forest without edges, with the dtypes of ``ids`` and ``weights``."""
    return Forest(np.arange(n_mentions, dtype=ids.dtype), np.full(n_mentions, np.nan, weights.dtype))


def hang_on_entities(entity_edges: EntityEdges) -> Forest:
    """Make the nearest entity of each mention its parent, if it has one."""
    forest = unreached(len(entity_edges.entity), entity_edges.entity, entity_edges.weight)
    is_linked = entity_edges.entity < 0
    return Forest(
        np.where(is_linked, entity_edges.entity, forest.parent), np.where(is_linked, entity_edges.weight, forest.weight)
    )
