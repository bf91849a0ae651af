"""The neighbour search, indexes and growth against brute force in float64: equal to the last bit, ties included."""

import os
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_builders import FORMS, METRICS, Array, brute, gaussian, same, vectors
from hypothesis import given, settings, strategies as st

from clustering import index as index_module
from clustering.growth import updated
from clustering.index import Index
from clustering.knn import Neighbors, nearest, pair_dissimilarity
from clustering.vectors import Metric, Vectors, dot, unit


def nearly_equal(n: int, dim: int, seed: int = 0) -> Array:
    """Vectors that differ in the last bit of their numbers: far less than a float32 product is off."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, dim))
    base = np.abs(gaussian(1, dim, seed)) + np.float32(0.5)
    return np.where(bits == 1, np.nextafter(base, np.float32(9)), base)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [3, 64, 257])
def test_near_ties(metric: Metric, dim: int) -> None:
    corpus = nearly_equal(700, dim)
    queries = gaussian(40, dim, 3)
    same(nearest(Vectors.of(queries), Vectors.of(corpus), 10, metric=metric), brute(queries, corpus, 10, metric=metric))


def test_near_directions_are_at_zero_and_sums_have_one_order() -> None:
    """Directions within rounding of the query's are at zero, and so ordered by id, even those faiss leaves out."""
    angle = np.sqrt(2 * np.linspace(0, 1.2e-6, 19))
    corpus = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    reverse, query = np.arange(19)[::-1], np.float32([[1, 0]])
    found = nearest(Vectors.of(query), Vectors.of(corpus, owner=reverse), 2)
    same(found, brute(query, corpus, 2, owner=reverse))
    assert found.dissimilarity.tolist() == [[0, 0]]
    """No vector instruction of the machine at hand may change a last bit."""
    for dim in (0, 1, 7, 8, 100, 1001):
        a, b = gaussian(2, dim)
        total = 0.0
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            total += x * y
        assert dot(a, b) == total


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-15, 1e15])
def test_products_too_small_for_float32(scale: float) -> None:
    corpus = gaussian(200, 5) * np.float32(scale)
    expected = brute(corpus, corpus, 4, metric="dot")
    same(nearest(Vectors.of(corpus), Vectors.of(corpus), 4, metric="dot"), expected)


def test_memory_is_bounded_where_vectors_are_nearly_equal_or_shared_by_thousands() -> None:
    """All 3000 x 3000 scores of the first would be 36 MB."""
    near, row = nearly_equal(3000, 24), np.minimum(np.arange(50_000) % 1000, 29).astype(np.int32)
    matrix = sp.csr_array(np.eye(30, dtype=np.float32) + np.float32(0.1))
    shared = Vectors(matrix, row, np.arange(50_000, dtype=np.int32), 50_000)
    for points, k, metric, most in ((Vectors.of(near), 8, METRICS[1], 14e6), (shared, 4, METRICS[0], 20e6)):
        nearest(points.taken(np.arange(9)), points, k, metric=metric)
        tracemalloc.start()
        found = nearest(points, points, k, metric=metric, self_ids=np.arange(points.n))
        assert tracemalloc.get_traced_memory()[1] < most
        tracemalloc.stop()
        if points is shared:
            assert found.ids[[29, 49_999]].tolist() == [[30, 31, 32, 33], [29, 30, 31, 32]]
        else:
            some = np.arange(0, 3000, 150)
            expected = brute(near[some], near, k, metric=metric, self_ids=some)
            same(Neighbors(found.ids[some], found.dissimilarity[some]), expected)


@pytest.mark.parametrize("form", FORMS)
def test_cosines_of_very_long_vectors(form: str) -> None:
    long = vectors(gaussian(4, 2) * np.float32(1e25), form)
    assert nearest(long, long, 1).ids.ravel().tolist() == [0, 1, 2, 3]


def test_progress_counts_the_chunks_and_an_interrupt_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    points = vectors(gaussian(300, 4), "sparse")
    seen: list[tuple[int, int]] = []

    def show(items: Iterable[Any], total: int) -> Iterator[Any]:
        for done, item in enumerate(items):
            yield item
            seen.append((done + 1, total))

    nearest(points, points, 2, progress=show)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    points, filled, kernel = vectors(gaussian(128 * 200, 4), "sparse"), [], index_module.search_bounded
    monkeypatch.setattr(index_module, "search_bounded", lambda *lists: (filled.append(1), kernel(*lists)))
    monkeypatch.setattr(os, "cpu_count", lambda: 1)

    def interrupt(items: Iterable[Any], total: int) -> Iterator[Any]:
        yield next(iter(items))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest(points, points, 2, progress=interrupt)
    assert len(filled) < 100


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


