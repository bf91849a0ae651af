"""Approximate neighbour search against exact: seconds, and the share of the neighbours found.

100,000 vectors of 384 dimensions, cosine; the 8 nearest others of 20,000 of them. Vectors come in clusters of
ten on average: centres are normal in 32 dimensions, members scatter around them with half that deviation, all
are turned into 384 dimensions and get noise of deviation 0.5 in each (most of the variation lies in the 32).

`index.seconds` is what happens before the first query: copying, and building the index (by one thread before
faiss 1.15.1). `search.seconds` is the rest, on all cores. `recall_at_8` is measured on 1,000 queries, as a run
records it. `times_faster` compares whole runs, `search.times_faster` the searches alone: the more queries, the
nearer the first comes to the second. The script stops where an approximate list is short, or claims a neighbour
nearer than the exact one of its place.

`--quick` measures 20,000 vectors of 64 dimensions, prints the figures and leaves the results alone.
"""

import time
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from library.command import measure_or_try
from library.results import Figures, say

from clustering.comparison import measured_recall
from clustering.knn import Neighbors, nearest
from clustering.progress import T
from clustering.search import SEARCH_METHODS, SearchMethod
from clustering.vectors import Vectors

K = 8
LATENT, PER_CLUSTER, SCATTER, NOISE = 32, 10, 0.5, 0.5


class Clock:
    """A progress display that shows nothing and knows when the queries began."""

    begun = 0.0

    def __call__(self, items: Iterable[T], total: int) -> Iterable[T]:
        """Note the time: the index is there."""
        self.begun = time.perf_counter()
        return items


def clustered(n: int, dim: int, seed: int = 0) -> npt.NDArray[np.float32]:
    """Draw the vectors that the docstring of this file describes."""
    rng = np.random.default_rng(seed)
    centre = rng.standard_normal((n // PER_CLUSTER, LATENT), np.float32)
    latent = centre[rng.integers(0, len(centre), n)] + SCATTER * rng.standard_normal((n, LATENT), np.float32)
    vectors: npt.NDArray[np.float32] = latent @ rng.standard_normal((LATENT, dim), np.float32)
    vectors += np.float32(NOISE) * rng.standard_normal((n, dim), np.float32)
    return vectors


def timed(queries: Vectors, corpus: Vectors, method: SearchMethod) -> tuple[float, float, Neighbors]:
    """Search, and return the seconds before and after the first query, and what was found."""
    clock = Clock()
    begin = time.perf_counter()
    found = nearest(queries, corpus, K, search=method, self_ids=np.arange(queries.n), progress=clock)
    end = time.perf_counter()
    return clock.begun - begin, end - clock.begun, found


def measure(quick: bool) -> Figures:
    """Run every search on one corpus."""
    n, n_queries, dim = (20_000, 5000, 64) if quick else (100_000, 20_000, 384)
    corpus = Vectors.of(clustered(n, dim))
    queries = corpus.taken(np.arange(n_queries))
    small = Vectors.of(clustered(20_000, 8))
    for method in SEARCH_METHODS:  # compiles the kernels
        timed(small.taken(np.arange(100)), small, method)
    figures: Figures = {"vectors": n, "queries": n_queries, "dim": dim}
    exact: tuple[float, float, Neighbors] | None = None
    for method in SEARCH_METHODS:
        index, search, found = timed(queries, corpus, method)
        recall = measured_recall(found, queries, corpus, self_ids=np.arange(n_queries))
        exact = exact or (index, search, found)
        assert (found.ids >= 0).all(), f"{method} leaves lists short"
        assert (found.dissimilarity >= exact[2].dissimilarity).all(), f"{method} finds what exact search does not"
        figures |= {
            f"{method}.index.seconds": index,
            f"{method}.search.seconds": search,
            f"{method}.recall_at_{K}": recall,
        }
        if method != "exact":
            figures[f"{method}.times_faster"] = (exact[0] + exact[1]) / (index + search)
            figures[f"{method}.search.times_faster"] = exact[1] / search
        say(f"{method}: index {index:.2f} s, search {search:.2f} s, recall {recall:.4f}")
    return figures


if __name__ == "__main__":
    measure_or_try("search", __doc__, "20,000 vectors only", measure)
