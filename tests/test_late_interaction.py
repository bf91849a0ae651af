"""Late interaction: scores against brute force in float64, two stages against all pairs, gradients through padding."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arbo
from arbo.encoders import late
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.errors import DataError
from arbo.retrieval import mention_inputs
from clustering import comparison, late_interaction
from clustering.knn import Neighbors, nearest
from clustering.late_interaction import TokenMatrices, late_nearest, late_recall, sum_of_max
from clustering.vectors import Metric, Vectors

torch = pytest.importorskip("torch")

from arbo.training.data import TrainingSet  # noqa: E402
from arbo.training.dual.batches import Reader  # noqa: E402

Array = npt.NDArray[Any]


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


def tokens_of(things: TokenMatrices, text: int) -> Array:
    return things.matrix[things.indptr[text] : things.indptr[text + 1]].astype(np.float64)


def drawn(
    rng: np.random.Generator, n_texts: int, dim: int, *, ties: bool = False, n: int | None = None
) -> TokenMatrices:
    """Texts of 0 to 4 tokens; of ``n`` things, some without a text, or one thing each."""
    indptr = np.cumsum([0, *rng.integers(0, 5, n_texts)])
    shape = int(indptr[-1]), dim
    matrix = rng.integers(-1, 2, shape) if ties else rng.normal(size=shape)
    return TokenMatrices.of(matrix, indptr, None if n is None else rng.integers(n, size=n_texts), n=n)


def every_pair(queries: TokenMatrices, corpus: TokenMatrices) -> tuple[Array, Array]:
    query, thing = np.divmod(np.arange(queries.n * corpus.n), max(1, corpus.n))
    return query, thing


# Scores


@settings(deadline=None)
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


def test_the_tokens_of_the_query_are_summed_over() -> None:
    two = TokenMatrices.of([[1, 0], [0, 1]], [0, 2])
    one = TokenMatrices.of([[0.5, 0.25]], [0, 1])
    assert sum_of_max(two, one, np.array([0]), np.array([0])).tolist() == [0.75]
    assert sum_of_max(one, two, np.array([0]), np.array([0])).tolist() == [0.5]


def test_texts_without_tokens_score_zero_and_things_without_texts_minus_infinity() -> None:
    queries = TokenMatrices.of([[-1.0]], [0, 1, 1])
    corpus = TokenMatrices.of([[2.0]], [0, 0, 1], [0, 2], n=3)
    query, thing = every_pair(queries, corpus)
    assert sum_of_max(queries, corpus, query, thing).tolist() == [0, -np.inf, -2, 0, -np.inf, 0]
    assert sum_of_max(queries, corpus, [], []).shape == (0,)


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


def test_normalized_tokens_have_length_one_or_zero() -> None:
    made = TokenMatrices.of([[3, 4], [0, 0]], [0, 2]).normalized()
    np.testing.assert_allclose(made.matrix, [[0.6, 0.8], [0, 0]])


# Search


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


def same(found: Neighbors, expected: Neighbors) -> None:
    assert found.ids.dtype == np.int32
    assert found.dissimilarity.dtype == np.float32
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.dissimilarity, expected.dissimilarity)


@settings(deadline=None)
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
    assert late_recall(exact, queries, corpus, metric=metric) == 1
    recall_told = late_recall(found, queries, corpus, metric=metric)
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
    assert recall_told == pytest.approx(
        np.mean(
            [
                1.0 if not some else len(set(a) & set(b)) / 3
                for a, b, some in zip(found.ids, exact.ids, has_tokens, strict=True)
            ]
        )
    )


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_texts_of_one_token_are_like_vectors(metric: Metric) -> None:
    """Of any length: for cosine it does not count. But for float32, to which scores are rounded first."""
    rng = np.random.default_rng(5)
    matrix = rng.normal(size=(20, 3)) * rng.uniform(0.1, 9, (20, 1))
    matrix[7] = 0
    tokens, vectors = TokenMatrices.of(matrix, np.arange(21)), Vectors.of(matrix)
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


def test_recall_is_of_a_sample_and_leaves_the_query_out() -> None:
    rng = np.random.default_rng(3)
    texts = drawn(rng, 30, 4)
    own = np.arange(30)
    found = late_nearest(texts, texts, 2, n_candidates=None, self_ids=own)
    assert not (found.ids == own[:, None]).any()
    assert late_recall(found, texts, texts, self_ids=own, sample=7) == 1
    nothing = found._replace(dissimilarity=np.full((30, 2), np.inf, np.float32))
    assert late_recall(nothing, texts, texts, self_ids=own, sample=7) == 0


# Errors


@pytest.mark.parametrize(
    ("matrix", "indptr", "owner", "n", "message"),
    [
        ([1.0], [0, 1], None, None, r"vectors must be a \(rows, dim\) array"),
        ([[np.nan]], [0, 1], None, None, "NaN, infinity or a number beyond float32 in 1 vector"),
        ([[1.0]], [], None, None, "indptr must be a list of integers"),
        ([[1.0]], [0.0, 1.0], None, None, "indptr must be a list of integers"),
        ([[1.0]], [0, 2], None, None, "indptr must lead from 0 to the 1 tokens, not 0 to 2"),
        ([[1.0]], [1, 1], None, None, "indptr must lead from 0 to the 1 tokens, not 1 to 1"),
        ([[1.0]], [0, 1, 0, 1], None, None, "indptr must not fall, but does from 1 to 0 at place 2"),
        ([[1.0]], [0, 1], [0, 1], None, "1 texts, but owners of shape"),
        ([[1.0]], [0, 1], [2], 2, r"owners must lie in 0 \.\. 1, found 2"),
    ],
)
def test_token_matrices_that_cannot_be(matrix: Any, indptr: Any, owner: Any, n: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TokenMatrices.of(matrix, indptr, owner, n=n)


def test_pairs_and_searches_that_cannot_be() -> None:
    one, flat = TokenMatrices.of([[1.0, 2.0]], [0, 1]), TokenMatrices.of([[1.0]], [0, 1])
    with pytest.raises(ValueError, match="queries have 2 dimensions, the corpus has 1"):
        sum_of_max(one, flat, [0], [0])
    with pytest.raises(ValueError, match="each of the 1 queries must have exactly one text"):
        sum_of_max(TokenMatrices.of([[1.0]], [0, 1, 1], [0, 0]), flat, [0], [0])
    with pytest.raises(ValueError, match=r"thing must lie in 0 \.\. 0, found 1"):
        sum_of_max(one, one, [0], [1])
    with pytest.raises(ValueError, match="query must be integers, not float64"):
        sum_of_max(one, one, [0.0], [0])
    with pytest.raises(ValueError, match=r"query \(1,\) and thing \(2,\) must be lists of one length"):
        sum_of_max(one, one, [0], [0, 0])
    large = TokenMatrices.of([[1e19]] * 4, [0, 4])
    with pytest.raises(ValueError, match="scores of queries and corpus may reach 4e\\+38, beyond float32"):
        sum_of_max(large, large, [0], [0])
    assert late_nearest(large, large, 1, n_candidates=None).dissimilarity.tolist() == [[0]]
    for known, wrong in (({}, {"metric": "euclidean"}), ({"n_candidates": None}, {"search": "lsh"})):
        ((name, value),) = wrong.items()
        with pytest.raises(ValueError, match=f"{name}='{value}' is not one of"):
            late_nearest(one, one, 1, **{"n_candidates": 1} | known | wrong)
    none = Neighbors(np.zeros((1, 0), np.int32), np.zeros((1, 0), np.float32))
    with pytest.raises(ValueError, match="metric='l2' is not one of cosine, dot"):
        late_recall(none, one, one, metric="l2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="metric='l2' is not one of cosine, dot"):
        late_interaction.late_dissimilarity(one, one, [0], [0], metric="l2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k=-1 must not be negative"):
        late_nearest(one, one, -1, n_candidates=None)
    with pytest.raises(ValueError, match="n_candidates=2 are too few for the k=3 nearest"):
        late_nearest(one, one, 3, n_candidates=2)
    with pytest.raises(ValueError, match=r"1 queries, but self_ids of shape \(2,\)"):
        late_nearest(one, one, 1, n_candidates=None, self_ids=np.zeros(2, int))
    with pytest.raises(ValueError, match="found has lists of 0 queries, but there are 1 queries"):
        late_recall(Neighbors(np.zeros((0, 1), np.int32), np.zeros((0, 1), np.float32)), one, one)


# In torch


def padded(things: TokenMatrices, filler: float) -> tuple[Any, Any]:
    """Token vectors of each text, filled up to the longest, and the mask."""
    count = np.diff(things.indptr)
    mask = np.arange(max(1, count.max(initial=0)) + 1) < count[:, None]
    tokens = np.full((*mask.shape, things.matrix.shape[1]), filler, np.float32)
    tokens[mask] = things.matrix
    return torch.from_numpy(tokens), torch.from_numpy(mask)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(1, 6), filler=st.sampled_from([0.0, 1e9, -1e9]))
def test_torch_gives_the_same_scores_whatever_the_padding(seed: int, dim: int, filler: float) -> None:
    rng = np.random.default_rng(seed)
    queries, corpus = drawn(rng, 4, dim), drawn(rng, 6, dim)
    query, query_mask = padded(queries, filler)
    tokens, mask = padded(corpus, filler)
    found = late.sum_of_max(query[:, None], query_mask[:, None], tokens, mask)
    expected = sum_of_max(queries, corpus, *every_pair(queries, corpus)).reshape(4, 6)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)
    one_each = late.sum_of_max(query, query_mask.long(), tokens[:4], mask[:4].long())
    np.testing.assert_allclose(one_each.numpy(), np.diag(expected), rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_gradients_are_those_of_the_best_tokens_and_none_of_padding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, corpus = drawn(rng, 3, 4), drawn(rng, 3, 4)
    (query, query_mask), (tokens, mask) = padded(queries, 7.0), padded(corpus, 7.0)
    query.requires_grad_()
    tokens.requires_grad_()
    late.sum_of_max(query, query_mask, tokens, mask).sum().backward()
    expected_query, expected_tokens = torch.zeros_like(query), torch.zeros_like(tokens)
    for i in range(3):
        own, others = tokens_of(queries, i), tokens_of(corpus, i)
        for s in range(len(own) if len(others) else 0):
            best = int((others @ own[s]).argmax())
            expected_query[i, s] += tokens[i, best].detach()
            expected_tokens[i, best] += query[i, s].detach()
    torch.testing.assert_close(query.grad, expected_query)
    torch.testing.assert_close(tokens.grad, expected_tokens)


def test_scores_in_torch_are_float32_also_under_autocast() -> None:
    rng = np.random.default_rng(4)
    (query, query_mask), (tokens, mask) = padded(drawn(rng, 5, 8), 0), padded(drawn(rng, 5, 8), 0)
    expected = late.sum_of_max(query, query_mask, tokens, mask)
    with torch.autocast("cpu", torch.bfloat16):
        found = late.sum_of_max(query, query_mask, tokens, mask)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


# Token vectors of an encoder


NAMES = arbo.EncoderConfig(pooling="tokens")
CONTEXT = arbo.EncoderConfig.in_context(max_length=40, pooling="tokens")


def read(tower: Tower, row: TokenRow) -> Array:
    with torch.no_grad():
        return np.asarray(tower.read([row]).hidden[0].numpy(), np.float64)


def unit(tokens: Array) -> Array:
    return np.asarray(tokens / np.linalg.norm(tokens, axis=1, keepdims=True))


@pytest.mark.parametrize("config", [NAMES, CONTEXT], ids=["names", "in context"])
def test_tokens_of_mentions_and_entities(bert: Tower, config: arbo.EncoderConfig, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    inputs = mention_inputs(documents, expand_abbreviations=False)[:40]
    encoder = replace(arbo.DualEncoder(bert, bert, config).with_markers(), cache=tmp_path)
    mentions, entities = encoder.encode_mentions(inputs), encoder.encode_entities(kb)
    assert not list(tmp_path.iterdir())  # nothing of them is kept
    assert (len(mentions), len(entities)) == (40, len(kb))
    pooled = replace(encoder, config=replace(config, pooling="mean")).encode_entities(kb)
    assert entities.owner.tolist() == pooled.owner.tolist()
    texts = encoder.mention_texts(inputs)
    for row, text in zip(texts.spell(texts.row), mentions.row, strict=True):
        np.testing.assert_allclose(tokens_of(mentions, text), read(encoder.mention_tower, row), atol=1e-5)


def test_the_mean_of_all_tokens_is_what_the_encoder_pools(bert: Tower) -> None:
    kb = arbo.load_sample()[1]
    encoder = arbo.DualEncoder(bert, bert, CONTEXT).with_projection(5)
    pooled = encoder.encode_entities(kb).pooled()
    vectors = replace(encoder, config=replace(CONTEXT, pooling="mean")).encode_entities(kb)
    np.testing.assert_allclose(pooled.matrix[pooled.row], vectors.matrix[vectors.row], atol=1e-5)


def test_padding_of_a_batch_does_not_show_in_the_scores_of_its_tokens(bert: Tower) -> None:
    documents, kb = arbo.load_sample()
    encoder = arbo.DualEncoder(bert, bert, CONTEXT)
    inputs = mention_inputs(documents, expand_abbreviations=False)[:5]
    mentions, entities = encoder.encode_mentions(inputs), encoder.encode_entities(kb)
    texts, things = encoder.mention_texts(inputs), encoder.entity_texts(kb)
    rows = texts.spell(texts.row), things.spell(things.row[:7])
    with torch.no_grad():
        query, tokens = (bert.encode(own, "tokens") for own in rows)
        query_mask, mask = (torch.tensor([[i < len(row.ids) for i in range(40)] for row in own]) for own in rows)
        query_mask, mask = query_mask[:, : query.shape[1]], mask[:, : tokens.shape[1]]
        found = late.sum_of_max(query[:, None], query_mask[:, None], tokens, mask)
    query_id, thing_id = np.divmod(np.arange(35), 7)
    expected = sum_of_max(mentions, entities, query_id, thing_id).reshape(5, 7)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)


def test_no_mentions_no_entities_and_a_model_that_gives_nan(bert: Tower) -> None:
    encoder = arbo.DualEncoder(bert, bert, NAMES)
    assert len(encoder.encode_mentions([])) == len(encoder.encode_entities(arbo.KnowledgeBase())) == 0
    broken = encoder.copy()
    with torch.no_grad():
        broken.mention_tower.model.embeddings.word_embeddings.weight[:] = torch.nan
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "marsh fever"), arbo.Entity("E2", "kidney")])
    with pytest.raises(DataError, match="the model gives NaN or infinity for 2 of 2 texts"):
        broken.encode_entities(kb)


# In a linker


def by_brute_force(linker: arbo.Linker, domains: Sequence[str | None], documents: Any) -> tuple[Array, Array]:
    """Dissimilarity of each mention with each entity, and with each mention: text by text, in float64."""
    encoder, kb = linker.encoder, linker.kb
    inputs = mention_inputs(documents, expand_abbreviations=linker.config.expand_abbreviations)
    texts, things = encoder.mention_texts(inputs), encoder.entity_texts(kb)

    def tokens(tower: Tower, row: TokenRow) -> Array:
        return unit(read(tower, row)) if encoder.metric == "cosine" else read(tower, row)

    queries = [tokens(texts.tower, row) for row in texts.spell(texts.row)]
    corpus = [tokens(things.tower, row) for row in things.spell(things.row)]
    offset = 1.0 if encoder.metric == "cosine" else 0.0
    entity, mention = np.full((len(queries), len(kb)), np.inf), np.full((len(queries), len(queries)), np.inf)
    for q, query in enumerate(queries):
        for other, owner in zip(corpus, things.owner, strict=True):
            if domains[q] == kb.entities[owner].domain:
                entity[q, owner] = min(entity[q, owner], offset - (query @ other.T).max(axis=1).mean())
        for o, other in enumerate(queries):
            if o != q and domains[q] == domains[o]:
                mention[q, o] = offset - (query @ other.T).max(axis=1).mean()
    return entity, mention


@pytest.mark.parametrize("config", [NAMES, CONTEXT], ids=["names", "in context"])
@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.slow
def test_neighbours_are_those_of_brute_force(bert: Tower, config: arbo.EncoderConfig, parted: bool) -> None:
    documents, kb = arbo.load_sample()
    names = ("a", "b", None) if parted else (None,)
    some = arbo.Corpus(replace(d, domain=names[i % len(names)]) for i, d in enumerate(documents[:12]))
    things = arbo.KnowledgeBase(replace(e, domain=names[i % len(names)]) for i, e in enumerate(kb))
    linker = arbo.Linker(things, arbo.DualEncoder(bert, bert, config).with_two_towers())
    retrieval = linker.retrieve(some, k=3, discover=False)
    domains = [item.document.domain for item in retrieval.inputs]
    for found, far in zip((retrieval.entities, retrieval.mentions), by_brute_force(linker, domains, some), strict=True):
        expected = np.sort(far, axis=1)[:, : found.ids.shape[1]]
        np.testing.assert_allclose(found.dissimilarity, expected, atol=2e-5 * np.abs(far[np.isfinite(far)]).max())
        there = found.ids >= 0
        own = np.take_along_axis(far, np.where(there, found.ids, 0), axis=1)
        np.testing.assert_allclose(own[there], found.dissimilarity[there], atol=2e-5 * np.abs(own[there]).max())
    last = np.array([row[row >= 0][-1] for row in retrieval.entities.ids], np.int32)
    asked = retrieval.dissimilarity_to(last)
    place = (retrieval.entities.ids >= 0).sum(axis=1) - 1
    assert np.array_equal(asked, retrieval.entities.dissimilarity[np.arange(len(place)), place])


@pytest.mark.slow
def test_a_linker_that_compares_tokens(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    encoder = arbo.DualEncoder(bert, bert, NAMES)
    linker = arbo.Linker(kb, encoder).tune(documents[:30])
    result = linker.link(documents[30:])
    encoder.save_pretrained(tmp_path / "model")
    again = arbo.Linker(kb, arbo.DualEncoder.from_pretrained(tmp_path / "model"), linker.config)
    assert again.encoder.config == NAMES
    other = again.link(documents[30:])
    assert other.link_table == result.link_table
    scores = result.evaluate().linking
    assert scores is not None
    assert scores.recall[1] > 0.2
    for link in result.links[:20]:
        assert link.mention.text in str(result.explain(link.mention.id))
    for (_, near), (_, far) in pairwise(result.links[0].candidates):
        assert 1 >= near >= far
    assert len(arbo.Linker(encoder=encoder).discover(documents[:10]).links) == len(documents[:10].mentions)


@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_a_mention_and_an_entity_without_tokens(bert: Tower, metric: Metric) -> None:
    """They are like one token of zeros: as near to all as cosine 0, or as inner product 0."""
    config = arbo.EncoderConfig(mention="{mention}", entity="{name}", pooling="tokens", metric=metric)
    text = "\x01 fever"
    mentions = [arbo.Mention(f"m{a}", "d", ((a, b),), text[a:b], gold=("E2",)) for a, b in ((0, 1), (2, 7))]
    corpus = arbo.Corpus([arbo.Document("d", text, tuple(mentions))])
    kb = arbo.KnowledgeBase([arbo.Entity("E1", "\x01"), arbo.Entity("E2", "fever"), arbo.Entity("E3", "kidney")])
    encoder = arbo.DualEncoder(bert, bert, config)
    retrieval = arbo.Linker(kb, encoder).retrieve(corpus, k=1, discover=False)
    zero = 1.0 if metric == "cosine" else 0.0
    assert retrieval.entities.dissimilarity[0].tolist() == [zero] * 3
    assert retrieval.entities.ids[0].tolist() == [0, 1, 2]
    assert retrieval.entities.ids[1, 0] == 1
    assert retrieval.mentions.dissimilarity.tolist() == [[zero], [zero]]
    data = TrainingSet.of(corpus, kb)
    reader = Reader.of(encoder, data)
    batch = reader.batch(np.array([0, 1]), np.array([[1, 0, 2], [1, 0, 2]]))
    scores = reader.pairs(batch, reader.encode(batch, slice(None)), slice(None)).scores
    assert scores[0].tolist() == [0, 0, 0]
    expected = (zero - retrieval.dissimilarity_to(np.array([1, 1], np.int32))[1]) * 1  # "fever" is one token
    assert scores[1, 0].item() == pytest.approx(expected, rel=1e-4)
    assert scores[1, 1] == 0


def test_a_first_stage_proposes_and_its_recall_is_told(bert: Tower, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, arbo.DualEncoder(bert, bert, NAMES))
    exact = linker.link(documents[:10])
    assert exact.manifest["search"] == {"method": "exact", "recall": {}}
    approximate = linker.configured(config=replace(linker.config, search="hnsw")).link(documents[:10])
    assert approximate.manifest["search"] == {"method": "hnsw", "recall": {"entities": 1.0, "mentions": 1.0}}
    assert approximate.link_table == exact.link_table  # 256 and fewer are searched exactly
    monkeypatch.setattr(comparison, "CANDIDATES", 1)
    found = [
        linker.configured(config=replace(linker.config, search=search, candidates=3)).link(documents[:10])
        for search in ("exact", "hnsw")
    ]
    for result in found:  # few things are searched exactly by an index, but a first stage misses some
        recall = result.manifest["search"]["recall"]
        assert recall.keys() == {"entities", "mentions"}
        assert all(0 < share < 1 for share in recall.values())
    alone = linker.discover(documents[:10])
    assert alone.manifest["search"]["recall"].keys() == {"mentions"}


@pytest.mark.parametrize("n", [2, 3])
def test_a_search_is_exact_or_says_that_it_is_not(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(comparison, "CANDIDATES", 2)
    tokens, vectors = TokenMatrices.of(np.eye(n), np.arange(n + 1)), Vectors.of(np.eye(n))
    assert comparison.is_exact(vectors, "exact")
    assert comparison.is_exact(tokens, "exact") == (n == 2)
    assert not any(comparison.is_exact(things, "ivf") for things in (tokens, vectors))


def test_kinds_that_do_not_go_together() -> None:
    tokens, vectors = TokenMatrices.of([[1.0]], [0, 1]), Vectors.of([[1.0]])
    found = Neighbors(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32))
    for queries, corpus in ((tokens, vectors), (vectors, tokens)):
        shown = f"queries are {type(queries).__name__}, the corpus is {type(corpus).__name__}: were they made by"
        with pytest.raises(ValueError, match=shown):
            comparison.nearest(queries, corpus, 1)
        with pytest.raises(ValueError, match=shown):
            comparison.measured_recall(found, queries, corpus)
        with pytest.raises(ValueError, match=shown):
            comparison.pair_dissimilarity(queries, corpus, [0], [0])


@settings(deadline=None)
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
