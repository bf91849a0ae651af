"""Approximate search: what it finds has the numbers of the exact search, repeats, and is measured."""

import itertools
from typing import Any

import numpy as np
import pytest
from engine_builders import METRICS, Array, every_metric, faiss_threads, gaussian, same
from hypothesis import given, settings, strategies as st

from clustering import approximate_search, index
from clustering.comparison import measured_recall
from clustering.knn import Neighbors, nearest, pair_dissimilarity
from clustering.vectors import Metric, Vectors

pytestmark = pytest.mark.slow


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an index serve even where it does not pay."""
    monkeypatch.setattr(approximate_search, "_LEAST", 300)
    monkeypatch.setattr(approximate_search, "_SHARE", 1)


@pytest.fixture
def careless(eager: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let indexes miss a lot, so that any difference between two of them shows."""
    for name, value in {"_LINKS": 6, "_BUILD_WIDTH": 8, "_SEARCH_WIDTH": 8, "_SPARE": 0}.items():
        monkeypatch.setattr(approximate_search, name, value)


def clustered(n: int, dim: int, seed: int = 0) -> Array:
    place = np.random.default_rng(seed).integers(0, n // 10, n)
    return gaussian(n // 10, dim, seed)[place] + np.float32(0.5) * gaussian(n, dim, seed + 1)


def check(found: Neighbors, exact: Neighbors, queries: Vectors, corpus: Vectors, metric: Metric) -> None:
    """Lists are as long as the exact ones, sorted, each thing once, with the exact numbers."""
    assert found.ids.dtype == np.int32
    assert found.dissimilarity.dtype == np.float32
    np.testing.assert_array_equal(found.ids >= 0, exact.ids >= 0)
    np.testing.assert_array_equal(found.ids >= 0, np.isfinite(found.dissimilarity))
    assert (found.dissimilarity >= exact.dissimilarity).all()
    for ids, values in zip(found.ids.tolist(), found.dissimilarity.tolist(), strict=True):
        there = [(value, thing) for value, thing in zip(values, ids, strict=True) if thing >= 0]
        assert there == sorted(there)
        assert len({thing for _, thing in there}) == len(there)
    query, place = np.nonzero(found.ids >= 0)
    thing = found.ids[query, place]
    np.testing.assert_array_equal(
        pair_dissimilarity(queries, corpus, query, thing, metric=metric), found.dissimilarity[query, place]
    )


def share_found(found: Neighbors, exact: Neighbors) -> float:
    """Recall by its definition, one thing at a time."""
    hits = total = 0
    for ours, values in zip(found.dissimilarity.tolist(), exact.dissimilarity.tolist(), strict=True):
        there = [value for value in values if value != np.inf]
        total += len(there)
        hits += sum(value <= there[-1] for value in ours) if there else 0
    return hits / total if total else 1.0


# --- what is found


@every_metric
def test_nearly_all_neighbours_are_found(metric: Metric) -> None:
    points, own = Vectors.of(clustered(12_000, 24)), np.arange(12_000)
    found = nearest(points, points, 8, metric=metric, search="hnsw", self_ids=own)
    recall = measured_recall(found, points, points, metric=metric, self_ids=own)
    assert 0.95 < recall <= 1
    assert not (found.ids == own[:, None]).any()
    assert (found.ids >= 0).all()


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Small integers, so that ties, zeros and opposite vectors abound; things with no, one or many vectors."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dim, n_rows = draw(st.integers(4, 6)), draw(st.integers(330, 700))
    n_things = draw(st.sampled_from([n_rows + 5, 200, 12, 1]))
    return {
        "corpus": rng.integers(-3, 4, (n_rows, dim)),
        "owner": rng.permutation(n_rows) if n_things > n_rows else rng.integers(0, n_things, n_rows),
        "n": n_things,
        "queries": np.concatenate([rng.integers(-3, 4, (6, dim)), np.zeros((1, dim), int)]),
        "self_ids": draw(st.sampled_from([None, rng.integers(0, n_things, 7)])),
        "k": draw(st.sampled_from([1, 3, 20, n_things + 2])),
        "metric": draw(st.sampled_from(METRICS)),
    }


@pytest.mark.usefixtures("careless")
@settings(max_examples=60)
@given(problem=problems())
def test_ties_zeros_and_several_vectors_an_owner(problem: dict[str, Any]) -> None:
    corpus = Vectors.of(problem["corpus"], problem["owner"], n=problem["n"])
    queries = Vectors.of(problem["queries"])
    metric, k, own = problem["metric"], problem["k"], problem["self_ids"]
    exact = nearest(queries, corpus, k, metric=metric, self_ids=own)
    found = nearest(queries, corpus, k, metric=metric, self_ids=own, search="hnsw")
    check(found, exact, queries, corpus, metric)
    recall = measured_recall(found, queries, corpus, metric=metric, self_ids=own)
    assert recall == share_found(found, exact)


@pytest.mark.usefixtures("eager")
@every_metric
def test_a_thing_with_most_vectors_does_not_crowd_out_the_others(metric: Metric) -> None:
    """More rows than any index is asked for belong to one thing: the others are found by looking at all."""
    corpus = np.concatenate([np.float32([[1, 0.01]]) + gaussian(900, 2) / 1000, gaussian(60, 2, 1)])
    things = Vectors.of(corpus, np.concatenate([np.zeros(900, int), np.arange(60) % 7]))
    queries = Vectors.of(np.float32([[1, 0], [0, 1], [-1, 1]]))
    exact = nearest(queries, things, 6, metric=metric)
    found = nearest(queries, things, 6, metric=metric, search="hnsw")
    check(found, exact, queries, things, metric)
    same(Neighbors(found.ids[:1], found.dissimilarity[:1]), Neighbors(exact.ids[:1], exact.dissimilarity[:1]))


# --- where no index pays, the search is exact


@every_metric
@pytest.mark.parametrize(("n", "k"), [(0, 3), (1, 3), (2, 1), (50, 8), (50, 50), (50, 80), (11_000, 2000)])
def test_small_corpora_and_long_lists_are_searched_exactly(
    metric: Metric, n: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(matrix: Array) -> Any:
        raise AssertionError("an index was built")

    monkeypatch.setattr(index, "hnsw", refuse)
    points = Vectors.of(gaussian(n, 3))
    some = points.taken(np.arange(min(n, 40)))
    own = np.arange(len(some))
    exact = nearest(some, points, k, metric=metric, self_ids=own)
    same(nearest(some, points, k, metric=metric, search="hnsw", self_ids=own), exact)


# --- it repeats


@pytest.mark.usefixtures("careless")
@every_metric
def test_threads_do_not_matter(metric: Metric) -> None:
    """Left alone, several threads of faiss up to 1.15.0 build another graph every time."""
    points, own = Vectors.of(gaussian(4000, 32)), np.arange(4000)
    results = []
    for threads in (1, 2, 2, 4, 7):
        with faiss_threads(threads):
            results.append(nearest(points, points, 8, metric=metric, search="hnsw", self_ids=own))
    assert measured_recall(results[0], points, points, metric=metric, self_ids=own) < 0.9
    for other in results[1:]:
        same(other, results[0])


@pytest.mark.usefixtures("careless")
@every_metric
def test_batches_do_not_matter(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    points, own = Vectors.of(gaussian(1000, 32)), np.arange(1000)
    whole = nearest(points, points, 5, metric=metric, search="hnsw", self_ids=own)
    for begin, end in itertools.pairwise([0, 1, 3, 20, 41, 300, 577, 1000]):
        part = nearest(
            points.taken(np.arange(begin, end)), points, 5, metric=metric, search="hnsw", self_ids=own[begin:end]
        )
        same(part, Neighbors(whole.ids[begin:end], whole.dissimilarity[begin:end]))
    monkeypatch.setattr(approximate_search, "_CHUNK", 37)
    same(nearest(points, points, 5, metric=metric, search="hnsw", self_ids=own), whole)


# --- recall


def test_recall_is_that_of_a_sample_drawn_with_a_seed() -> None:
    points = Vectors.of(gaussian(500, 4))
    exact = nearest(points, points, 2)
    found = exact.dissimilarity.copy()
    found[:250] = np.inf
    broken = Neighbors(exact.ids, found)
    samples = [measured_recall(broken, points, points, sample=60, seed=seed) for seed in range(20)]
    assert samples == [measured_recall(broken, points, points, sample=60, seed=seed) for seed in range(20)]
    assert len(set(samples)) > 1
    assert np.mean(samples) == pytest.approx(0.5, abs=0.1)
    assert measured_recall(broken, points, points, sample=500) == 0.5
