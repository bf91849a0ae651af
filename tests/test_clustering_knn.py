"""The neighbour search against brute force in float64: equal to the last bit, ties included."""

from __future__ import annotations

import itertools
import os
import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_builders import FORMS, METRICS, Array, brute, faiss_threads, gaussian, same, vectors
from hypothesis import given, settings, strategies as st

from clustering import dense_search, index, knn, sparse_search
from clustering.arrays import Ids
from clustering.knn import Neighbors, nearest, pair_dissimilarity
from clustering.vectors import Metric, Vectors, dot


def nearly_equal(n: int, dim: int, seed: int = 0) -> Array:
    """Vectors that differ in the last bit of their numbers: far less than a float32 product is off."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, dim))
    base = np.abs(gaussian(1, dim, seed)) + np.float32(0.5)
    return np.where(bits == 1, np.nextafter(base, np.float32(9)), base)


# --- equal to brute force


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Few small integers, so that ties, duplicates, zeros and opposite vectors abound and sums are exact."""
    dim = draw(st.integers(1, 4))
    row = st.lists(st.integers(-2, 2), min_size=dim, max_size=dim)
    corpus = np.array(draw(st.lists(row, max_size=14)), np.float32).reshape(-1, dim)
    queries = np.array(draw(st.lists(row, max_size=5)), np.float32).reshape(-1, dim)
    n = draw(st.integers(1, 10))
    owner = np.array(draw(st.lists(st.integers(0, n - 1), min_size=len(corpus), max_size=len(corpus))), int)
    self_ids = np.array(draw(st.lists(st.integers(0, n - 1), min_size=len(queries), max_size=len(queries))), int)
    return {
        "queries": queries,
        "corpus": corpus,
        "owner": owner,
        "n": n,
        "k": draw(st.integers(0, 12)),
        "metric": draw(st.sampled_from(METRICS)),
        "self_ids": draw(st.sampled_from([None, self_ids])),
    }


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=120, deadline=None)
@given(problem=problems())
def test_several_vectors_an_owner_in_any_order(form: str, problem: dict[str, Any]) -> None:
    k, metric, self_ids = problem["k"], problem["metric"], problem["self_ids"]
    queries = vectors(problem["queries"], form)
    corpus = vectors(problem["corpus"], form, owner=problem["owner"], n=problem["n"])
    found = nearest(queries, corpus, k, metric=metric, self_ids=self_ids)
    same(found, brute(**problem))
    query, place = np.nonzero(found.ids >= 0)
    thing = found.ids[query, place]
    np.testing.assert_array_equal(
        pair_dissimilarity(queries, corpus, query, thing, metric=metric), found.dissimilarity[query, place]
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "dim", "k"), [(700, 33, 5), (300, 8, 40), (90, 100, 90), (1, 7, 3)])
def test_brute_force(form: str, metric: Metric, n: int, dim: int, k: int) -> None:
    corpus = gaussian(n, dim)
    if form == "sparse":
        corpus[gaussian(n, dim, 1) < 0.8] = 0
    owner = np.random.default_rng(2).permutation(n) // 2
    queries = corpus[::3]
    expected = brute(queries, corpus, k, metric=metric, owner=owner)
    same(nearest(vectors(queries, form), vectors(corpus, form, owner=owner), k, metric=metric), expected)


@pytest.mark.parametrize("metric", METRICS)
def test_a_thing_with_most_vectors_does_not_crowd_out_the_others(metric: Metric) -> None:
    corpus = np.concatenate([np.float32([[1, 0.01]]) + gaussian(900, 2) / 1000, gaussian(60, 2, 1)])
    owner = np.concatenate([np.zeros(900, int), np.arange(60) % 7])
    queries = np.float32([[1, 0], [0, 1], [-1, 1]])
    expected = brute(queries, corpus, 6, metric=metric, owner=owner)
    same(nearest(vectors(queries), vectors(corpus, owner=owner), 6, metric=metric), expected)


