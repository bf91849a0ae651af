"""What the directed methods and `undirected` find: how each mention is reached."""

from typing import NamedTuple

import numpy as np

from clustering.arrays import Bools, Ids, Weights
from clustering.doors import Doors


class Forest(NamedTuple):
    """Parents of mentions; mentions count from 0, entities are negative."""

    parent: Ids
    """(mentions,) the node it hangs on; itself where no entity reaches it."""
    weight: Weights
    """(mentions,) weight of the edge from there, NaN where no entity reaches it."""

    @property
    def is_reached(self) -> Bools:
        """(mentions,) whether an entity reaches the mention."""
        return ~np.isnan(self.weight)


def unreached(n_mentions: int, ids: Ids, weights: Weights) -> Forest:
    """Return a forest without edges; ``ids`` and ``weights`` lend their dtypes."""
    return Forest(np.arange(n_mentions, dtype=ids.dtype), np.full(n_mentions, np.nan, weights.dtype))


def hang_on_doors(entrances: Doors) -> Forest:
    """Hang every mention on its nearest entity, if it has one."""
    forest = unreached(len(entrances.entity), entrances.entity, entrances.weight)
    has_door = entrances.entity < 0
    return Forest(
        np.where(has_door, entrances.entity, forest.parent), np.where(has_door, entrances.weight, forest.weight)
    )
