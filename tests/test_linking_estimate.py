"""What a job will take, told before it starts; how near the figures are is measured in benchmarks/estimate.py."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Sample

import arbo
from arbo.linking import estimate, trial
from arbo.linking.estimate import entity_cost
from clustering import comparison, late_interaction
from clustering.arrays import Floats, Ids
from clustering.index import Index
from clustering.late_interaction import TokenMatrices
from clustering.vectors import Vectors

pytestmark = pytest.mark.slow


def copies(documents: arbo.Corpus, n: int) -> arbo.Corpus:
    def copy(document: arbo.Document, i: int) -> arbo.Document:
        id_ = f"{document.id}/{i}"
        mentions = tuple(replace(mention, id=f"{mention.id}/{i}", document_id=id_) for mention in document.mentions)
        return arbo.Document(id_, document.text, mentions)

    return arbo.Corpus(copy(document, i) for i in range(n) for document in documents)


def test_counts_are_those_of_the_job(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = sample
    monkeypatch.setattr(estimate, "_resident", lambda: 1 << 26)  # the first estimate loads kernels, which stay
    linker = arbo.Linker(kb, config=arbo.LinkerConfig(k=2, candidates=5))
    told = linker.estimate(documents)
    assert (told.mentions, told.entities, told.names) == (len(documents.mentions), len(kb), len(kb.names().names))
    assert (told.k, told.candidates, told.dimensions, told.to_embed) == (2, 5, 0, 0)
    assert told.distinct_mentions <= told.mentions
    assert told.peak_bytes > 1 << 26
    assert told.seconds > 0
    alone = linker.estimate(documents, discover=True)
    assert (alone.entities, alone.names) == (0, 0)
    assert alone.peak_bytes <= told.peak_bytes


def test_more_mentions_and_more_candidates_take_more(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = sample
    monkeypatch.setattr(estimate, "name_seconds", lambda *_: 1.0)  # equal for equal names, but for noise
    many = copies(documents, 200)
    few = arbo.Linker(kb).estimate(documents)
    more = arbo.Linker(kb).estimate(many)
    most = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=100)).estimate(many)
    assert few.seconds < more.seconds
    assert few.peak_bytes < more.peak_bytes < most.peak_bytes
    assert few.distinct_mentions == more.distinct_mentions, "equal mentions are searched for once"


def test_a_search_is_timed_on_samples_of_names_and_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that takes 1 ms for each name and 1 s for each query and root of the number of names."""
    now = 0.0

    def search(queries: Vectors, corpus: Vectors, k: int, within: float) -> None:
        nonlocal now
        assert within == 0.5
        now += 0.001 * corpus.n + queries.n * corpus.n**0.5

    monkeypatch.setattr(trial, "nearest", search)
    monkeypatch.setattr(trial.time, "perf_counter", lambda: now)
    things = Vectors.of(np.eye(400, dtype=np.float32))
    told = trial.search_seconds(things.taken(np.arange(100)), things, 5000, 40_000, 8, 0.5)
    assert told == pytest.approx(0.001 * 40_000 + 5000 * 40_000**0.5, rel=1e-6)


