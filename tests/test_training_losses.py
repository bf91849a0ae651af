"""Losses and their gradients against references in float64 and cases computed by hand."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from arbo.training.config import TrainingConfig  # noqa: E402
from arbo.training.losses import LOSSES, arborescence_loss, cross_entropy, loss_of, proxy_loss  # noqa: E402

SOFTMAX = ["arborescence", "cross-entropy"]


def reference(name, scores, exists):
    scores = scores.masked_fill(~exists, -torch.inf)
    zero = torch.zeros((), dtype=scores.dtype)
    if name == "proxy":
        pushes = torch.cat([torch.zeros_like(scores[:, :1]), 32 * scores[:, 1:]], 1)
        return torch.logaddexp(zero, -32 * scores[:, 0]) + torch.logsumexp(pushes, 1)
    if name == "bce":
        return torch.logaddexp(zero, -scores[:, 0]) + torch.logaddexp(zero, scores[:, 1:]).sum(1)
    total = torch.logsumexp(scores, 1)
    loss = total - scores[:, 0]
    if name == "arborescence":
        for i in range(1, scores.shape[1]):
            rest = torch.logsumexp(torch.cat([scores[:, :i], scores[:, i + 1 :]], 1), 1)
            loss = loss + torch.where(exists[:, i], total - rest, 0.0)
    return loss


def drawn(scale, seed=0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(200, 8, generator=generator) * scale
    exists = torch.rand(200, 8, generator=generator) > 0.4
    exists[:, 0] = True
    exists[0, 1:] = False  # no negative at all
    return scores, exists


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [0.01, 1, 10, 100])
def test_values_and_gradients(name, scale):
    scores, exists = drawn(scale / 32 if name == "proxy" else scale)  # which multiplies by 32 itself
    own, other = scores.clone().requires_grad_(), scores.double().requires_grad_()
    ours, theirs = LOSSES[name](own, exists), reference(name, other, exists)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)
    (gradient,), (expected,) = torch.autograd.grad(ours.sum(), own), torch.autograd.grad(theirs.sum(), other)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_bfloat16_scores_are_computed_in_float32(name):
    scores, exists = drawn(30)
    low = scores.bfloat16()
    assert torch.equal(LOSSES[name](low, exists), LOSSES[name](low.float(), exists))


def test_by_hand():
    scores, exists = torch.tensor([[math.log(3), 0.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool)
    assert cross_entropy(scores, exists).item() == pytest.approx(-math.log(3 / 5))
    assert arborescence_loss(scores, exists).item() == pytest.approx(-math.log(3 / 5) - 2 * math.log(4 / 5))


@pytest.mark.parametrize("name", SOFTMAX)
def test_a_mention_without_negatives_teaches_nothing(name):
    scores = torch.tensor([[5.0, 1.0]], requires_grad=True)
    loss = LOSSES[name](scores, torch.tensor([[True, False]]))
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert loss.item() == 0
    assert gradient.tolist() == [[0, 0]]


@pytest.mark.parametrize("name", LOSSES)
def test_a_certain_mistake_has_a_finite_loss_and_a_gradient(name):
    scores = torch.tensor([[-500.0, 500.0, 0.0]], requires_grad=True)
    loss = LOSSES[name](scores, torch.ones(1, 3, dtype=torch.bool))
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    expected = {"cross-entropy": 1000, "arborescence": 1500, "proxy": 32000, "bce": 1000 + math.log(2)}
    assert loss.item() == pytest.approx(expected[name])
    assert gradient[0, 0] < 0 < gradient[0, 1]


@pytest.mark.parametrize("name", LOSSES)
def test_the_order_of_negatives_means_nothing(name):
    scores, exists = drawn(3)
    order = [0, *(1 + torch.randperm(7, generator=torch.Generator().manual_seed(1))).tolist()]
    torch.testing.assert_close(LOSSES[name](scores, exists), LOSSES[name](scores[:, order], exists[:, order]))


@pytest.mark.parametrize("name", LOSSES)
def test_shapes_that_do_not_fit(name):
    with pytest.raises(ValueError, match="mentions, 1"):
        LOSSES[name](torch.zeros(2, 3), torch.ones(2, 2, dtype=torch.bool))


def gradient_of(loss, scores, exists=None):
    scores = torch.tensor(scores, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        loss(scores, torch.ones_like(scores, dtype=bool) if exists is None else exists).sum(), scores
    )
    return gradient.numpy()


def test_the_gradient_of_the_cross_entropy_as_a_formula():
    """Equation 2 of the proxy paper."""
    scores = np.random.default_rng(0).normal(size=(50, 6))
    share = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = np.column_stack([share[:, 0] - 1, share[:, 1:]])
    np.testing.assert_allclose(gradient_of(cross_entropy, scores), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("alpha", "margin"), [(32, 0.0), (32, 0.1), (100, 0.05), (2, 0.5)])
def test_the_proxy_loss_and_its_gradient_as_formulas(alpha, margin):
    """Equations 3 and 4 of the proxy paper, over cosines."""
    scores = np.random.default_rng(0).uniform(-1, 1, size=(50, 6))
    near, far = alpha * (scores[:, 0] - margin), alpha * (scores[:, 1:] + margin)
    value = np.log1p(np.exp(-near)) + np.log1p(np.exp(far).sum(axis=1))
    push = alpha * np.exp(far) / (1 + np.exp(far).sum(axis=1, keepdims=True))
    expected = np.column_stack([-alpha * np.exp(-near) / (1 + np.exp(-near)), push])
    loss = loss_of(TrainingConfig(loss="proxy", alpha=alpha, margin=margin, scale=7.0), "cosine")
    given = torch.tensor(scores), torch.ones(50, 6, dtype=torch.bool)
    np.testing.assert_allclose(loss(*given).numpy(), value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient_of(loss, scores), expected, rtol=1e-4, atol=1e-5)


def test_the_proxy_loss_does_not_overflow():
    scores = torch.tensor([[-1.0, 1.0, 1.0], [1.0, -1.0, -1.0]], dtype=torch.bfloat16, requires_grad=True)
    loss = proxy_loss(scores, torch.ones(2, 3, dtype=torch.bool), alpha=100.0, margin=0.5)
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    assert loss.tolist() == pytest.approx([150 + 150 + math.log(2), 0], abs=1e-4)
    assert gradient[0].tolist() == [-100, 50, 50]
    assert gradient[1].abs().max() < 1e-15


@pytest.mark.parametrize("scores", [[[0.25]], [[0.25, 0.5]], [[0.25, 9.0, 9.0]]])
def test_without_negatives_a_mention_is_still_drawn_to_its_positive(scores):
    exists = torch.zeros_like(torch.tensor(scores), dtype=torch.bool)
    exists[:, 0] = True
    for name, alpha in (("proxy", 32), ("bce", 1)):
        assert LOSSES[name](torch.tensor(scores), exists).item() == pytest.approx(math.log1p(math.exp(-alpha / 4)))
        gradient = gradient_of(LOSSES[name], scores, exists)
        assert gradient[0, 0] == pytest.approx(-alpha / (1 + math.exp(alpha / 4)))
        assert not gradient[0, 1:].any()


def test_one_negative_by_hand():
    scores, exists = torch.tensor([[math.log(3), -math.log(4)]]), torch.ones(1, 2, dtype=torch.bool)
    expected = -math.log(3 / 4) - math.log(4 / 5)
    assert LOSSES["bce"](scores, exists).item() == pytest.approx(expected)
    assert proxy_loss(scores, exists, alpha=1.0).item() == pytest.approx(expected)  # the same with one negative


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "proxy"])
def test_similarities_are_scaled(name):
    scores, exists = drawn(1)
    scaled = loss_of(TrainingConfig(loss=name), "cosine")
    assert torch.equal(scaled(scores, exists), LOSSES[name](20 * scores, exists))
