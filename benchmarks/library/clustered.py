"""Vectors in clusters, as embeddings of names are."""

import numpy as np
import numpy.typing as npt

LATENT, PER_CLUSTER, SCATTER, NOISE = 32, 10, 0.5, 0.5


def clustered(n: int, dim: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Draw ``n`` vectors of ``dim`` numbers, in clusters of ten on average.

    Centres are normal in 32 dimensions, members scatter around them with half that deviation, and all are turned into
    ``dim`` dimensions and get noise of deviation 0.5 in each, so that most of the variation lies in the 32.
    """
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal((n // PER_CLUSTER, LATENT), np.float32)
    latent = centre[rng.integers(0, len(centre), n)] + SCATTER * rng.standard_normal((n, LATENT), np.float32)
    vectors: npt.NDArray[np.float32] = latent @ rng.standard_normal((LATENT, dim), np.float32)
    vectors += np.float32(NOISE) * rng.standard_normal((n, dim), np.float32)
    return vectors
