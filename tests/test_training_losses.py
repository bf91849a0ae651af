"""Losses and their gradients against references in float64 and cases computed by hand."""

import math

import pytest

torch = pytest.importorskip("torch")

from arbo.training.losses import LOSSES, arborescence_loss, cross_entropy  # noqa: E402


def reference(name, scores, exists):
    scores = scores.masked_fill(~exists, -torch.inf)
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
    scores, exists = drawn(scale)
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


@pytest.mark.parametrize("name", LOSSES)
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
    assert loss.item() == pytest.approx({"cross-entropy": 1000, "arborescence": 1500}[name])
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
