"""Late interaction: scores against brute force in float64, two stages against all pairs."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_builders import Array, drawn, every_pair, same, token_matrices, tokens_of
from hypothesis import given, strategies as st

from clustering import comparison, late_interaction
from clustering.knn import Neighbors, nearest
from clustering.late_interaction import TokenMatrices, _scores as sum_of_max, late_dissimilarity, late_nearest
from clustering.vectors import Metric, Vectors


def brute(queries: TokenMatrices, corpus: TokenMatrices) -> Array:
    """All scores in float64, from the definition; (queries, things)."""
    found = np.full((queries.n, corpus.n), -np.inf)
    for q in range(queries.n):
        a = tokens_of(queries, queries.row[q])
        for text, thing in zip(corpus.row, corpus.owner, strict=True):
            b = tokens_of(corpus, text)
            score = sum(max(float(x @ y) for y in b) for x in a) if len(b) else 0.0
            found[q, thing] = max(found[q, thing], score)
    return found


# Scores


@given(
    seed=st.integers(0, 2**32), n=st.integers(1, 9), dim=st.integers(1, 9), ties=st.booleans(), several=st.booleans()
)
def test_scores_are_those_of_the_definition(seed: int, n: int, dim: int, ties: bool, several: bool) -> None:
    rng = np.random.default_rng(seed)
    queries = drawn(rng, 5, dim, ties=ties)
    corpus = drawn(rng, n, dim, ties=ties, n=4 if several else None)
    query, thing = every_pair(queries, corpus)
    found = sum_of_max(queries, corpus, query, thing)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, brute(queries, corpus)[query, thing], rtol=1e-6, atol=1e-6)
    order = rng.permutation(len(query))
    assert sum_of_max(queries, corpus, query[order], thing[order]).tobytes() == found[order].tobytes()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("share", [1, 7, 10**6])
def test_threads_and_batches_do_not_show(threads: int, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queries, corpus = drawn(rng, 6, 33), drawn(rng, 20, 33)
    query, thing = every_pair(queries, corpus)
    expected = sum_of_max(queries, corpus, query, thing)
    monkeypatch.setattr(os, "cpu_count", lambda: threads)
    monkeypatch.setattr(late_interaction, "_SHARE", share)
    assert sum_of_max(queries, corpus, query, thing).tobytes() == expected.tobytes()
    for i in range(0, len(query), 11):
        assert sum_of_max(queries, corpus, query[i : i + 1], thing[i : i + 1])[0] == expected[i]


# Search


def test_pooled_vectors_are_means_and_their_product_the_mean_of_products() -> None:
    rng = np.random.default_rng(1)
    queries, corpus = drawn(rng, 6, 5), drawn(rng, 9, 5, n=7)
    pooled = corpus.pooled()
    assert pooled.owner.tolist() == corpus.owner.tolist()
    for place, text in enumerate(corpus.row):
        tokens = tokens_of(corpus, text)
        mean = tokens.mean(axis=0) if len(tokens) else np.zeros(5)
        np.testing.assert_allclose(pooled.matrix[pooled.row[place]], mean, atol=1e-6)
    assert len(queries.pooled()) == 6


def expected_nearest(
    queries: TokenMatrices, corpus: TokenMatrices, k: int, own: Array | None = None, metric: Metric = "cosine"
) -> Neighbors:
    """Sort all dissimilarities: the mean of the maxima, taken from what it is at most."""
    if metric == "cosine":
        queries, corpus = queries.normalized(), corpus.normalized()
    score = sum_of_max(queries, corpus, *every_pair(queries, corpus)).reshape(queries.n, corpus.n)
    n_tokens = np.diff(queries.indptr)[queries.row]
    far = (np.float64(metric == "cosine") - score / np.maximum(1, n_tokens)[:, None]).astype(np.float32)
    if metric == "cosine":
        far[np.abs(far) < 1e-6] = 0
    if own is not None:
        far[np.arange(queries.n)[own >= 0], own[own >= 0]] = np.inf
    ids = np.argsort(far, axis=1, kind="stable")[:, :k]
    dissimilarity = np.take_along_axis(far, ids, axis=1)
    ids[np.isinf(dissimilarity)] = -1
    missing = ((0, 0), (0, k - ids.shape[1]))
    return Neighbors(np.pad(ids, missing, constant_values=-1), np.pad(dissimilarity, missing, constant_values=np.inf))


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(0, 12),
    k=st.integers(0, 14),
    ties=st.booleans(),
    pairs=st.sampled_from([1, 20, 1 << 16]),
    metric=st.sampled_from(["cosine", "dot"]),
)
@pytest.mark.slow
def test_two_stages_with_all_things_as_candidates_are_exact(
    seed: int, n: int, k: int, ties: bool, pairs: int, metric: Metric
) -> None:
    rng = np.random.default_rng(seed)
    queries, corpus = drawn(rng, 5, 3, ties=ties), drawn(rng, n, 3, ties=ties, n=max(1, n - 2))
    corpus = replace(corpus, n=corpus.n + 1)  # one without a text, which no first stage proposes
    expected = expected_nearest(queries, corpus, k, metric=metric)
    own = rng.integers(-1, corpus.n, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late_interaction, "_PAIRS", pairs)
        same(late_nearest(queries, corpus, k, n_candidates=None, metric=metric), expected)
        same(late_nearest(queries, corpus, k, n_candidates=max(k, corpus.n - 1), metric=metric), expected)
        without = expected_nearest(queries, corpus, k, own, metric)
        same(late_nearest(queries, corpus, k, n_candidates=None, metric=metric, self_ids=own), without)
        n_candidates = max(k, corpus.n - 1)
        same(late_nearest(queries, corpus, k, n_candidates=n_candidates, metric=metric, self_ids=own), without)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_two_stages_rank_the_candidates_of_the_first(metric: Metric) -> None:
    rng = np.random.default_rng(2)
    queries, corpus = drawn(rng, 8, 6), drawn(rng, 60, 6)
    found = late_nearest(queries, corpus, 3, n_candidates=10, metric=metric)
    exact = late_nearest(queries, corpus, 3, n_candidates=None, metric=metric)
    assert comparison.measured_recall(exact, queries, corpus, metric=metric) == 1
    recall_told = comparison.measured_recall(found, queries, corpus, metric=metric)
    if metric == "cosine":
        queries, corpus = queries.normalized(), corpus.normalized()
    first = nearest(queries.pooled(), corpus.pooled(), 10, metric=metric).ids
    for q in range(queries.n):
        scores = sum_of_max(queries, corpus, np.full(10, q), first[q])
        ranked = sorted(zip(-scores, first[q], strict=True))[:3]
        assert found.ids[q].tolist() == [thing for _, thing in ranked]
    recall = np.mean([len(set(a) & set(b)) / 3 for a, b in zip(found.ids, exact.ids, strict=True)])
    has_tokens = np.diff(queries.indptr) > 0
    assert has_tokens.any()
    assert recall < 1
    lists = zip(found.ids, exact.ids, has_tokens, strict=True)
    assert recall_told == pytest.approx(np.mean([len({*a} & {*b}) / 3 if some else 1 for a, b, some in lists]))


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_texts_of_one_token_are_like_vectors(metric: Metric) -> None:
    """Of any length: for cosine it does not count. But for float32, to which scores are rounded first."""
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(20, 3)) * rng.uniform(0.1, 9, (20, 1))
    matrix[7] = 0
    tokens, vectors = token_matrices(matrix, np.arange(21)), Vectors.of(matrix)
    own, query, thing = np.arange(20), np.array([3, 3, 7, 0]), np.array([3, 9, 1, 19])
    expected = comparison.nearest(vectors, vectors, 4, metric=metric, self_ids=own)
    for n_candidates in (None, 19):
        found = late_nearest(tokens, tokens, 4, n_candidates=n_candidates, metric=metric, self_ids=own)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_allclose(found.dissimilarity, expected.dissimilarity, rtol=1e-6, atol=1e-7)
    recall = [
        comparison.measured_recall(of, things, things, metric=metric)
        for of, things in ((found, tokens), (expected, vectors))
    ]
    assert recall[0] == recall[1] < 1  # most are nearest to themselves, which were left out
    pairs = [comparison.pair_dissimilarity(things, things, query, thing, metric=metric) for things in (tokens, vectors)]
    np.testing.assert_allclose(*pairs, rtol=1e-6, atol=1e-7)
    few = late_nearest(tokens, tokens, 1, n_candidates=2, metric=metric)
    np.testing.assert_array_equal(few.ids, comparison.nearest(vectors, vectors, 1, metric=metric).ids)


@pytest.mark.parametrize("n_candidates", [None, 3])
def test_queries_that_share_a_text_are_scored_once(monkeypatch: pytest.MonkeyPatch, n_candidates: int | None) -> None:
    rng = np.random.default_rng(6)
    texts, corpus = drawn(rng, 4, 3), drawn(rng, 9, 3)
    row = rng.integers(4, size=50).astype(np.int32)
    queries = replace(texts, row=row, owner=np.arange(50, dtype=np.int32), n=50)
    own = rng.integers(-1, 9, 50)
    scored: list[int] = []
    score = late_interaction._scores
    monkeypatch.setattr(late_interaction, "_scores", lambda *pairs: (scored.append(len(pairs[2])), score(*pairs))[1])
    found = late_nearest(queries, corpus, 2, n_candidates=n_candidates, self_ids=own)
    assert sum(scored) == 4 * (4 if n_candidates else 9)
    for one in range(50):
        alone = late_nearest(queries.taken(np.array([one])), corpus, 2, n_candidates=n_candidates, self_ids=own[[one]])
        same(Neighbors(found.ids[[one]], found.dissimilarity[[one]]), alone)


# Errors


ONE, FLAT, LARGE = (token_matrices(matrix, [0, len(matrix)]) for matrix in ([[1.0, 2.0]], [[1.0]], [[1e19]] * 4))
TWICE = token_matrices([[1.0]], [0, 1, 1], [0, 0])
NO_LISTS = Neighbors(np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: late_dissimilarity(ONE, FLAT, [0], [0]), "queries have 2 dimensions, but the corpus has 1"),
        (lambda: late_dissimilarity(TWICE, FLAT, [0], [0]), "each of the 1 queries must have exactly one text"),
        (lambda: late_dissimilarity(ONE, ONE, [0], [1]), r"thing must lie in 0 \.\. 0, not 1"),
        (lambda: late_dissimilarity(ONE, ONE, [0.0], [0]), "query must be integers, not float64"),
        (
            lambda: late_dissimilarity(ONE, ONE, [0], [0, 0]),
            r"query has shape \(1,\) and thing has shape \(2,\); give two",
        ),
        (
            lambda: late_dissimilarity(LARGE, LARGE, [0], [0], metric="dot"),
            r"scores may reach 4e\+38, too large for float32",
        ),
        (lambda: late_nearest(ONE, ONE, 1, n_candidates=1, metric="l2"), "metric='l2' is not one of"),
        (lambda: late_nearest(ONE, ONE, -1, n_candidates=None), "k=-1 must not be negative"),
        (
            lambda: late_nearest(ONE, ONE, 1, n_candidates=None, self_ids=np.zeros(2, int)),
            "one id for each of the 1 qu",
        ),
        (lambda: late_dissimilarity(ONE, ONE, [0], [0], metric="l2"), "metric='l2' is not one of"),
        (lambda: comparison.measured_recall(NO_LISTS, ONE, ONE), "found has 0 lists for 1 queries"),
        (
            lambda: comparison.measured_recall(NO_LISTS, ONE.taken(np.arange(0)), ONE, metric="l2"),
            "metric='l2' is not one of",
        ),
    ],
)
def test_pairs_and_searches_that_cannot_be(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
    assert late_nearest(LARGE, LARGE, 1, n_candidates=None).dissimilarity.tolist() == [[0]]


# Kinds of things


@pytest.mark.parametrize("n", [2, 3])
def test_a_search_is_exact_or_says_that_it_is_not(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(comparison, "CANDIDATES", 2)
    tokens, vectors = token_matrices(np.eye(n), np.arange(n + 1)), Vectors.of(np.eye(n))
    assert comparison.is_exact(vectors)
    assert comparison.is_exact(tokens) == (n == 2)


def test_kinds_that_do_not_go_together() -> None:
    tokens, vectors = token_matrices([[1.0]], [0, 1]), Vectors.of([[1.0]])
    found = Neighbors(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32))
    for queries, corpus in ((tokens, vectors), (vectors, tokens)):
        shown = f"queries are {type(queries).__name__}, but the corpus is {type(corpus).__name__}; use the same"
        with pytest.raises(ValueError, match=shown):
            comparison.nearest(queries, corpus, 1)
        with pytest.raises(ValueError, match=shown):
            comparison.measured_recall(found, queries, corpus)
        with pytest.raises(ValueError, match=shown):
            comparison.pair_dissimilarity(queries, corpus, [0], [0])


@given(seed=st.integers(0, 2**32), n=st.integers(1, 9))
def test_things_that_are_taken_have_their_texts(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    things = drawn(rng, 7, 3, n=n)
    chosen = rng.integers(0, n, rng.integers(0, 6))
    taken = things.taken(chosen)
    assert len(taken) == len(chosen)

    def texts(of: TokenMatrices, thing: int) -> list[list[list[float]]]:
        return [tokens_of(of, text).tolist() for text in of.row[of.owner == thing]]

    assert [texts(taken, place) for place in range(len(chosen))] == [texts(things, thing) for thing in chosen]
    assert things.taken(np.arange(n)) is things


def test_arrays_make_up_equal_matrices_and_others_are_refused() -> None:
    made = token_matrices([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], [0, 2, 3], owner=[1, 0])
    arrays = made.arrays()
    again = TokenMatrices.from_arrays(arrays)
    again.check()
    pairs = np.array([0, 1]), np.array([1, 0])
    assert sum_of_max(again, again, *pairs).tolist() == sum_of_max(made, made, *pairs).tolist()
    for name, wrong in {
        "matrix": made.matrix[:2],
        "indptr": np.array([0, 4, 3]),
        "row": np.array([0, 2]),
        "owner": np.array([1, 0]),
        "n": np.array(1),
    }.items():
        with pytest.raises(ValueError, match="of other sizes or types"):
            TokenMatrices.from_arrays(arrays | {name: wrong})
    with pytest.raises(ValueError, match="not finite"):
        TokenMatrices.from_arrays(arrays | {"matrix": np.full((3, 2), np.nan, np.float32)}).check()
