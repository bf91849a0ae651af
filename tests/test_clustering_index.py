"""Indexes and limits: the same numbers as searches without them, to the last bit."""

from pathlib import Path

import numpy as np
import pytest
from engine_builders import FORMS, METRICS, Array, brute, gaussian, same, vectors

from clustering import index as index_module
from clustering.index import Index
from clustering.knn import Neighbors, nearest, pair_dissimilarity
from clustering.vectors import Metric


def filtered(found: Neighbors, within: Array) -> Neighbors:
    """Leave out what lies beyond the limits, whose lists are sorted."""
    beyond = found.dissimilarity > np.float32(within)[:, None]
    return Neighbors(
        np.where(beyond, np.int32(-1), found.ids), np.where(beyond, np.float32(np.inf), found.dissimilarity)
    )


def names(n: int, seed: int = 0) -> Array:
    """Vectors like those of names: few positive values, in frequent and in rare dimensions, with repetitions."""
    rng = np.random.default_rng(seed)
    matrix = np.zeros((n, 60), np.float32)
    for row in matrix:
        row[(60 * rng.random(6) ** 3).astype(int)] = rng.integers(1, 4, 6)
    return matrix


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [1, 4, 40])
def test_limits_among_many(form: str, metric: Metric, k: int) -> None:
    """Enough rows for bounds, owners with several, and more neighbours than a first list has places."""
    matrix, owner, own = names(3000), np.random.default_rng(1).permutation(3000) // 2, np.arange(100)
    points = Index.of(vectors(matrix, form, owner=owner), metric)
    queries = vectors(matrix[:100], form)
    expected = brute(matrix[:100], matrix, 1500, metric=metric, owner=owner, self_ids=own)
    quantiles = np.quantile(expected.dissimilarity[np.isfinite(expected.dissimilarity)], [0, 0.001, 0.01, 0.1])
    for within in quantiles:
        limit = np.full(100, within, np.float32)
        found = nearest(queries, points, k, metric=metric, self_ids=own, within=float(within))
        same(found, filtered(expected.first(k), limit))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("form", FORMS)
def test_an_index_serves_again_and_from_files(form: str, metric: Metric, tmp_path: Path) -> None:
    matrix, owner = names(1500), np.random.default_rng(1).permutation(1500) // 2
    corpus, queries = vectors(matrix, form, owner=owner, n=760), vectors(names(50, 1), form)
    made = Index.of(corpus, metric)
    for name, array in made.arrays().items():
        assert not array.dtype.hasobject
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {path.stem: np.load(path, mmap_mode="r") for path in tmp_path.glob("*.npy")}
    opened = Index.from_arrays(mapped, metric)
    assert np.shares_memory(opened.owners.by_row, mapped["owners.3"])
    for k in (1, 2, 30):
        expected = nearest(queries, corpus, k, metric=metric)
        for one in (made, opened, made, opened.taken(np.arange(760))):
            same(nearest(queries, one, k, metric=metric), expected)
    query, thing = np.repeat(np.arange(50), 4), np.arange(200) * 3
    pairs = [pair_dissimilarity(queries, one, query, thing, metric=metric) for one in (corpus, made, opened)]
    for other in pairs[1:]:
        np.testing.assert_array_equal(other, pairs[0])


@pytest.mark.parametrize("within", [None, 0.9])
def test_long_queries(within: float | None) -> None:
    """Sentences have more features than the bounds are made for."""
    matrix = (gaussian(3000, 300) > 1).astype(np.float32)
    queries = (gaussian(5, 300, 1) > -0.5).astype(np.float32)
    assert (queries.sum(axis=1) > 150).all()
    limit = np.full(5, np.inf if within is None else within, np.float32)
    found = nearest(vectors(queries, "sparse"), vectors(matrix, "sparse"), 2, within=within)
    same(found, filtered(brute(queries, matrix, 2), limit))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [1, 5, 60])
def test_many_queries_within_small_limits(form: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits at which something lies, just below it, one for each query, and none; queries with negative values too."""
    made: list[float] = []
    of = index_module.Prefixes.of
    monkeypatch.setattr(index_module.Prefixes, "of", lambda *given: made.append(given[-1]) or of(*given))
    matrix, owner = names(3000, 3), np.random.default_rng(4).permutation(3000) // 2
    points = vectors(matrix, form, owner=owner)
    asked = matrix[:1600].copy()
    asked[::9] *= np.float32([1, -1, 1]).repeat(20)
    own = owner[:1600]
    everything = brute(asked, matrix, 1500, owner=owner, self_ids=own)
    some = np.unique(everything.dissimilarity[everything.dissimilarity <= 0.375])
    limits = [some[0], *some[[len(some) // 3, len(some) // 2]], some[-1]]
    random = np.random.default_rng(5).choice(some, 1600)
    random[:20] = -np.inf
    for within in (*limits, *(np.nextafter(limit, np.float32(-1)) for limit in limits), random, 0.375, 0.38):
        found = nearest(vectors(asked, form), points, k, self_ids=own, within=within)
        same(found, filtered(everything.first(k), np.broadcast_to(np.float32(within), 1600)))
    assert len(made) == (10 if form == "sparse" else 0)
