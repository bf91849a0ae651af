"""Drawn labels of a clustering and of a response to it."""

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[np.int64]


def zipf_labels(n_mentions: int, seed: int = 0) -> tuple[Labels, Labels]:
    """Draw clusters whose sizes follow Zipf's law, and a response that moves a fifth of the mentions."""
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.zipf(2.1, n_mentions), 10_000)
    key = rng.permutation(np.repeat(np.arange(n_mentions), sizes)[:n_mentions])
    response = key.copy()
    moved = np.flatnonzero(rng.random(n_mentions) < 0.2)
    response[moved] = key[rng.integers(0, n_mentions, len(moved))]
    return key, response
