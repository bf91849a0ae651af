"""The neighbour search against brute force in float64: equal to the last bit, ties included."""

import os
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_builders import FORMS, METRICS, Array, brute, gaussian, same, vectors

from clustering import index as index_module
from clustering.index import Index
from clustering.knn import Neighbors, nearest, pair_dissimilarity
from clustering.vectors import Metric, Vectors, dot


def nearly_equal(n: int, dim: int, seed: int = 0) -> Array:
    """Vectors that differ in the last bit of their numbers: far less than a float32 product is off."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, dim))
    base = np.abs(gaussian(1, dim, seed)) + np.float32(0.5)
    return np.where(bits == 1, np.nextafter(base, np.float32(9)), base)


# --- near-ties: what float32 products cannot tell apart; `differential.search` has problems of all kinds


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [3, 64, 257])
def test_near_ties(metric: Metric, dim: int) -> None:
    corpus = nearly_equal(700, dim)
    queries = gaussian(40, dim, 3)
    same(nearest(Vectors.of(queries), Vectors.of(corpus), 10, metric=metric), brute(queries, corpus, 10, metric=metric))


def test_near_ties_that_count_as_the_same_direction() -> None:
    """Directions within rounding of the query's are at zero, and so ordered by id, even those faiss leaves out."""
    angle = np.sqrt(2 * np.linspace(0, 1.2e-6, 19))
    corpus = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    reverse, query = np.arange(19)[::-1], np.float32([[1, 0]])
    found = nearest(Vectors.of(query), Vectors.of(corpus, owner=reverse), 2)
    same(found, brute(query, corpus, 2, owner=reverse))
    assert found.dissimilarity.tolist() == [[0, 0]]


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-15, 1e15])
def test_products_too_small_for_float32(scale: float) -> None:
    corpus = gaussian(200, 5) * np.float32(scale)
    expected = brute(corpus, corpus, 4, metric="dot")
    same(nearest(Vectors.of(corpus), Vectors.of(corpus), 4, metric="dot"), expected)


def test_all_nearly_equal_is_bounded_in_memory() -> None:
    matrix = nearly_equal(3000, 24)
    points = Vectors.of(matrix)
    nearest(points.taken(np.arange(5)), points, 8, metric="dot")
    tracemalloc.start()
    found = nearest(points, points, 8, metric="dot", self_ids=np.arange(3000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 14e6, "3000 x 3000 scores would be 36 MB"
    some = np.arange(0, 3000, 150)
    expected = brute(matrix[some], matrix, 8, metric="dot", self_ids=some)
    same(Neighbors(found.ids[some], found.dissimilarity[some]), expected)


# --- determinism


def test_the_order_of_summation_is_fixed() -> None:
    """No vector instruction of the machine at hand may change a last bit."""
    for dim in (0, 1, 7, 8, 100, 1001):
        a, b = gaussian(2, dim)
        total = 0.0
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            total += x * y
        assert dot(a, b) == total


def test_memory_is_bounded_where_a_name_is_shared_by_thousands() -> None:
    matrix = sp.csr_array(np.eye(30, dtype=np.float32) + np.float32(0.1))
    row = np.minimum(np.arange(50_000) % 1000, 29).astype(np.int32)
    points = Vectors(matrix, row, np.arange(50_000, dtype=np.int32), 50_000)
    nearest(points.taken(np.arange(9)), points, 4)
    tracemalloc.start()
    found = nearest(points, points, 4, self_ids=np.arange(50_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6
    assert found.ids[29].tolist() == [30, 31, 32, 33]
    assert found.ids[49_999].tolist() == [29, 30, 31, 32]


@pytest.mark.parametrize("form", FORMS)
def test_cosines_of_very_long_vectors(form: str) -> None:
    long = vectors(gaussian(4, 2) * np.float32(1e25), form)
    assert nearest(long, long, 1).ids.ravel().tolist() == [0, 1, 2, 3]


# --- progress


def test_progress_counts_the_chunks() -> None:
    points = vectors(gaussian(300, 4), "sparse")
    seen: list[tuple[int, int]] = []

    def show(items: Iterable[Any], total: int) -> Iterator[Any]:
        for done, item in enumerate(items):
            yield item
            seen.append((done + 1, total))

    nearest(points, points, 2, progress=show)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_an_interrupted_search_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    points = vectors(gaussian(128 * 200, 4), "sparse")
    filled = []
    kernel = index_module.search_bounded
    monkeypatch.setattr(index_module, "search_bounded", lambda *lists: (filled.append(1), kernel(*lists)))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)

    def interrupt(items: Iterable[Any], total: int) -> Iterator[Any]:
        yield next(iter(items))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest(points, points, 2, progress=interrupt)
    assert len(filled) < 100


# --- wrong calls

FLAT, OTHER = Vectors.of(gaussian(4, 2)), Vectors.of(gaussian(4, 3))
SPARSE, SEVERAL = vectors(gaussian(4, 2), "sparse"), Vectors.of(gaussian(4, 2), owner=[0, 0, 1, 2])
GAP = Vectors.of(gaussian(4, 2), owner=[0, 1, 2, 3], n=5)


@pytest.mark.parametrize(
    ("queries", "corpus", "options", "words"),
    [
        (OTHER, FLAT, {}, "queries have 3 dimensions, but the corpus has 2"),
        (SPARSE, FLAT, {}, "both be dense or both be sparse"),
        (SEVERAL, FLAT, {}, "each of the 3 queries must have exactly one vector"),
        (GAP, FLAT, {}, "each of the 5 queries"),
        (FLAT, FLAT, {"metric": "l2"}, "metric='l2' is not one of cosine, dot"),
        (FLAT, Index.of(FLAT, "dot"), {}, "metric='cosine', but the index was made for 'dot'"),
    ],
)
def test_searches_that_are_refused(queries: Vectors, corpus: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        nearest(queries, corpus, **{"k": 1} | options)


def test_pairs_that_are_refused() -> None:
    with pytest.raises(ValueError, match="both be dense or both be sparse"):
        pair_dissimilarity(FLAT, SPARSE, np.array([0]), np.array([0]))
