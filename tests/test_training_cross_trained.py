"""Training of cross-encoders from end to end: it learns, goes on, and takes candidates that fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from training_builders import QUICK_CROSS, Killed, cross, dying, log_of, tiny, torch, without_dropout

import arbo
from arbo.encoders.cross import CrossEncoder
from arbo.encoders.cross_config import CrossEncoderConfig
from arbo.encoders.tower import Tower
from arbo.errors import DataError, UsageError
from arbo.retrieval.reranking import rerank
from arbo.training.cross import train_reranker

pytestmark = pytest.mark.slow

EVERY_OTHER = arbo.RunOptions(checkpoint_every=2)


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:4], documents[80:84], kb


def test_a_tiny_cross_encoder_learns_the_sample(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    dev, linker, out = documents[60:], arbo.Linker(kb), tmp_path / "cross"
    reads = CrossEncoderConfig(mention="[CLS] {mention} [SEP]", entity="{name} [SEP]", max_length=32, candidates=4)
    start = CrossEncoder.of(without_dropout(bert), reads)
    before = [value.clone() for value in start.module.state_dict().values()]
    config = replace(QUICK_CROSS, epochs=2, batch_size=4, micro_batch=4)
    trained = train_reranker(start, linker, documents[:60], dev=dev, out=out, config=config)
    assert all(map(torch.equal, start.module.state_dict().values(), before))
    candidates = linker.candidates(dev, k=4)

    def scores(model: CrossEncoder) -> Any:
        return rerank(model, candidates, dev, kb).evaluate(dev, kb)

    assert scores(trained).recall[1] > scores(start).recall[1] + 0.1
    looks = [line for line in log_of(out) if "accuracy" in line]
    assert max(line["accuracy"] for line in looks) == pytest.approx(scores(trained).accuracy, abs=1e-9)
    best = max(looks, key=lambda line: line["accuracy"])
    assert best["accuracy_normalized"] == pytest.approx(scores(trained).accuracy_normalized, abs=1e-9)
    assert trained.config == reads
    assert trained.settings["weights"] == CrossEncoder.from_pretrained(out).settings["weights"]
    assert {path.name for path in tmp_path.iterdir()} == {"cross", "cross.log.jsonl"}


@pytest.fixture
def interrupted(bert: Tower, tmp_path: Path, sample: Any) -> Any:
    """Interrupt a training before its first step, and begin it again, changed."""
    documents, dev, kb = sample

    def run(**changes: Any) -> CrossEncoder:
        given = {"start": cross(bert), "linker": arbo.Linker(kb), "config": replace(QUICK_CROSS, steps=1)} | changes
        start, linker = given.pop("start"), given.pop("linker")
        return train_reranker(start, linker, documents[:1], dev=dev[:1], out=tmp_path / "cross", **given)

    with pytest.raises(Killed):
        run(options=arbo.RunOptions(announce=dying(0)))
    return run


@pytest.mark.parametrize("name", ["documents", "dev"])
def test_stale_candidates_are_refused(interrupted: Any, tmp_path: Path, sample: Any, name: str) -> None:
    documents, dev, kb = sample
    file = tmp_path / "cross.training" / f"candidates-{name}.parquet"
    whole = file.read_bytes()
    other = arbo.KnowledgeBase(list(kb)[:50])
    for linker, corpus, said in (
        (arbo.Linker(kb), documents[1:2], "other documents"),
        (arbo.Linker(other), {"documents": documents, "dev": dev}[name][:1], "another knowledge base"),
    ):
        linker.candidates(corpus, k=5).save(file)
        with pytest.raises(DataError, match=f"{file.name}: .*{said}.*, delete the file"):
            interrupted()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"not a readable file of candidates .*, delete the file"):
        interrupted()
    file.unlink()
    interrupted()
    assert not file.parent.exists()


def test_another_first_stage_is_another_training(interrupted: Any, bert: Tower, sample: Any) -> None:
    _, _, kb = sample
    for changes in (
        {"start": cross(bert, candidates=4)},
        {"linker": arbo.Linker(kb, arbo.NgramEncoder(alias_weight=0.1))},
        {"linker": arbo.Linker(kb, config=arbo.LinkerConfig(expand_abbreviations=False))},
        {"config": replace(QUICK_CROSS, seed=3)},
    ):
        with pytest.raises(UsageError, match="belongs to another training"):
            interrupted(**changes)
    interrupted(config=replace(QUICK_CROSS, steps=1, micro_batch=1))


def test_what_cannot_be_trained(bert: Tower, tmp_path: Path, sample: Any) -> None:
    documents, dev, kb = sample
    elsewhere = arbo.KnowledgeBase([arbo.Entity(f"Z{i}", "nothing of the kind") for i in range(2)])
    moved = [replace(document, domain="elsewhere") for document in dev]
    for start, linker, given, error, said in (
        (cross(bert), arbo.Linker(), {}, UsageError, "training needs a knowledge base"),
        (cross(bert, candidates=1), arbo.Linker(kb), {}, UsageError, "needs at least 2 candidates"),
        (cross(bert), arbo.Linker(list(kb)[:1]), {}, UsageError, "needs at least 2 entities to choose from, not 1"),
        (cross(bert), arbo.Linker(kb, reranker=cross(bert)), {}, UsageError, "this linker has a reranker"),
        (cross(bert), arbo.Linker(elsewhere), {}, DataError, "nothing to train on"),
        (cross(bert), arbo.Linker(kb), {"dev": moved}, DataError, "nothing to choose the best model by"),
    ):
        with pytest.raises(error, match=said):
            train_reranker(start, linker, documents, out=tmp_path / "cross", **given)
    assert not list(tmp_path.iterdir())


def test_a_knowledge_base_smaller_than_the_candidates(bert: Tower, tmp_path: Path) -> None:
    documents, kb = tiny([("E1",), ("E2", "E3"), None])
    trained = train_reranker(
        cross(bert, candidates=64),
        arbo.Linker(kb),
        documents,
        dev=documents,
        out=tmp_path / "cross",
        config=QUICK_CROSS,
    )
    assert trained.config.candidates == 64