def test_the_seconds_of_names_are_those_of_both_searches_and_grow_with_the_names(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sample[1].names().names
    queries = names[::3]
    searched: list[tuple[float | None, ...]] = []

    def search(_: Vectors, __: Vectors, n_queries: int, n_things: int, k: int, within: float | None = None) -> float:
        searched.append((n_queries, n_things, k, within))
        return 0.0

    def timed(call: Callable[[], object]) -> tuple[float, object]:
        return 1.0, call()

    monkeypatch.setattr(trial, "search_seconds", search)
    monkeypatch.setattr(trial, "timed", timed)
    encoder = arbo.NgramEncoder()
    all_names = trial.name_seconds(encoder, names, queries, 4, 16, 0.2)
    assert searched == [(len(queries), len(queries), 5, 0.2), (len(queries), len(names), 16, None)]
    assert all_names == 3, "fitting and encoding the names, encoding the queries"
    monkeypatch.setattr(trial, "_NAMES", len(names) // 2)
    assert trial.name_seconds(encoder, names, queries, 4, 16, 0.2) == pytest.approx(5, rel=0.1)
    searched.clear()
    assert trial.name_seconds(encoder, (), queries, 4, 16, 0.2) == pytest.approx(2, rel=0.1)
    assert searched == [(len(queries), len(queries), 5, 0.2)]
    assert trial.name_seconds(encoder, names, (), 4, 16, 0.2) == 0


def test_an_index_takes_no_time_for_its_names(sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = sample
    stored = arbo.build_index(kb, tmp_path / "index")
    searched: list[tuple[int, int]] = []

    def search(_: Vectors, things: Vectors | Index, k: int, within: float | None = None) -> None:
        searched.append((things.n, k))

    def unused(*_: object) -> None:
        raise AssertionError("the names are read or encoded again")

    monkeypatch.setattr(trial, "nearest", search)
    monkeypatch.setattr(arbo.NgramEncoder, "fit", unused)
    names = arbo.KnowledgeBase.names
    monkeypatch.setattr(arbo.KnowledgeBase, "names", lambda own: unused() if own.stored else names(own))
    told = arbo.Linker(stored, config=arbo.LinkerConfig(k=2, candidates=5)).estimate(documents)
    assert (told.entities, told.names) == (len(kb), sum(len({e.name, *e.aliases}) for e in kb))
    assert searched[-3:] == [(len(kb), 5)] * 3, "not on samples of the index"
    assert arbo.Linker(stored).estimate([]).mentions == 0


def test_a_transformer_reads_what_its_cache_lacks(sample: Sample, bert_folder: Path, tmp_path: Path) -> None:
    documents, kb = sample
    encoder = arbo.DualEncoder.from_pretrained(bert_folder, cache=tmp_path)
    linker = arbo.Linker(kb, encoder)
    before = linker.estimate(documents)
    assert before.dimensions == 64
    assert before.to_embed == before.distinct_mentions + before.names
    assert not list(tmp_path.rglob("*.safetensors")), "estimating embeds a sample and keeps nothing"
    linker.link(documents)
    after = arbo.Linker(kb, encoder).estimate(documents)
    assert after.to_embed == 0
    half = replace(before, to_embed=after.to_embed)
    assert "to embed" in str(before)
    assert "to embed" not in str(half)


def test_tokens_take_more_and_are_never_in_the_cache(sample: Sample, bert_folder: Path, tmp_path: Path) -> None:
    documents, kb = sample
    encoder = arbo.DualEncoder.from_pretrained(bert_folder, arbo.EncoderConfig(pooling="tokens"), cache=tmp_path)
    n_tokens = len(encoder.encode_entities(kb).matrix)
    cost = entity_cost(encoder, kb)
    pooled = entity_cost(replace(encoder, config=replace(encoder.config, pooling="mean")), kb)
    assert (cost.vectors, cost.to_embed) == (pooled.vectors, len(encoder.entity_texts(kb).keys))
    assert cost.kept == pytest.approx(4 * 64 * (n_tokens + cost.vectors), rel=0.1)
    assert pooled.tokens == 0 < pooled.kept < cost.kept
    linker = arbo.Linker(kb, encoder)
    linker.link(documents[:5])
    told = linker.estimate(documents)
    assert told.to_embed == told.distinct_mentions + told.names


@pytest.mark.parametrize("candidates", [10, 256])
def test_comparing_tokens_takes_as_long_as_there_are_tokens(
    sample: Sample, bert_folder: Path, monkeypatch: pytest.MonkeyPatch, candidates: int
) -> None:
    """All names of a thing are compared, of the candidates and, for a sample of the mentions, of all things."""
    documents, kb = sample
    few = arbo.Corpus(list(documents)[:10])
    encoder = arbo.DualEncoder.from_pretrained(bert_folder, arbo.EncoderConfig(pooling="tokens"))
    for module in (comparison, estimate):
        monkeypatch.setattr(module, "CANDIDATES", candidates)
    monkeypatch.setattr(estimate, "_LATE_SECONDS", 1.0)  # so that nothing else counts
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    compared: list[int] = []

    def score(queries: TokenMatrices, corpus: TokenMatrices, query: Ids, thing: Ids) -> Floats:
        tokens = np.bincount(corpus.owner, np.diff(corpus.indptr)[corpus.row], corpus.n)
        compared.append(int((np.diff(queries.indptr)[queries.row[query]] * tokens[thing]).sum()))
        return scores(queries, corpus, query, thing)

    scores = late_interaction._scores
    monkeypatch.setattr(late_interaction, "_scores", score)
    told, done = [], []
    for entities in (kb, arbo.KnowledgeBase(replace(entity, aliases=()) for entity in kb)):
        linker = arbo.Linker(entities, encoder)
        told.append(linker.estimate(few).seconds)
        compared.clear()
        linker.retrieve(few, k=4, discover=False)
        done.append(64 * sum(compared))
    assert told == pytest.approx(done, rel=0.3)
    assert told[0] / told[1] == pytest.approx(done[0] / done[1], rel=0.05)
    assert done[1] < 0.8 * done[0], "this test is of entities with several names"


def test_given_vectors(sample: Sample) -> None:
    documents, kb = sample
    rng = np.random.default_rng(0)
    encoder = arbo.VectorEncoder(
        {mention.id: rng.normal(size=16) for mention in documents.mentions},
        {entity.id: rng.normal(size=16) for entity in kb},
    )
    told = arbo.Linker(kb, encoder).estimate(documents)
    assert (told.dimensions, told.names, told.distinct_mentions) == (16, len(kb), len(documents.mentions))


def test_an_empty_job() -> None:
    told = arbo.Linker(arbo.KnowledgeBase()).estimate([])
    assert (told.mentions, told.entities) == (0, 0)


@pytest.mark.parametrize(("seconds", "shown"), [(90, "90 seconds"), (600, "10 minutes"), (9000, "2.5 hours")])
def test_time_is_told_in_units_that_people_use(seconds: float, shown: str) -> None:
    told = replace(arbo.Linker(arbo.KnowledgeBase()).estimate([]), seconds=seconds)
    assert shown in str(told)
