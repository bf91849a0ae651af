"""What several tests of the engine use."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from clustering import METHODS, Graph, Partition, index
from clustering.knn import Neighbors
from clustering.vectors import Metric, Vectors

Array = npt.NDArray[Any]
METRICS: tuple[Metric, ...] = ("cosine", "dot")
FORMS = ("dense", "sparse")
index.FEW_ROWS = 0  # so that a few vectors are searched as many are

every_method = pytest.mark.parametrize("method", METHODS)
every_metric = pytest.mark.parametrize("metric", METRICS)


def make(source: Any, target: Any, weight: Any, n_entities: int = 1, n_nodes: int = 3) -> Graph:
    return Graph.from_edges(source, target, weight, n_entities=n_entities, n_nodes=n_nodes)


def mention_graph(source: Any, target: Any, weight: Any, n_mentions: int, n_entities: int = 0) -> Graph:
    return make(source, target, weight, n_entities, n_entities + n_mentions)


def assert_same(left: Partition, right: Partition) -> None:
    for name in ("labels", "entity", "parent", "weight", "bottleneck"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


def gaussian(n: int, dim: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


def vectors(matrix: Array, form: str = "dense", **owners: Any) -> Vectors:
    return Vectors.of(sp.csr_array(matrix) if form == "sparse" else matrix, **owners)


def same(found: Neighbors, expected: Neighbors) -> None:
    assert (found.ids.dtype, found.dissimilarity.dtype) == (np.int32, np.float32)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.dissimilarity, expected.dissimilarity)


def brute(
    queries: Array,
    corpus: Array,
    k: int,
    *,
    metric: Metric = "cosine",
    owner: Array | None = None,
    n: int | None = None,
    self_ids: Array | None = None,
) -> Neighbors:
    """Score all pairs of rows in float64, keep the best of each owner, sort by (dissimilarity, id)."""
    owner = np.arange(len(corpus)) if owner is None else np.asarray(owner)
    n = n if n is not None else int(owner.max(initial=-1)) + 1
    a, b = np.asarray(queries, np.float32), np.asarray(corpus, np.float32)
    if metric == "cosine":
        a, b = _unit(a), _unit(b)
    w = (metric == "cosine") - a.astype(np.float64) @ b.astype(np.float64).T
    if metric == "cosine":
        w[np.abs(w) < 1e-6] = 0
    best = np.full((len(a), n), np.inf, np.float32)
    for row, thing in enumerate(owner):
        best[:, thing] = np.minimum(best[:, thing], w[:, row].astype(np.float32))
    if self_ids is not None:
        best[np.arange(len(a)), self_ids] = np.inf
    ids = np.argsort(best, axis=1, kind="stable")[:, :k]
    dissimilarity = np.take_along_axis(best, ids, axis=1)
    ids[np.isinf(dissimilarity)] = -1
    missing = ((0, 0), (0, k - ids.shape[1]))
    return Neighbors(np.pad(ids, missing, constant_values=-1), np.pad(dissimilarity, missing, constant_values=np.inf))


def _unit(matrix: Array) -> Array:
    length = np.linalg.norm(matrix.astype(np.float64), axis=1)
    return (matrix / np.where(length > 0, length, 1)[:, None]).astype(np.float32)


@contextlib.contextmanager
def faiss_threads(n: int) -> Iterator[None]:
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