def test_things_without_a_vector_are_nobodys_neighbour() -> None:
    corpus = Vectors.of([[0.0, 1.0], [1.0, 0.0]], owner=[4, 1], n=6)
    found = nearest(Vectors.of([[1.0, 0.0]]), corpus, 3)
    assert found.ids.tolist() == [[1, 4, -1]]
    assert found.dissimilarity.tolist() == [[0.0, 1.0, np.inf]]
    pairs = pair_dissimilarity(Vectors.of([[1.0, 0.0]]), corpus, np.zeros(6, int), np.arange(6))
    assert pairs.tolist() == [np.inf, 0.0, np.inf, np.inf, 1.0, np.inf]


@pytest.mark.parametrize("metric", METRICS)
def test_dense_and_sparse_agree_to_the_last_bit(metric: Metric) -> None:
    matrix = np.concatenate([gaussian(300, 70), nearly_equal(300, 70)])
    dense, sparse = (nearest(vectors(matrix, f), vectors(matrix, f), 9, metric=metric) for f in FORMS)
    same(dense, sparse)


# --- ties and oneself


@pytest.mark.parametrize("form", FORMS)
def test_oneself_is_left_out_by_identity_and_not_by_position(form: str) -> None:
    matrix = np.float32([[1, 2], [3, 1], [1, 2], [1, 2], [3, 1]])
    points = vectors(matrix, form)
    found = nearest(points, points, 2, self_ids=np.arange(5))
    assert found.ids.tolist() == [[2, 3], [4, 0], [0, 3], [0, 2], [1, 0]]
    assert (found.dissimilarity[:, 0] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_oneself_is_far_away_under_dot(form: str) -> None:
    """With inner products a short vector is not even among its own nearest."""
    matrix = np.float32([[0.1], [1], [2], [3]])
    points = vectors(matrix, form)
    found = nearest(points, points, 2, metric="dot", self_ids=np.arange(4))
    assert found.ids.tolist() == [[3, 2], [3, 2], [3, 1], [2, 1]]


def test_a_query_outside_the_corpus_has_no_self() -> None:
    points = Vectors.of([[1.0], [2.0], [3.0]])
    found = nearest(points, points, 5, metric="dot", self_ids=np.array([-1, 1, 77]))
    assert found.ids.tolist() == [[2, 1, 0, -1, -1], [2, 0, -1, -1, -1], [2, 1, 0, -1, -1]]
    with_gaps = Vectors.of([[1.0], [2.0]], owner=[1, 3], n=6)
    found = nearest(points, with_gaps, 5, metric="dot", self_ids=np.array([-1, 3, 0]))
    assert found.ids.tolist() == [[3, 1, -1, -1, -1], [1, -1, -1, -1, -1], [3, 1, -1, -1, -1]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [1, 7, 20, 50])
def test_ties_across_the_last_place(form: str, k: int) -> None:
    """Three vectors, each many times over: the smaller ids win, wherever the list ends."""
    matrix = np.float32([[1, 0, 2], [0, 1, 0], [3, 1, 1]])[np.random.default_rng(k).integers(0, 3, 90)]
    points = vectors(matrix, form)
    for metric in METRICS:
        expected = brute(matrix, matrix, k, metric=metric, self_ids=np.arange(90))
        same(nearest(points, points, k, metric=metric, self_ids=np.arange(90)), expected)


@pytest.mark.parametrize("form", FORMS)
def test_ties_are_broken_by_id_and_not_by_row(form: str) -> None:
    matrix = np.float32([[x, 0, 3] for x in range(1, 101)] + [[x, 1, 0] for x in range(100)])
    reverse = np.arange(200)[::-1]
    corpus = vectors(matrix, form, owner=reverse)
    for query in ([0, 0, 0], [0, 0, 1], [0, 1, 0], [0, -1, 1]):
        row = np.float32([query])
        for metric in METRICS:
            expected = brute(row, matrix, 9, metric=metric, owner=reverse)
            same(nearest(vectors(row, form), corpus, 9, metric=metric), expected)


@pytest.mark.parametrize("form", FORMS)
def test_all_vectors_equal(form: str) -> None:
    points = vectors(np.full((300, 3), 0.7, np.float32), form)
    found = nearest(points, points, 3, self_ids=np.arange(300))
    assert found.ids[:4].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert (found.ids[4:] == [0, 1, 2]).all()
    assert (found.dissimilarity == 0).all()


def test_ties_of_different_vectors() -> None:
    """Distinct vectors at one exact distance, more than are fetched at first."""
    circle = np.float32([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0], [0, -1, 0], [0, 0, -1]])
    corpus = np.concatenate([np.float32([[0, y, 5]]) for y in range(200, 0, -1)] + [circle])
    for metric in METRICS:
        expected = brute(np.float32([[1, 0, 0]]), corpus, 30, metric=metric)
        same(nearest(Vectors.of(np.float32([[1, 0, 0]])), Vectors.of(corpus), 30, metric=metric), expected)


