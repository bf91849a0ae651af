"""From vectors to losses, against numpy in float64: the hardest negatives, mixup."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from arbo.training.config import TrainingConfig

torch = pytest.importorskip("torch")

from arbo.training.losses import (  # noqa: E402
    LOSSES,
    Pairs,
    chosen,
    comparable,
    hardest,
    mention_losses,
)

seeds = st.integers(0, 2**32)


def drawn(seed, metric="dot", mentions=5, nodes=7, dim=4):
    rng = np.random.default_rng(seed)

    def vectors(*shape):
        return comparable(torch.tensor(rng.normal(size=(mentions, *shape, dim))), metric)

    exists = rng.random((mentions, nodes)) < 0.6
    exists[:, 0] = True
    exists[0, 1:] = mentions == 1  # the first of several has no negatives
    return Pairs(vectors(), vectors(nodes), torch.tensor(exists))


@settings(max_examples=60)
@given(seeds, st.integers(0, 8), st.integers(0, 8))
def test_the_hardest_have_the_highest_scores_and_others_are_the_first_of_the_rest(seed, n, n_others):
    rng = np.random.default_rng(seed)
    scores, exists = rng.integers(3, size=(4, 6)).astype(float), rng.random((4, 6)) < 0.6
    exists[:, 0] = True
    columns, kept = hardest(torch.tensor(scores), torch.tensor(exists), n, n_others)
    assert columns.shape == kept.shape == (4, 1 + min(n, 5) + min(n_others, 5))
    for row, places, exist, there in zip(scores, columns, kept, exists, strict=True):
        best = sorted((i for i in range(1, 6) if there[i]), key=lambda i: (-row[i], i))[:n]
        rest = [i for i in range(1, 6) if there[i] and i not in best]
        assert places[exist].tolist() == [0, *best, *rest[:n_others]]


@pytest.mark.parametrize("mixup", [None, 0.4])
def test_what_is_not_chosen_is_left_behind(mixup):
    """Losses and gradients are those of all nodes with the others masked, and only the chosen ones are held."""
    pairs = drawn(7, nodes=9)
    config = TrainingConfig(negatives="in-batch-mixed", n_negatives=4, hard_share=0.5, loss="bce", mixup=mixup)
    columns, exists = hardest(pairs.scores, pairs.exists, 2, 2)
    kept = torch.zeros_like(pairs.exists)
    for row, own in enumerate(zip(columns, exists, strict=True)):
        kept[row, own[0][own[1]]] = True
    found = []
    for make in (lambda of: chosen(of, config), lambda of: of._replace(exists=kept)):
        node = pairs.node.clone().requires_grad_()
        made = make(pairs._replace(node=node))
        losses = mention_losses(made, config, "dot")
        found.append((losses.detach(), *torch.autograd.grad(losses.sum(), node)))
    for own, expected in zip(*found, strict=True):
        torch.testing.assert_close(own, expected)
    few = chosen(pairs, config)
    assert few.node.shape[:2] == few.exists.shape == (5, 5)
    assert torch.equal(few.node[0], pairs.node[0, columns[0]])


def numpy_mixed(share, positive, negative, metric):
    """Equation 10."""
    strong = share * positive + negative
    return strong / np.linalg.norm(strong) if metric == "cosine" else strong


def numpy_losses(pairs, alpha, scale, metric):
    """BCE over the mixed-up vectors, equations 9 to 11, mention by mention."""
    values = []
    for query, nodes, exists in zip(*(part.numpy() for part in pairs), strict=True):
        positive, negatives = nodes[0], nodes[1:][exists[1:]]
        scores = np.exp(scale * (nodes[exists] @ query))
        loss = np.log1p(np.exp(-scale * (query @ positive)))
        for negative in negatives:
            strong = negative
            if alpha is not None:
                strong = numpy_mixed(alpha * scores[0] / scores.sum(), positive, negative, metric)
            loss += np.log1p(np.exp(scale * (query @ strong)))
        values.append(loss)
    return np.array(values)


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_loss_over_mixed_up_negatives(metric, alpha):
    pairs = drawn(1, metric)
    config = TrainingConfig(mixup=alpha, loss="bce", scale=1.5)
    expected = numpy_losses(pairs, alpha, 1.5, metric)
    np.testing.assert_allclose(mention_losses(pairs, config, metric).numpy(), expected, rtol=1e-5)
    plain = mention_losses(pairs, replace(config, mixup=None), metric)  # the control
    np.testing.assert_allclose(plain.numpy(), numpy_losses(pairs, None, 1.5, metric), rtol=1e-5)
    assert torch.equal(plain, LOSSES["bce"](1.5 * pairs.scores, pairs.exists))


def test_what_is_mixed_in_can_be_a_constant():
    """By inner products a mixed-up score is alpha W s_0 + s_i, of which the first has no gradient."""
    drawn_ = drawn(2)
    config = TrainingConfig(mixup=0.5, loss="bce", mixup_gradient=False)
    node, other = (drawn_.node.clone().requires_grad_() for _ in range(2))
    (gradient,) = torch.autograd.grad(mention_losses(drawn_._replace(node=node), config, "dot").sum(), node)
    scores = (drawn_.mention[:, None] * other).sum(2)
    share = 0.5 * torch.softmax(scores.masked_fill(~drawn_.exists, -torch.inf), 1)[:, 0] * scores[:, 0]
    by_hand = torch.cat([scores[:, :1], scores[:, 1:] + share.detach()[:, None]], 1)
    (expected,) = torch.autograd.grad(LOSSES["bce"](by_hand, drawn_.exists).sum(), other)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_gradients_are_those_of_the_definition():
    """By central differences of a loss that is written down text by text in float64."""
    pairs = drawn(5, mentions=2, nodes=4, dim=3)
    config = TrainingConfig(loss="bce", scale=0.8, mixup=0.4)
    node, mention = pairs.node.clone().requires_grad_(), pairs.mention.clone().requires_grad_()
    mention_losses(pairs._replace(node=node, mention=mention), config, "dot").sum().backward()
    for name, gradient in (("mention", mention.grad), ("node", node.grad)):
        for place in np.ndindex(*gradient.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = getattr(pairs, name).clone()
                moved[place] += step
                ends.append(numpy_losses(pairs._replace(**{name: moved}), 0.4, 0.8, "dot").sum())
            assert gradient[place].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-3, abs=1e-4)
