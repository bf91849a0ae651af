"""Linking with a reranker, from end to end and from the command line."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import linking, save_data
from conftest import Run
from rerankers import Oracle, indifferent, is_right, knows_gold

import arbo
from arbo.data.gold import Gold
from arbo.encoders.cross import CrossEncoder, CrossEncoderConfig
from arbo.encoders.tower import Tower
from arbo.retrieval.reranking import ScoreMemory, rerank, reranked


def test_discovery_asks_no_reranker() -> None:
    documents, kb = arbo.load_sample()
    own = indifferent()
    linker = arbo.Linker(kb, reranker=own)
    assert linker.discover(documents[:5]).link_table == arbo.Linker().discover(documents[:5]).link_table
    assert not own.asked


@pytest.mark.parametrize("method", ["arborescence", "independent"])
def test_links_are_the_rerankers(method: Any) -> None:
    documents, kb = arbo.load_sample()
    config = arbo.LinkerConfig(method=method, k=0)
    result = arbo.Linker(kb, config=config, reranker=knows_gold()).link(documents)
    accepted = arbo.Linker(kb).candidates(documents, k=16)
    gold = Gold.of(documents, kb).entities
    hits = ((accepted.entities[:, :, None] == gold[:, None]) & (gold >= 0)[:, None]).any(axis=(1, 2))
    assert hits.mean() > 0.5
    for link, hit in zip(result.links, hits, strict=True):
        if hit:
            assert is_right(link.mention, kb[str(link.entity)])
            n_right = sum(is_right(link.mention, kb[id_]) for id_, _ in link.candidates)
            assert link.score == pytest.approx(1 / n_right, abs=1e-4)
            assert link.step == pytest.approx(1 - 1 / n_right, abs=1e-4)
        else:  # each of 16 is as good as the others
            assert link.entity is None
            assert [score for _, score in link.candidates] == pytest.approx([1 / 16] * 16)
    assert result.manifest["threshold"]["entity"] == 0.5
    assert result.manifest["encoder"]["reranker"] == {"encoder": "oracle"}


def test_the_second_stage_is_one_function() -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, reranker=Oracle(lambda item, entity: len(entity.name) / 3.0))
    plain = replace(linker, reranker=None).candidates(documents, k=7)
    found = rerank(linker.reranker, plain, documents, kb)
    again = linker.candidates(documents, k=7)
    assert np.array_equal(found.entities, again.entities)
    np.testing.assert_allclose(found.scores, again.scores, atol=1e-7)
    sparing = linker.configured(config=arbo.LinkerConfig(skip_margin=0.25, candidates=7))
    skipped = rerank(linker.reranker, plain, documents, kb, skip_margin=0.25)
    one = sparing.candidates(documents, k=7)
    assert one.made_by == skipped.made_by != again.made_by == found.made_by
    assert np.array_equal(one.entities, skipped.entities)


def test_the_score_of_an_entity_that_is_no_candidate_is_zero() -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=2))
    first = linker.retrieve(arbo.Corpus.of(documents), k=1)
    second = reranked(first, ScoreMemory(indifferent()), kb)
    nearest, every = second.entities.ids[:, 0], np.arange(len(documents.mentions))
    assert set(second.similarity(second.dissimilarity_to(nearest, every)).tolist()) == {0.5}
    assert set(second.dissimilarity_to(np.full(len(every), -1, np.int32), every).tolist()) == {np.inf}
    far = ((nearest + 1) % len(kb)).astype(np.int32)
    far = np.where((second.entities.ids == far[:, None]).any(axis=1), -1, far)
    assert set(second.dissimilarity_to(far, every)[far >= 0].tolist()) == {1.0}


def test_explain_tune_evaluate_and_keep(tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    linker = arbo.Linker(kb, reranker=knows_gold())
    result = linker.link(documents)
    for link in result.links:
        told = str(result.explain(link))
        assert ("probability" in told) == bool(link.candidates)
        assert not re.search(r"(?<!dis)similarity", told)
    plain = arbo.Linker(kb).link(documents).evaluate()
    assert result.evaluate().linking.accuracy > plain.linking.accuracy
    tuned = linker.tune(documents)
    assert tuned.reranker is linker.reranker
    assert tuned.tuning.best.score >= result.evaluate().accuracy_with_nil
    assert tuned.link(documents).evaluate().accuracy_with_nil == pytest.approx(tuned.tuning.best.score)
    result.save(tmp_path / "run")
    assert arbo.Result.load(tmp_path / "run").manifest["encoder"]["reranker"] == {"encoder": "oracle"}


# A cross-encoder, from the command line


@pytest.fixture
def files(bert: Tower, tmp_path: Path) -> Path:
    """A few documents, a knowledge base, and a cross-encoder whose scores mean nothing."""
    documents, kb = arbo.load_sample()
    save_data(tmp_path, documents[:6], arbo.KnowledgeBase(kb.entities[:9]))
    config = CrossEncoderConfig(max_length=40, candidates=3)
    CrossEncoder.of(bert, config).with_markers().save_pretrained(tmp_path / "cross")
    return tmp_path


def test_link_with_a_cross_encoder(run: Run, files: Path) -> None:
    out = files / "run"
    run("link", *linking(files, "docs.jsonl"), "--reranker", files / "cross", "--out", out, "--json").ok()
    result = arbo.Result.load(out)
    assert max(len(link.candidates) for link in result.links) == 3
    for link in result.links:
        assert sum(score for _, score in link.candidates) == pytest.approx(1, abs=1e-5)
    cross = CrossEncoder.from_pretrained(files / "cross")
    assert result.manifest["encoder"]["reranker"]["weights"] == cross.settings["weights"]
    documents, kb = arbo.read_documents(files / "docs.jsonl"), arbo.read_knowledge_base(files / "kb.jsonl")
    own = arbo.Linker(kb, config=arbo.LinkerConfig(candidates=3), reranker=cross).link(documents)
    assert [link.entity for link in own.links] == [link.entity for link in result.links]

    given = ["--reranker", files / "cross", "--set", "candidates=2", "--set", "skip_margin=0", "--out", out]
    assert run("link", *linking(files, "docs.jsonl"), *given).code == 0
    result = arbo.Result.load(out)
    assert result.manifest["config"]["skip_margin"] == 0
    assert {link.candidates[0][1] for link in result.links} == {1}  # the cross-encoder was spared all


def test_a_run_with_a_cross_encoder_grows(run: Run, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, kb = arbo.read_documents(files / "docs.jsonl"), linking(files, "docs.jsonl")[3:]
    documents[:4].to_jsonl(files / "docs.jsonl")
    documents[4:].to_jsonl(files / "more.jsonl")
    run("link", *linking(files, "docs.jsonl"), "--reranker", files / "cross", "--out", files / "one").ok()
    read: list[int] = []
    score = CrossEncoder.score

    def counting(self: CrossEncoder, mentions: Any, kb: Any, mention: Any, *others: Any) -> Any:
        read.append(len(mention))
        return score(self, mentions, kb, mention, *others)

    monkeypatch.setattr(CrossEncoder, "score", counting)
    run("add", files / "one", files / "more.jsonl", *kb[:2], "--out", files / "two").ok()
    assert read == [3 * len(documents[4:].mentions)]
    assert run("add", "--anew", files / "two", *kb[:2], "--out", files / "three").code == 0
    assert len(read) == 1
    two, three = (arbo.Result.load(files / name) for name in ("two", "three"))
    assert two.link_table == three.link_table
    assert two.cluster_table == three.cluster_table
    was = arbo.Result.load(files / "one").link_table["candidate_scores"]
    assert two.link_table["candidate_scores"].slice(0, len(was)) == was


def test_tune_remembers_the_reranker_and_how_it_was_asked(run: Run, files: Path) -> None:
    job, same = linking(files, "docs.jsonl"), ["--set", "candidates=2", "--set", "skip_margin=0.25"]
    link, tune, tuned, plain, out = ["link", *job], ["tune", *job], files / "t.json", files / "p.json", files / "run"
    run(*tune, "--reranker", files / "cross", *same, "--out", tuned).ok()
    run(*tune, "--out", plain).ok()
    config = replace(CrossEncoderConfig(max_length=40), context=3)
    CrossEncoder.from_pretrained(files / "cross", config).save_pretrained(files / "other")
    for given, words in (
        (["--config", tuned, "--reranker", files / "other"], "tuned with another reranker"),
        (["--config", plain, "--reranker", files / "cross"], "tuned without a reranker"),
        (["--config", tuned, "--set", "candidates=3"], "was tuned with candidates=2, not"),
        (["--config", tuned, "--set", "skip_margin=0.5"], "was tuned with skip_margin=0.25, not"),
    ):
        refused = run(*link, *given, "--out", out)
        assert (refused.code, words in refused.told) == (2, True), refused.told
    discovered = run("discover", files / "docs.jsonl", "--format", "jsonl", "--config", tuned, "--out", out)
    assert (discovered.code, f"{tuned} was tuned with a reranker" in discovered.told) == (2, True)
    assert not out.exists()
    run(*link, "--config", tuned, *same, "--k", 1, "--out", out).ok()
    assert arbo.Result.load(out).manifest["encoder"]["reranker"]["model"] == str(files / "cross")
    run(*link, "--config", plain, "--set", "candidates=5", "--out", out).ok()  # those of an encoder alone are free