@pytest.mark.parametrize("form", FORMS)
def test_zero_vectors_are_at_dissimilarity_one_to_everything(form: str) -> None:
    matrix = np.float32([[0, 0], [1, 0], [0, 0], [0, 1]])
    points = vectors(matrix, form)
    found = nearest(points, points, 3, self_ids=np.arange(4))
    assert found.ids[0].tolist() == [1, 2, 3]
    assert (found.dissimilarity[[0, 2]] == 1).all()
    zeros = vectors(np.zeros((5, 2), np.float32), form)
    found = nearest(zeros, zeros, 2, self_ids=np.arange(5))
    assert found.ids.tolist() == [[1, 2], [0, 2], [0, 1], [0, 1], [0, 1]]
    assert (found.dissimilarity == 1).all()


def test_cosine_ignores_length() -> None:
    points = Vectors.of(gaussian(50, 20))
    scaled = Vectors.of(gaussian(50, 20) * np.float32(1e30))
    found = nearest(points, scaled, 1)
    assert found.ids[:, 0].tolist() == list(range(50))
    assert (found.dissimilarity == 0).all()


# --- near-ties: what float32 products cannot tell apart


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [3, 64, 257])
def test_near_ties(metric: Metric, dim: int) -> None:
    corpus = nearly_equal(700, dim)
    queries = gaussian(40, dim, 3)
    same(
        nearest(Vectors.of(queries), Vectors.of(corpus), 10, metric=metric),
        brute(queries, corpus, 10, metric=metric),
    )


def test_near_ties_of_things_with_several_vectors() -> None:
    corpus, queries = nearly_equal(700, 32), gaussian(20, 32, 3)
    owner = np.random.default_rng(1).integers(0, 100, 700)
    expected = brute(queries, corpus, 10, metric="dot", owner=owner, n=120)
    same(nearest(Vectors.of(queries), Vectors.of(corpus, owner, n=120), 10, metric="dot"), expected)


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


def test_one_long_vector_among_short_ones() -> None:
    """The bound on rounding grows with the longest vector; the result must not suffer."""
    corpus = gaussian(400, 16)
    corpus[123] *= 1e9
    expected = brute(corpus, corpus, 3, metric="dot")
    same(nearest(Vectors.of(corpus), Vectors.of(corpus), 3, metric="dot"), expected)