def test_pairs_of_two_forms_are_refused() -> None:
    with pytest.raises(ValueError, match="both be dense or both be sparse"):
        pair_dissimilarity(FLAT, SPARSE, np.array([0]), np.array([0]))


def filtered(found: Neighbors, within: Array) -> Neighbors:
    """Leave out what lies beyond the limits, whose lists are sorted."""
    beyond = found.dissimilarity > np.float32(within)[:, None]
    kept = np.where(beyond, np.float32(np.inf), found.dissimilarity)
    return Neighbors(np.where(beyond, np.int32(-1), found.ids), kept)


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
    for within in np.quantile(expected.dissimilarity[np.isfinite(expected.dissimilarity)], [0, 0.001, 0.01, 0.1]):
        found = nearest(queries, points, k, metric=metric, self_ids=own, within=float(within))
        same(found, filtered(expected.first(k), np.full(100, within, np.float32)))


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
    ends = np.repeat(np.arange(50), 4), np.arange(200) * 3
    pairs = [pair_dissimilarity(queries, one, *ends, metric=metric).tolist() for one in (corpus, made, opened)]
    assert pairs[0] == pairs[1] == pairs[2]


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
@pytest.mark.parametrize(("k", "short"), [(1, 0), (5, 0), (60, 99)])
def test_many_queries_within_small_limits(form: str, k: int, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits at which something lies, just below it, one for each query, and none; queries with negative values too."""
    made: list[float] = []
    of, _ = index_module.Prefixes.of, monkeypatch.setattr(index_module, "MOST_FEATURES", short)
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
    for within in (*limits, *(np.nextafter(limit, np.float32(-1)) for limit in limits), random, 0.375, 0.38, 2.0):
        found = nearest(vectors(asked, form), points, k, self_ids=own, within=within)
        same(found, filtered(everything.first(k), np.broadcast_to(np.float32(within), 1600)))
    assert len(made) == (0 if form == "dense" else 12 if short else 10)


every_form = pytest.mark.parametrize("form", FORMS)


def rows(kind: str, n: int, rng: np.random.Generator) -> Array:
    """Draw vectors: many ties and zero vectors, few distinct ones, or none alike."""
    if kind == "ties":
        return rng.integers(0, 3, (n, 3)).astype(np.float32)
    if kind == "duplicates":
        return rng.normal(size=(4, 6)).astype(np.float32)[rng.integers(0, 4, n)]
    return rng.normal(size=(n, 6)).astype(np.float32)


def rows_of(before: Array, after: Array) -> Array:
    """Return the row of each thing that is there after among those before, or -1."""
    return np.where(before, np.cumsum(before) - 1, -1)[after]


@every_form
def test_many_new_things_are_searched_as_from_scratch(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    things, row = vectors(gaussian(300, 4), form), np.where(np.arange(300) % 3 == 0, -1, 0)
    row[row == 0] = np.arange(200)
    old = things.taken(np.flatnonzero(row >= 0))
    lists = nearest(old, old, 4, self_ids=np.arange(200))
    joined = updated(lists, things, row)
    monkeypatch.setitem(updated.__globals__, "FEW", 0)
    monkeypatch.setitem(updated.__globals__, "_join", lambda *_: pytest.fail("too many to join"))
    same(joined, updated(lists, things, row))


@every_form
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["ties", "duplicates", "gaussian"]), st.sampled_from([0.0, 0.2, 0.7]))
def test_things_far_from_all_that_is_searched_need_no_vector(form: str, seed: int, kind: str, within: float) -> None:
    rng, n, k = np.random.default_rng(seed), 24, 3
    every = vectors(rows(kind, n, rng), form)
    before, after = rng.random((2, n)) < 0.8
    own, things = every.taken(np.flatnonzero(before)), every.taken(np.flatnonzero(after))
    lists = nearest(own, own, k, self_ids=np.arange(own.n), within=within)
    row = rows_of(before, after)
    is_gone = np.append(~np.isin(np.arange(own.n), row), False)
    sought = np.flatnonzero((row < 0) | (lists.ids[row, -1] >= 0) & is_gone[lists.ids[row]].any(axis=1))
    near = np.isin(np.arange(things.n), sought)
    near[nearest(things.taken(sought), things, things.n, within=within).ids] = True  # -1 is the last thing
    some = np.flatnonzero(near[things.owner])
    fewer = Vectors(things.matrix, things.row[some], things.owner[some], things.n)
    same(updated(lists, fewer, row, within=within), updated(lists, things, row, within=within))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_given_is_neither_changed_nor_kept(form: str) -> None:
    given: Any = gaussian(20, 6)
    before = given.copy()
    if form == "sparse":
        # The same values: places out of order, one of them in two parts, and stored zeros.
        columns = np.tile(np.append(np.arange(6)[::-1], 0), 20)
        values = np.hstack([given[:, ::-1], np.zeros((20, 1), np.float32)]).ravel()
        given = sp.csr_array((values, columns, np.arange(0, 141, 7)), (20, 6))
    points = Vectors.of(given)
    first = nearest(points, points, 3)
    same(first, brute(before, before, 3))
    if form == "sparse":
        assert (given.nnz, given.indices[:7].tolist()) == (140, [5, 4, 3, 2, 1, 0, 0])
        given.data[:] = 0
    else:
        np.testing.assert_array_equal(given, before)
        given[:] = 0
    same(nearest(points, points, 3), first)


def test_equal_rows_are_stored_once_and_scaled() -> None:
    row = np.random.default_rng(0).integers(0, 200, 3000)
    matrix = gaussian(200, 5)
    points = Vectors.of(matrix[row])
    assert points.matrix.shape[0] == len(np.unique(row))
    np.testing.assert_array_equal(points.matrix[points.row], matrix[row])
    np.testing.assert_array_equal(np.unique(points.row, return_index=True)[1], np.sort(np.unique(row, True)[1]))
    assert Vectors.of(np.float16([[65_504.0]])).matrix.tolist() == [[65_504.0]]
    points = Vectors.of([[3.0, 4.0], [0.0, 0.0], [1e-45, 0.0], [3e38, 3e38]])
    half = np.float32(np.sqrt(0.5))
    expected = np.array([[0.6, 0.8], [0, 0], [1, 0], [half, half]], np.float32)
    np.testing.assert_array_equal(unit(points.matrix), expected)
    sparse = Vectors.of(sp.csr_array(points.matrix))
    np.testing.assert_array_equal(unit(sparse.matrix).toarray(), expected)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        raise AssertionError("pickled")

    def __float__(self) -> float:
        raise AssertionError("converted")


def with_bad(bad: float) -> np.ndarray:
    matrix = gaussian(30, 3)
    matrix[[4, 17], [0, 2]] = bad
    matrix[17, 1] = np.nan
    return matrix


def broken() -> sp.csr_array:
    """A matrix with an index out of range, which must not reach the kernels."""
    matrix = sp.csr_array((np.ones(3, np.float32), np.array([0, 1, 2]), np.array([0, 2, 3])), (2, 3))
    matrix.indices[1] = 999_999
    return matrix


TWO, MATRIX = [[1.0], [2.0]], "vectors must be a"
FEW = r"in 2 row\(s\): 4, 17 \(from 0\)$"
MANY = r"in 20 row\(s\): 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\. \(from 0\)$"


@pytest.mark.parametrize(
    ("given", "owners", "words"),
    [
        *((form(with_bad(bad)), {}, FEW) for bad in (np.nan, np.inf, -np.inf) for form in (np.array, sp.csr_array)),
        *((form(np.full((20, 2), np.nan)), {}, MANY) for form in (np.array, sp.csr_array)),
        (np.float16([[1.0], [65_504.0], [np.inf]]), {}, r"row\(s\): 2 \(from 0\)$"),
        *((np.array(bad, object), {}, MATRIX) for bad in ([[Bomb()]], [[1.0, None]])),
        *((bad, {}, MATRIX) for bad in (np.array([[1j]]), np.zeros(3), np.float32(1), [])),
        *((sp.csr_array(np.array([[bad]])), {}, MATRIX) for bad in (1j, True)),
        (broken(), {}, "indices|index values"),
        (TWO, {"owner": [0]}, r"owner has shape \(1,\); give one owner for each of the 2 vectors"),
        (TWO, {"owner": [0, 3], "n": 3}, r"0 \.\. 2, not 0 \.\. 3"),
        (TWO, {"owner": [0.0, 1.5]}, "integers, not float64"),
    ],
)
def test_vectors_that_are_refused(given: Any, owners: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Vectors.of(given, **owners)
