"""Nearest neighbours and dissimilarities of embeddings, either vectors or token matrices.

`Vectors` are compared by `clustering.knn`, and `TokenMatrices` by `clustering.late_interaction`: a first stage on
pooled vectors proposes `CANDIDATES` things, which are then compared token by token.
"""

from typing import TypeAlias, Unpack

import numpy as np

from . import knn
from .arrays import Floats, Ids
from .index import Index
from .knn import Neighbors, SearchOptions
from .late_interaction import TokenMatrices, late_dissimilarity, late_nearest
from .vectors import Metric, Vectors

Embeddings: TypeAlias = Vectors | TokenMatrices
"""One or several vectors for each thing (a mention or an entity), or the vectors of all its tokens."""

Searchable: TypeAlias = Embeddings | Index
"""Embeddings to search, or an index of vectors."""

CANDIDATES = 256
"""Number of things that the first stage proposes for each query, or more if more neighbours are requested. If the
corpus has no more things, the search is exact. Otherwise `measured_recall` measures the share of neighbours that it
finds; `benchmarks/late_interaction.py` does so for 5,000 names."""


SAMPLE = 100
"""Number of queries on which the recall is measured."""


def nearest(queries: Embeddings, corpus: Searchable, k: int, **options: Unpack[SearchOptions]) -> Neighbors:
    """Return the ``k`` nearest things of the corpus for each query; see `clustering.knn.nearest`.

    With token matrices, ``scanner`` applies to the first stage; see `late_nearest`. Raise ValueError if
    one argument consists of vectors and the other of token matrices.
    """
    return _nearest(queries, corpus, k, max(k, CANDIDATES), **options)


def _nearest(
    queries: Embeddings, corpus: Searchable, k: int, n_candidates: int | None, **options: Unpack[SearchOptions]
) -> Neighbors:
    if isinstance(queries, TokenMatrices) and isinstance(corpus, TokenMatrices):
        return late_nearest(queries, corpus, k, n_candidates=n_candidates, **options)
    if isinstance(queries, Vectors) and isinstance(corpus, Vectors | Index):
        return knn.nearest(queries, corpus, k, **options)
    raise _unlike(queries, corpus)


def is_exact(corpus: object) -> bool:
    """Return whether `nearest` is sure to miss no neighbour, since there is no first stage.

    Otherwise neighbours may be missing: report `measured_recall` with the result.
    """
    return not (isinstance(corpus, TokenMatrices) and corpus.n > CANDIDATES)


def measured_recall(
    found: Neighbors,
    queries: Embeddings,
    corpus: Searchable,
    *,
    metric: Metric = "cosine",
    self_ids: Ids | None = None,
) -> float:
    """Return the share of exact neighbours that `nearest` found for a sample of queries; 1 if there are no neighbours.

    This is recall@k, where k is the length of the lists. ``found`` is the result of `nearest`; the arguments from
    ``queries`` to ``self_ids`` must be those of that search. An exact search is made for `SAMPLE` queries, drawn
    without replacement. Raise ValueError if ``found`` does not have one list for each query.
    """
    if len(found.ids) != queries.n:
        raise ValueError(f"found has {len(found.ids)} lists for {queries.n} queries; give the queries of that search")
    n, k = queries.n, found.ids.shape[1]
    drawn = np.sort(np.random.default_rng(0).choice(n, min(SAMPLE, n), replace=False))
    sample_ids = None if self_ids is None else np.asarray(self_ids)[drawn]
    exact = _nearest(queries.taken(drawn), corpus, k, None, metric=metric, self_ids=sample_ids)
    return share_found(found.dissimilarity[drawn], exact.dissimilarity)


def share_found(found: Floats, exact: Floats) -> float:
    """Return the share of exact neighbours found, given dissimilarities, (queries, k); ties are interchangeable."""
    there = np.isfinite(exact)
    farthest = np.max(exact, axis=1, where=there, initial=-np.inf, keepdims=True)
    n_there = int(there.sum())
    return int((found <= farthest).sum()) / n_there if n_there else 1.0


def pair_dissimilarity(
    queries: Embeddings, corpus: Searchable, query: Ids, thing: Ids, *, metric: Metric = "cosine"
) -> Floats:
    """Return the dissimilarity of each pair of query ``query[i]`` and thing ``thing[i]``, as in `nearest`; (pairs,)."""
    if isinstance(queries, TokenMatrices) and isinstance(corpus, TokenMatrices):
        return late_dissimilarity(queries, corpus, query, thing, metric=metric)
    if isinstance(queries, Vectors) and isinstance(corpus, Vectors | Index):
        return knn.pair_dissimilarity(queries, corpus, query, thing, metric=metric)
    raise _unlike(queries, corpus)


def _unlike(queries: Embeddings, corpus: Searchable) -> ValueError:
    return ValueError(
        f"queries are {type(queries).__name__}, but the corpus is {type(corpus).__name__}; "
        "use the same encoder for both"
    )
