"""Gradients of a step of a dual-encoder: against the definition, through their cache, and shared by processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_builders import (
    PARTS,
    QUICK,
    Accelerator,
    encoder,
    gradients,
    log_of,
    of_two_processes,
    torch,
    trainer_of,
    without_dropout,
)

import arbo
from arbo.encoders.tower import Tower
from arbo.training.data import TrainingSet
from arbo.training.dual.trainer import train
from arbo.training.losses import LOSSES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sample() -> tuple[arbo.Corpus, arbo.Corpus, arbo.KnowledgeBase]:
    documents, kb = arbo.load_sample()
    return documents[:20], documents[80:], kb


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_parts_of_other_papers_do_not_depend_on_the_micro_batch(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, pooling: Any
) -> None:
    monkeypatch.setattr(torch.Tensor, "sign", lambda number: (100 * number).tanh())  # see test_training_fgsm.py
    documents, _, kb = sample
    found = []
    for micro_batch in (2, 10**6):
        settings = PARTS["all"] | {"micro_batch": micro_batch, "precision": "float32", "positives": "entity"}
        start = encoder(without_dropout(bert), pooling=pooling)
        it, batch = trainer_of(start, documents[:1], kb, tmp_path, **settings)
        it.add_gradients(0, batch, 1.0)
        found.append(gradients(it))
    assert float((found[0] - found[1]).norm()) < 1e-3 * float(found[1].norm())


@pytest.mark.parametrize("two_towers", [False, True])
@pytest.mark.parametrize("metric", ["dot", "cosine"])
def test_a_step_over_tokens_is_what_its_definition_says(
    bert: Tower, tmp_path: Path, sample: Any, two_towers: bool, metric: Any
) -> None:
    """Loss and gradient of one mention and one node at a time, without any padding."""
    documents, _, kb = sample
    start = encoder(without_dropout(bert), pooling="tokens", metric=metric)
    start = start.with_two_towers() if two_towers else start
    changes = {"positives": "entity", "negatives": "in-batch", "loss": "cross-entropy", "scale": 0.3}
    it, batch = trainer_of(start, documents[:2], kb, tmp_path, micro_batch=3, **changes)
    assert len({len(text.row.ids) for text in batch.texts}) > 2
    loss = it.add_gradients(0, batch, 1.0)
    own = gradients(it)
    it.optimizer.zero_grad()

    def tokens(place: int) -> Any:
        found = batch.texts[place].tower.model(torch.tensor([batch.texts[place].row.ids])).last_hidden_state[0]
        return torch.nn.functional.normalize(found, dim=1) if metric == "cosine" else found

    whole = torch.zeros(())
    for mention, nodes, exists in zip(batch.mention, batch.node, batch.exists, strict=True):
        query = tokens(mention)
        scores = torch.stack([(query @ tokens(node).T).max(dim=1).values.sum() for node in nodes[exists]])
        whole = whole - torch.log_softmax(0.3 * scores, dim=0)[0]
    whole.backward()
    assert loss == pytest.approx(float(whole.detach()), rel=1e-4)
    assert float((own - gradients(it)).norm()) < 1e-3 * float(own.norm())


@pytest.mark.parametrize("micro_batch", [1, 5, 31])
def test_parts_of_a_batch_give_the_same_gradients(bert: Tower, tmp_path: Path, sample: Any, micro_batch: int) -> None:
    documents, _, kb = sample
    still = encoder(without_dropout(bert))
    config = replace(QUICK, negatives="in-batch", steps=2)
    train(still, documents, kb, out=tmp_path / "whole", config=config)
    train(still, documents, kb, out=tmp_path / "parts", config=replace(config, micro_batch=micro_batch))
    for whole, parts in zip(log_of(tmp_path / "whole"), log_of(tmp_path / "parts"), strict=True):
        assert parts == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("two_towers", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_gradients_through_their_cache(
    bert: Tower, tmp_path: Path, sample: Any, two_towers: bool, precision: Any
) -> None:
    """With dropout: as if all parts were in memory at once, each with the dropout that it has."""
    documents, _, kb = sample
    start = encoder(bert).with_two_towers() if two_towers else encoder(bert)
    n_parts = 3
    micro_batch = -(-len(TrainingSet.of(arbo.Corpus.of(documents[:4]), kb).queries) // n_parts)
    it, batch = trainer_of(start, documents[:4], kb, tmp_path, micro_batch=micro_batch, precision=precision)
    loss = it.add_gradients(5, batch, 1.0)
    cached = gradients(it)
    it.optimizer.zero_grad()
    parts = []
    for i in range(n_parts):
        torch.manual_seed(int(np.random.SeedSequence([it.config.seed, 5, i]).generate_state(1)[0]))
        parts.append(it.prepared(batch, slice(i, None, n_parts)))
    at_once = torch.stack([parts[i % n_parts][i // n_parts] for i in range(len(batch.texts))])
    pairs = it.reader.pairs(batch, at_once, slice(None))
    whole = LOSSES["arborescence"](it.config.scale * pairs.scores, pairs.exists).sum()
    whole.backward()
    assert loss == pytest.approx(float(whole.detach()), rel=1e-5)
    tolerance = 1e-5 if precision == "float32" else 1e-2
    assert float((cached - gradients(it)).norm()) < tolerance * float(cached.norm())


@pytest.mark.parametrize("micro_batch", [1, 7, 10**6])
def test_a_text_of_a_batch_gets_its_gradient_once(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, micro_batch: int
) -> None:
    documents, _, kb = sample
    encode, read = Tower.encode, []

    def watched(tower: Tower, rows: Any, pooling: Any) -> Any:
        if torch.is_grad_enabled():
            read.append([tuple(row.ids) for row in rows])
        return encode(tower, rows, pooling)

    for negatives in ("in-batch", "knn"):
        changes = {"micro_batch": micro_batch, "negatives": negatives}
        it, batch = trainer_of(encoder(bert), documents[:4], kb, tmp_path, **changes)
        read.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Tower, "encode", watched)
            it.add_gradients(0, batch, 1.0)
        n_mentions, n_texts = len(batch.mention), len(batch.texts)
        distinct = [tuple(text.row.ids) for text in batch.texts]
        assert len(set(distinct)) == n_texts
        assert sorted(row for rows in read for row in rows) == sorted(distinct)
        n_parts = min(-(-n_mentions // micro_batch), n_texts)
        assert max(map(len, read)) <= -(-n_texts // n_parts)  # what is in memory at once


@pytest.mark.parametrize("batch_size", [1, 5])
def test_processes_share_a_batch(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    documents, _, kb = sample
    still = encoder(without_dropout(bert))
    config = replace(QUICK, batch_size=batch_size, micro_batch=2, steps=1)
    backward, n_backward = Accelerator.backward, []
    monkeypatch.setattr(Accelerator, "backward", lambda *given: n_backward.append(1) or backward(*given))
    train(still, documents, kb, out=tmp_path / "whole", config=config)
    monkeypatch.setattr(Accelerator, "num_processes", 2)
    shares = []
    for rank in (0, 1):
        n_backward.clear()
        monkeypatch.setattr(Accelerator, "process_index", rank)
        train(still, documents, kb, out=tmp_path / str(rank), config=config)
        shares.append(log_of(tmp_path / str(rank))[0]["loss"])
        assert n_backward  # without which the other process would wait for ever
    assert sum(shares) == pytest.approx(log_of(tmp_path / "whole")[0]["loss"], rel=1e-5)


@pytest.mark.parametrize("micro_batch", [2, 10**6])
def test_the_mean_of_the_gradients_of_processes_is_that_of_the_batch(
    bert: Tower, tmp_path: Path, sample: Any, monkeypatch: pytest.MonkeyPatch, micro_batch: int
) -> None:
    """As they take the mean of their gradients before they step."""
    documents, _, kb = sample

    def of_a_step() -> Any:
        changes = {"micro_batch": micro_batch, "negatives": "in-batch", "clip": None}
        it, _ = trainer_of(encoder(without_dropout(bert)), documents[:4], kb, tmp_path, **changes)
        it.step(0, it.data.queries)
        return gradients(it)

    whole = of_a_step()
    assert float((of_two_processes(monkeypatch, of_a_step) - whole).norm()) < 1e-4 * float(whole.norm())
