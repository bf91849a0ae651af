"""The array types that travel through the engine."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Node or edge ids: int32 where they fit, else int64."""

Weights: TypeAlias = npt.NDArray[np.floating[Any]]
"""Dissimilarities, float32 or float64; smaller is closer."""

Floats: TypeAlias = npt.NDArray[np.float32]
"""Vectors and what is computed of them."""

Bools: TypeAlias = npt.NDArray[np.bool_]

Threshold: TypeAlias = float | tuple[float, float] | None
"""Largest dissimilarity kept: one for all edges, or (entity edges, mention edges); None keeps all."""


class Edges(NamedTuple):
    """Edges as three arrays of one length."""

    source: Ids
    target: Ids
    weight: Weights

    def take(self, which: Ids | Bools | slice) -> "Edges":
        """Return the edges at these places, or those marked."""
        return Edges(self.source[which], self.target[which], self.weight[which])


def concatenated(parts: Sequence[Edges]) -> Edges:
    """Put edges behind each other."""
    return Edges(
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.target for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def id_dtype(largest: int) -> type[np.signedinteger[Any]]:
    """Return the smallest id type that can count up to ``largest``."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64
