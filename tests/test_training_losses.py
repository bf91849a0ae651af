"""Losses and their gradients against references in float64 and cases computed by hand."""

import math
from functools import partial

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from arbo.training.config import TrainingConfig  # noqa: E402
from arbo.training.losses import LOSSES, Pairs, focal_loss, mention_losses, nt_xent, proxy_loss  # noqa: E402

SOFTMAX = ["arborescence", "cross-entropy"]


def reference(name, scores, exists, alpha=32.0, margin=0.0):
    scores = scores.masked_fill(~exists, -torch.inf)
    zero = torch.zeros((), dtype=scores.dtype)
    if name == "proxy":
        pushes = torch.cat([torch.zeros_like(scores[:, :1]), alpha * (scores[:, 1:] + margin)], 1)
        return torch.logaddexp(zero, -alpha * (scores[:, 0] - margin)) + torch.logsumexp(pushes, 1)
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


def value_and_gradient(loss, scores, exists=None):
    scores = scores.clone().requires_grad_()
    values = loss(scores, torch.ones_like(scores, dtype=bool) if exists is None else exists)
    return values.detach(), torch.autograd.grad(values.sum(), scores)[0]


def assert_as_reference(loss, name, scores, exists, **settings):
    ours = value_and_gradient(loss, scores, exists)
    theirs = value_and_gradient(lambda *given: reference(name, *given, **settings), scores.double(), exists)
    torch.testing.assert_close(ours[0].double(), theirs[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[1].double(), theirs[1], rtol=1e-4, atol=1e-5)


def configured(metric, **settings):
    of_pairs = partial(mention_losses, config=TrainingConfig(**settings), metric=metric)
    return lambda scores, exists: of_pairs(Pairs(torch.ones(len(scores), 1), scores[..., None], exists))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [0.01, 1, 10, 100])
def test_values_and_gradients(name, scale):
    scores, exists = drawn(scale / 32 if name == "proxy" else scale)  # which multiplies by 32 itself
    assert_as_reference(LOSSES[name], name, scores, exists)
    order = [0, *(1 + torch.randperm(7, generator=torch.Generator().manual_seed(1))).tolist()]
    torch.testing.assert_close(LOSSES[name](scores, exists), LOSSES[name](scores[:, order], exists[:, order]))
    low = scores.bfloat16()  # computed in float32
    assert torch.equal(LOSSES[name](low, exists), LOSSES[name](low.float(), exists))


@pytest.mark.parametrize(("alpha", "margin"), [(32, 0.0), (32, 0.1), (100, 0.05), (2, 0.5)])
def test_the_proxy_loss_has_its_own_scale_and_margin(alpha, margin):
    """Equations 3 and 4 of the proxy paper, over cosines."""
    loss = configured("cosine", loss="proxy", scale=alpha, margin=margin)
    scores, exists = drawn(1)
    assert_as_reference(loss, "proxy", scores.tanh(), exists, alpha=alpha, margin=margin)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "proxy"])
def test_similarities_are_scaled(name):
    scores, exists = drawn(1)
    for settings, metric, scale in (({}, "cosine", 20), ({}, "dot", 1), ({"scale": 0.3}, "cosine", 0.3)):
        loss = configured(metric, loss=name, **settings)
        assert torch.equal(loss(scores, exists), LOSSES[name](scale * scores, exists))


@pytest.mark.parametrize(
    ("loss", "scores", "expected"),
    [
        (LOSSES["cross-entropy"], [math.log(3), 0, 0], -math.log(3 / 5)),
        (LOSSES["arborescence"], [math.log(3), 0, 0], -math.log(3 / 5) - 2 * math.log(4 / 5)),
        (LOSSES["bce"], [math.log(3), -math.log(4)], -math.log(3 / 4) - math.log(4 / 5)),
        (lambda *given: proxy_loss(*given, alpha=1.0), [math.log(3), -math.log(4)], -math.log(3 / 4) - math.log(4 / 5)),
        (lambda *given: proxy_loss(*given, alpha=100.0, margin=0.5), [-1, 1, 1], 150 + 150 + math.log(2)),
        (lambda *given: proxy_loss(*given, alpha=100.0, margin=0.5), [1, -1, -1], 0),
        (LOSSES["cross-entropy"], [-500, 500, 0], 1000),
        (LOSSES["arborescence"], [-500, 500, 0], 1500),
        (LOSSES["proxy"], [-500, 500, 0], 32000),
        (LOSSES["bce"], [-500, 500, 0], 1000 + math.log(2)),
    ],
)
def test_values_by_hand(loss, scores, expected):
    for dtype in (torch.float32, torch.bfloat16):
        if dtype == torch.float32 or abs(scores[0]) == 1:  # else bfloat16 rounds the scores
            (value,), (gradient,) = value_and_gradient(loss, torch.tensor([scores], dtype=dtype))
            assert value.item() == pytest.approx(expected, rel=1e-6, abs=1e-4)
            assert gradient.isfinite().all()
            assert gradient[0] < 0 < gradient[1] or expected == 0  # a certain mistake has a gradient


@pytest.mark.parametrize("scores", [[[0.25]], [[0.25, 0.5]], [[0.25, 9.0, 9.0]]])
@pytest.mark.parametrize(("name", "alpha"), [("proxy", 32), ("bce", 1), ("arborescence", 0), ("cross-entropy", 0)])
def test_without_negatives_a_mention_is_drawn_to_its_positive_except_by_a_softmax(name, alpha, scores):
    exists = torch.zeros_like(torch.tensor(scores), dtype=torch.bool)
    exists[:, 0] = True
    value, gradient = value_and_gradient(LOSSES[name], torch.tensor(scores), exists)
    assert value.item() == pytest.approx(0 if name in SOFTMAX else math.log1p(math.exp(-alpha / 4)))
    assert gradient[0, 0].item() == pytest.approx(-alpha / (1 + math.exp(alpha / 4)))
    assert not gradient[0, 1:].any()


@pytest.mark.parametrize("n_positives", [0, 1, 3])
def test_each_positive_is_contrasted_with_all_negatives(n_positives):
    rng = np.random.default_rng(0)
    scores = 10 * rng.normal(size=(50, n_positives + 4))
    exists = rng.random(scores.shape) < 0.6
    exists[0, n_positives:] = False
    losses, gradient = value_and_gradient(
        lambda *given: nt_xent(*given, n_positives), torch.from_numpy(scores).float(), torch.from_numpy(exists)
    )
    assert gradient.isfinite().all()
    assert not gradient[~torch.from_numpy(exists)].any()
    for row, there, loss in zip(scores, exists, losses, strict=True):
        rest = np.exp(row[n_positives:][there[n_positives:]]).sum()
        own = np.exp(row[:n_positives][there[:n_positives]])
        assert float(loss) == pytest.approx(np.mean(-np.log(own / (own + rest))) if len(own) else 0, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (0.5, 0.0)])
@pytest.mark.parametrize("yes", [True, False])
def test_the_focal_loss(alpha, gamma, yes):
    logits = np.array([-80.0, -3, -0.1, 0, 2, 50])
    p = 1 / (1 + np.exp(-logits if yes else logits))
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = -(alpha if yes else 1 - alpha) * (1 - p) ** gamma * np.log(p)
    losses = focal_loss(torch.tensor(logits).float(), torch.full((6,), yes), alpha, gamma)
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-4, atol=1e-7)
