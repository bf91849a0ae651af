"""The array types that travel through the engine."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.signedinteger[Any]]
"""Node or edge ids: int32 where they fit, else int64."""

Weights: TypeAlias = npt.NDArray[np.floating[Any]]
"""Dissimilarities, float32 or float64; smaller is closer."""

Threshold: TypeAlias = float | tuple[float, float] | None
"""Largest dissimilarity kept: one for all edges, or (entity edges, mention edges); None keeps all."""


def id_dtype(largest: int) -> type[np.signedinteger[Any]]:
    """Return the smallest id type that can count up to ``largest``."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64
