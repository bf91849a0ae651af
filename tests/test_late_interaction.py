"""Late interaction in torch, in encoders and in linkers: gradients through padding, token vectors, neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_builders import Array, drawn, every_pair, tokens_of
from hypothesis import given, settings, strategies as st

import arbo
from arbo.data.inputs import mention_inputs
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower
from arbo.training import losses as late
from clustering import comparison
from clustering.late_interaction import TokenMatrices, _scores as sum_of_max
from clustering.vectors import Metric

torch = pytest.importorskip("torch")

from arbo.training.data import TrainingSet  # noqa: E402
from arbo.training.dual.batches import Reader  # noqa: E402


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


NAMES = arbo.EncoderConfig(pooling="tokens")
CONTEXT = arbo.EncoderConfig.in_context(max_length=40, pooling="tokens")


def read(tower: Tower, row: TokenRow) -> Array:
    with torch.no_grad():
        return np.asarray(tower.encode([row], "tokens")[0].numpy(), np.float64)


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
    assert exact.manifest["search"] == {"recall": {}, "within": 0.2}  # 256 and fewer are searched exactly
    monkeypatch.setattr(comparison, "CANDIDATES", 1)
    result = linker.configured(config=replace(linker.config, candidates=3)).link(documents[:10])
    recall = result.manifest["search"]["recall"]
    assert recall.keys() == {"entities", "mentions"}
    assert all(0 < share < 1 for share in recall.values())
    alone = linker.discover(documents[:10])
    assert alone.manifest["search"]["recall"].keys() == {"mentions"}
