"""Perturbed copies: their direction, and their gradients through all of the loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import arbo
from arbo.errors import UsageError

torch = pytest.importorskip("torch")

from training_builders import encoder, gradients, trainer_of, without_dropout  # noqa: E402

from arbo.encoders.templates import TokenRow  # noqa: E402
from arbo.encoders.tower import Tower  # noqa: E402
from arbo.training.dual import batches  # noqa: E402
from arbo.training.dual.batches import adversarial_nodes, perturbed  # noqa: E402
from arbo.training.dual.objective import chosen  # noqa: E402
from arbo.training.losses import comparable, loss_of  # noqa: E402

ROWS = [TokenRow([2, 7, 9, 8, 3], 1, 4), TokenRow([2, 12, 3], 1, 2)]
ONE = torch.ones(2, 1, dtype=torch.bool)


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize("pooling", ["mean", "tokens"])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_sum_of_embeddings_is_moved_by_the_sign_of_a_numerical_gradient(
    request: pytest.FixtureRequest, family: str, pooling: Any, metric: Any
) -> None:
    tower: Tower = request.getfixturevalue(family)
    counts = (3, 2) if pooling == "tokens" else (1, 1)  # the second anchor is padded
    anchor = torch.randn(2, counts[0], 64, generator=torch.Generator().manual_seed(0))
    anchor_mask = torch.arange(counts[0]) < torch.tensor(counts)[:, None]
    mask = torch.arange(5) < torch.tensor([[5], [3]]) if pooling == "tokens" else ONE
    seen: list[Any] = []
    hook = tower.model.embeddings.LayerNorm.register_forward_hook(lambda _, given, __: seen.append(given[0].detach()))
    perturbed(tower, ROWS, mask, anchor, anchor_mask, torch.tensor([0.01, -0.02]), pooling, metric, 0)
    hook.remove()
    moved = (seen[1] - seen[0]).numpy()
    assert not moved[1, 3:].any()  # where the second text has no token
    exact = tower.copy().model.double()

    def similarity(ids: list[int], to: Any, change: Any) -> Any:
        """Of copies of a text, each changed in its own way; (copies,)."""
        hook = exact.embeddings.LayerNorm.register_forward_pre_hook(lambda _, given: (given[0] + change,))
        with torch.no_grad():
            found = exact(input_ids=torch.tensor([ids] * len(change))).last_hidden_state.numpy()
        hook.remove()
        if pooling == "mean":
            found = found.mean(axis=1, keepdims=True)
        if metric == "cosine":
            found /= np.linalg.norm(found, axis=2, keepdims=True)
        return (found @ to.double().numpy().T).max(axis=1).sum(axis=1)

    rng = np.random.default_rng(0)
    for i, (row, step) in enumerate(zip(ROWS, (0.01, -0.02), strict=True)):
        token, number = rng.integers(len(row.ids), size=40), rng.integers(64, size=40)
        change = torch.zeros(80, len(row.ids), 64, dtype=torch.double)
        change[range(40), token, number] = 1e-5
        change[range(40, 80), token, number] = -1e-5
        higher, lower = np.split(similarity(row.ids, anchor[i, : counts[i]], change), 2)
        slope = (higher - lower) / 2e-5
        clear = np.abs(slope) > 1e-4
        assert clear.sum() > 30
        expected = (step * np.sign(slope))[clear]
        np.testing.assert_allclose(moved[i][token, number][clear], expected, rtol=1e-3)


def test_a_copy_has_the_dropout_with_which_its_direction_was_found(bert: Tower) -> None:
    tower = bert.copy()
    tower.model.train()
    anchor = torch.randn(2, 1, 64)
    torch.manual_seed(5)
    clean = tower.encode(ROWS, "mean")
    assert torch.equal(perturbed(tower, ROWS, ONE, anchor, ONE, torch.zeros(2), "mean", "dot", 5), clean)
    nearer = perturbed(tower, ROWS, ONE, anchor, ONE, torch.tensor([0.001, -0.001]), "mean", "dot", 5)
    assert (((nearer - clean) * anchor).sum((1, 2)) * torch.tensor([1, -1]) > 0).all()


def by_definition(it: Any, batch: Any) -> Any:
    """Loss and gradients of equation 8, one mention and one node at a time, through embeddings that are given."""
    pooling, metric, config = it.model.config.pooling, it.model.metric, it.config
    assert pooling in ("mean", "tokens")

    def vector(text: Any, change: Any = 0.0) -> tuple[Any, Any]:
        model, ids = text.tower.model, torch.tensor([text.row.ids])
        words = model.get_input_embeddings()(ids) + change
        hidden = model(inputs_embeds=words).last_hidden_state[0]
        return words, comparable(hidden if pooling == "tokens" else hidden.mean(0, keepdim=True), metric)

    def score(a: Any, b: Any) -> Any:
        return (a @ b.T).max(dim=1).values.sum()

    total = torch.zeros(())
    loss = loss_of(config, metric)
    for mention, nodes, exists in zip(batch.mention, batch.node, batch.exists, strict=True):
        _, anchor = vector(batch.texts[mention])
        clean, moved = [], []
        for place, node in enumerate(nodes[exists]):
            words, found = vector(batch.texts[node])
            (gradient,) = torch.autograd.grad(score(anchor.detach(), found), words, retain_graph=True)
            sign = -gradient.sign() if place == 0 else gradient.sign()
            clean.append(score(anchor, found))
            moved.append(score(anchor, vector(batch.texts[node], config.epsilon * sign)[1]))
        whole = torch.ones(1, len(clean), dtype=torch.bool)
        total = total + loss(torch.stack(clean)[None], whole)[0]
        total = total + config.adversarial_weight * loss(torch.stack(moved)[None], whole)[0]
    total.backward()
    return total.detach()


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
@pytest.mark.parametrize(("two_towers", "micro_batch"), [(False, 1), (True, 2), (False, 10**6)])
@pytest.mark.slow
def test_gradients_of_all_of_the_loss(
    bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_towers: bool, micro_batch: int, pooling: Any
) -> None:
    """With something smooth as sign: which one a number near 0 has, rounding decides."""
    monkeypatch.setattr(torch.Tensor, "sign", lambda number: (100 * number).tanh())
    documents, kb = arbo.load_sample()
    start = encoder(without_dropout(bert), pooling=pooling)
    changes = {
        "positives": "entity",
        "regulariser": "fgsm",
        "adversarial_weight": 0.7,
        "loss": "proxy",
        "alpha": 4.0,
        "negatives": "in-batch",
    }
    start = start.with_two_towers() if two_towers else start
    it, batch = trainer_of(start, documents[:1], kb, tmp_path, micro_batch=micro_batch, **changes)
    loss = it.add_gradients(0, batch, 1.0)
    own = gradients(it)
    it.optimizer.zero_grad()
    assert loss == pytest.approx(float(by_definition(it, batch)), rel=1e-4)
    expected = gradients(it)
    assert float((own - expected).norm()) < 1e-3 * float(expected.norm())
    plain = replace(it.config, regulariser="none")
    it.config = plain
    assert it.add_gradients(0, batch, 1.0) <= loss / 1.7  # the copies are harder, or at least as hard


def test_each_mention_has_copies_of_its_own(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    it, batch = trainer_of(encoder(without_dropout(bert)), documents[:2], kb, tmp_path, negatives="in-batch")
    pairs = it.reader.pairs(batch, it.reader.encode(batch, slice(None)), slice(None))
    nodes = adversarial_nodes(it.reader, batch, pairs, 1e-4, 0)
    assert not nodes[~pairs.exists].any()
    moved = ((nodes - pairs.node) * pairs.mention).sum((2, 3))
    assert (moved[:, 0] < 0).all()
    assert (moved[:, 1:][pairs.exists[:, 1:]] > 0).all()
    text = batch.node[0, 1:][batch.exists[0, 1:]][0]
    copies = nodes[torch.from_numpy((batch.node == text) & batch.exists)]
    assert len(copies) > 1
    assert len(torch.unique(copies, dim=0)) == len(
        np.unique(batch.mention[((batch.node == text) & batch.exists).any(1)])
    )


def test_hard_negatives_alone_are_perturbed(bert: Tower, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With something smooth as sign, as above."""
    monkeypatch.setattr(torch.Tensor, "sign", lambda number: (100 * number).tanh())
    documents, kb = arbo.load_sample()
    it, batch = trainer_of(encoder(without_dropout(bert)), documents[:2], kb, tmp_path, negatives="in-batch")
    pairs = it.reader.pairs(batch, it.reader.encode(batch, slice(None)), slice(None))
    few = chosen(pairs, replace(it.config, negatives="in-batch-hard", n_negatives=2))
    read: list[Any] = []
    monkeypatch.setattr(
        batches, "perturbed", lambda tower, rows, *rest: (read.extend(rows), perturbed(tower, rows, *rest))[1]
    )
    nodes = adversarial_nodes(it.reader, batch, few, 1e-4, 0)
    assert nodes.shape == few.node.shape
    assert len(read) == few.exists.sum() < pairs.exists.sum()
    whole = adversarial_nodes(it.reader, batch, pairs, 1e-4, 0)
    for mention, place in few.exists.nonzero().tolist():
        (column,) = ((pairs.text[mention] == few.text[mention, place]) & pairs.exists[mention]).nonzero().ravel()
        torch.testing.assert_close(nodes[mention, place], whole[mention, column])


def test_a_model_without_such_a_layer(bert: Tower, tmp_path: Path) -> None:
    documents, kb = arbo.load_sample()
    other = bert.copy()
    other.model.embeddings.norm = other.model.embeddings.LayerNorm
    del other.model.embeddings.LayerNorm
    config = arbo.TrainingConfig(regulariser="fgsm")
    with pytest.raises(UsageError, match=r"embeddings\.LayerNorm.* BertModel; choose regulariser 'none'"):
        arbo.train(encoder(other), documents, kb, out=tmp_path / "model", config=config)
    assert not list(tmp_path.iterdir())
