"""Nearest neighbours and dissimilarities of embeddings, either vectors or token matrices.

Of `Vectors` they are those of `clustering.knn`, of `TokenMatrices` those of `clustering.late_interaction`: a first
stage on pooled vectors proposes `CANDIDATES` things, which are then compared token by token.
"""

from typing import TypeAlias, Unpack

from . import knn
from .arrays import Floats, Ids
from .knn import Neighbors, SearchOptions
from .late_interaction import TokenMatrices, late_dissimilarity, late_nearest, late_recall
from .search import SearchMethod
from .vectors import Metric, Vectors

Embeddings: TypeAlias = Vectors | TokenMatrices
"""One or several vectors for each thing, or the vectors of all its tokens."""

CANDIDATES = 256
"""Things that the first stage proposes for each query, more if more neighbours are wanted; so few are searched exactly.
What it misses of more, `is_exact` and `measured_recall` tell, and `benchmarks/late_interaction.py` of 5,000 names."""


def nearest(queries: Embeddings, corpus: Embeddings, k: int, **options: Unpack[SearchOptions]) -> Neighbors:
    """Return the ``k`` nearest things of the corpus for each query; see `clustering.knn.nearest`.

    With token matrices ``search`` and ``scanner`` are those of the first stage; see `late_nearest`.

    Raises:
        ValueError: one argument is vectors and the other token matrices, or the search itself fails.
    """
    if isinstance(queries, TokenMatrices) and isinstance(corpus, TokenMatrices):
        return late_nearest(queries, corpus, k, n_candidates=max(k, CANDIDATES), **options)
    if isinstance(queries, Vectors) and isinstance(corpus, Vectors):
        return knn.nearest(queries, corpus, k, **options)
    raise _unlike(queries, corpus)


def is_exact(corpus: Embeddings, search: SearchMethod) -> bool:
    """Return whether `nearest` misses no neighbour: the search is exact, and there is no first stage.

    Otherwise report `measured_recall` with the result.
    """
    return search == "exact" and not (isinstance(corpus, TokenMatrices) and corpus.n > CANDIDATES)


def measured_recall(
    found: Neighbors, queries: Embeddings, corpus: Embeddings, *, metric: Metric = "cosine", self_ids: Ids | None = None
) -> float:
    """Return the share of exact neighbours that `nearest` found; see `knn.measured_recall` and `late_recall`."""
    if isinstance(queries, TokenMatrices) and isinstance(corpus, TokenMatrices):
        return late_recall(found, queries, corpus, metric=metric, self_ids=self_ids)
    if isinstance(queries, Vectors) and isinstance(corpus, Vectors):
        return knn.measured_recall(found, queries, corpus, metric=metric, self_ids=self_ids)
    raise _unlike(queries, corpus)


def pair_dissimilarity(
    queries: Embeddings, corpus: Embeddings, query: Ids, thing: Ids, *, metric: Metric = "cosine"
) -> Floats:
    """Return the dissimilarity of query ``query[i]`` and thing ``thing[i]``, equal to that of `nearest`; (pairs,)."""
    if isinstance(queries, TokenMatrices) and isinstance(corpus, TokenMatrices):
        return late_dissimilarity(queries, corpus, query, thing, metric=metric)
    if isinstance(queries, Vectors) and isinstance(corpus, Vectors):
        return knn.pair_dissimilarity(queries, corpus, query, thing, metric=metric)
    raise _unlike(queries, corpus)


def _unlike(queries: Embeddings, corpus: Embeddings) -> ValueError:
    return ValueError(
        f"queries are {type(queries).__name__}, but the corpus is {type(corpus).__name__}; "
        "use the same encoder for both"
    )