def test_all_nearly_equal_is_bounded_in_memory() -> None:
    matrix = nearly_equal(5000, 24)
    points = Vectors.of(matrix)
    nearest(points.taken(np.arange(5)), points, 8, metric="dot")
    tracemalloc.start()
    found = nearest(points, points, 8, metric="dot", self_ids=np.arange(5000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6, "5000 x 5000 scores would be 100 MB"
    some = np.arange(0, 5000, 250)
    expected = brute(matrix[some], matrix, 8, metric="dot", self_ids=some)
    same(Neighbors(found.ids[some], found.dissimilarity[some]), expected)


# --- determinism


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_slices_give_the_same_rows(form: str, metric: Metric) -> None:
    matrix = np.concatenate([gaussian(300, 40), nearly_equal(300, 40), gaussian(50, 40)])
    points = vectors(matrix, form)
    whole = nearest(points, points, 6, metric=metric, self_ids=np.arange(650))
    bounds = [0, 1, 3, 20, 41, 300, 577, 650]
    for begin, end in itertools.pairwise(bounds):
        part = nearest(points.taken(np.arange(begin, end)), points, 6, metric=metric, self_ids=np.arange(begin, end))
        same(part, Neighbors(whole.ids[begin:end], whole.dissimilarity[begin:end]))


@pytest.mark.parametrize("self_ids", [None, np.arange(30)])
def test_lists_are_cut_in_slices(self_ids: Ids | None, monkeypatch: pytest.MonkeyPatch) -> None:
    points = Vectors.of(gaussian(30, 5)[np.arange(30) % 20])
    how = {"self_ids": self_ids, "within": np.linspace(0, 2, 30, dtype=np.float32)}
    whole = nearest(points, points, 6, **how)
    monkeypatch.setattr(knn, "_ROWS", 7)
    same(nearest(points, points, 6, **how), whole)


@pytest.mark.parametrize("metric", METRICS)
def test_threads_and_chunks_do_not_matter(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = np.concatenate([gaussian(1500, 48), nearly_equal(500, 48)])
    points = Vectors.of(matrix)
    results = []
    for threads, chunk, block in ((1, 4096, 1024), (2, 4096, 1024), (2, 37, 100), (1, 300, 7)):
        monkeypatch.setattr(dense_search, "_CHUNK", chunk)
        monkeypatch.setattr(dense_search, "_BLOCK", block)
        with faiss_threads(threads):
            results.append(nearest(points, points, 7, metric=metric, self_ids=np.arange(2000)))
    for other in results[1:]:
        same(other, results[0])


def test_workers_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = gaussian(1000, 30)
    matrix[gaussian(1000, 30, 1) < 0.5] = 0
    points = vectors(matrix, "sparse")
    results = []
    for workers in (1, 2, 5, None):
        monkeypatch.setattr(os, "cpu_count", lambda workers=workers: workers)
        results.append(nearest(points, points, 7, self_ids=np.arange(1000)))
    for other in results[1:]:
        same(other, results[0])


def test_the_order_of_summation_is_fixed() -> None:
    """No vector instruction of the machine at hand may change a last bit."""
    for dim in (0, 1, 7, 8, 100, 1001):
        a, b = gaussian(2, dim)
        total = 0.0
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            total += x * y
        assert dot(a, b) == total


def test_things_that_share_a_vector_share_its_search(monkeypatch: pytest.MonkeyPatch) -> None:
    distinct = gaussian(40, 8)
    row = np.random.default_rng(0).integers(0, 40, 20_000)
    points = Vectors.of(distinct[row])
    assert points.matrix.shape[0] == 40
    searched = []
    prepare = index.dense_search

    def counting(*arguments: Any) -> Any:
        search = prepare(*arguments)
        return search._replace(fill=lambda v, *lists: (searched.append(len(v)), search.fill(v, *lists)))

    monkeypatch.setattr(index, "dense_search", counting)
    found = nearest(points, points, 5, self_ids=np.arange(20_000))
    assert sum(searched) == 40
    some = np.arange(0, 20_000, 500)
    expected = brute(distinct[row[some]], distinct[row], 5, self_ids=some)
    same(Neighbors(found.ids[some], found.dissimilarity[some]), expected)


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


# --- sizes at the edge


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_empty_sides(form: str, metric: Metric) -> None:
    none, some = vectors(np.empty((0, 3), np.float32), form), vectors(gaussian(4, 3), form)
    for queries, corpus, k in (
        (none, some, 2),
        (some, none, 2),
        (none, none, 2),
        (some, some, 0),
        (none, none, 0),
    ):
        for self_ids in (None, np.arange(queries.n)):
            found = nearest(queries, corpus, k, metric=metric, self_ids=self_ids)
            assert found.ids.shape == found.dissimilarity.shape == (queries.n, k)
            assert (found.ids == -1).all()
            assert np.isinf(found.dissimilarity).all()
    assert pair_dissimilarity(none, some, np.empty(0, int), np.empty(0, int)).shape == (0,)


@pytest.mark.parametrize("form", FORMS)
def test_one_vector_has_no_neighbour_but_itself(form: str) -> None:
    one = vectors(np.float32([[3, 4]]), form)
    assert nearest(one, one, 2).ids.tolist() == [[0, -1]]
    alone = nearest(one, one, 2, self_ids=np.zeros(1, int))
    assert alone.ids.tolist() == [[-1, -1]]
    assert np.isinf(alone.dissimilarity).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [9, 10, 11, 1000])
def test_more_neighbours_than_there_are(form: str, k: int) -> None:
    matrix = gaussian(10, 4)
    points = vectors(matrix, form)
    found = nearest(points, points, k, self_ids=np.arange(10))
    same(found, brute(matrix, matrix, k, self_ids=np.arange(10)))
    same(found.first(3), nearest(points, points, 3, self_ids=np.arange(10)))


@pytest.mark.parametrize("form", FORMS)
def test_no_dimensions(form: str) -> None:
    points = vectors(np.empty((3, 0), np.float32), form)
    found = nearest(points, points, 2, self_ids=np.arange(3))
    assert found.ids.tolist() == [[1, 2], [0, 2], [0, 1]]
    assert (found.dissimilarity == 1).all()


# --- wrong calls


def test_wrong_calls() -> None:
    two, three = Vectors.of(gaussian(4, 2)), Vectors.of(gaussian(4, 3))
    sparse = vectors(gaussian(4, 2), "sparse")
    several = Vectors.of(gaussian(4, 2), owner=[0, 0, 1, 2])
    gap = Vectors.of(gaussian(4, 2), owner=[0, 1, 2, 3], n=5)
    with pytest.raises(ValueError, match="queries have 3 dimensions, but the corpus has 2"):
        nearest(three, two, 1)
    with pytest.raises(ValueError, match="both be dense or both be sparse"):
        nearest(sparse, two, 1)
    with pytest.raises(ValueError, match="both be dense or both be sparse"):
        pair_dissimilarity(two, sparse, np.array([0]), np.array([0]))
    with pytest.raises(ValueError, match="each of the 3 queries must have exactly one vector"):
        nearest(several, two, 1)
    with pytest.raises(ValueError, match="each of the 5 queries"):
        nearest(gap, two, 1)
    with pytest.raises(ValueError, match="k=-1"):
        nearest(two, two, -1)
    with pytest.raises(ValueError, match="metric='l2'"):
        nearest(two, two, 1, metric="l2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"self_ids has shape \(1,\); give one id for each of the 4 queries"):
        nearest(two, two, 1, self_ids=np.zeros(1, int))
    with pytest.raises(ValueError, match=r"query must lie in 0 \.\. 3, not -1 \.\. 0"):
        pair_dissimilarity(two, two, np.array([0, -1]), np.array([0, 0]))
    with pytest.raises(ValueError, match=r"thing must lie in 0 \.\. 3, not 4 \.\. 4"):
        pair_dissimilarity(two, two, np.array([0]), np.array([4]))
    with pytest.raises(ValueError, match="lists of the same length"):
        pair_dissimilarity(two, two, np.array([0]), np.array([0, 1]))


@pytest.mark.parametrize("form", FORMS)
def test_inner_products_beyond_float32(form: str) -> None:
    long = vectors(gaussian(4, 2) * np.float32(1e25), form)
    with pytest.raises(ValueError, match="too large for float32; scale the vectors down"):
        nearest(long, long, 1, metric="dot")
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
    kernel = sparse_search._search
    monkeypatch.setattr(sparse_search, "_search", lambda *lists: (filled.append(1), kernel(*lists)))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)

    def interrupt(items: Iterable[Any], total: int) -> Iterator[Any]:
        yield next(iter(items))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest(points, points, 2, progress=interrupt)
    assert len(filled) < 100
