"""From vectors to losses and gradients, against references in float64 and cases computed by hand."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from training_builders import torch

from arbo.training.config import TrainingConfig
from arbo.training.losses import LOSSES, Pairs, chosen, comparable, focal_loss, hardest, mention_losses, nt_xent

SOFTMAX, PROXY = ["arborescence", "cross-entropy"], LOSSES["proxy"]


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


def test_similarities_are_scaled():
    """The proxy loss has its own scale and margin: equations 3 and 4 of its paper, over cosines."""
    scores, exists = drawn(1)
    for alpha, margin in ((32, 0.0), (32, 0.1), (100, 0.05), (2, 0.5)):
        loss = configured("cosine", loss="proxy", scale=alpha, margin=margin)
        assert_as_reference(loss, "proxy", scores.tanh(), exists, alpha=alpha, margin=margin)
    for name in LOSSES.keys() - {"proxy"}:
        for how, metric, scale in (({}, "cosine", 20), ({}, "dot", 1), ({"scale": 0.3}, "cosine", 0.3)):
            loss = configured(metric, loss=name, **how)
            assert torch.equal(loss(scores, exists), LOSSES[name](scale * scores, exists))


def test_values_by_hand():
    for loss, scores, expected in (
        (LOSSES["cross-entropy"], [math.log(3), 0, 0], -math.log(3 / 5)),
        (LOSSES["arborescence"], [math.log(3), 0, 0], -math.log(3 / 5) - 2 * math.log(4 / 5)),
        (LOSSES["bce"], [math.log(3), -math.log(4)], -math.log(3 / 4) - math.log(4 / 5)),
        (lambda *given: PROXY(*given, alpha=1.0), [math.log(3), -math.log(4)], -math.log(3 / 4) - math.log(4 / 5)),
        (lambda *given: PROXY(*given, alpha=100.0, margin=0.5), [-1, 1, 1], 150 + 150 + math.log(2)),
        (lambda *given: PROXY(*given, alpha=100.0, margin=0.5), [1, -1, -1], 0),
        (LOSSES["cross-entropy"], [-500, 500, 0], 1000),
        (LOSSES["arborescence"], [-500, 500, 0], 1500),
        (LOSSES["proxy"], [-500, 500, 0], 32000),
        (LOSSES["bce"], [-500, 500, 0], 1000 + math.log(2)),
    ):
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


def drawn_pairs(seed, metric="dot", mentions=5, nodes=7, dim=4):
    rng = np.random.default_rng(seed)

    def vectors(*shape):
        return comparable(torch.tensor(rng.normal(size=(mentions, *shape, dim))), metric)

    exists = rng.random((mentions, nodes)) < 0.6
    exists[:, 0] = True
    exists[0, 1:] = mentions == 1  # the first of several has no negatives
    return Pairs(vectors(), vectors(nodes), torch.tensor(exists))


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 8), st.integers(0, 8))
def test_the_hardest_have_the_highest_scores_and_others_are_the_first_of_the_rest(seed, n, n_others):
    rng = np.random.default_rng(seed)
    scores, exists = rng.integers(3, size=(4, 6)).astype(float), rng.random((4, 6)) < 0.6
    exists[:, 0] = True
    columns, kept = hardest(torch.tensor(scores), torch.tensor(exists), n, n_others)
    assert columns.shape == kept.shape == (4, 1 + min(n, 5) + min(n_others, 5))
    for row, places, exist, there in zip(scores, columns, kept, exists, strict=True):
        best = sorted((i for i in range(1, 6) if there[i]), key=lambda i: (-row[i], i))[:n]
        assert places[exist].tolist() == [0, *best, *[i for i in range(1, 6) if there[i] and i not in best][:n_others]]


@pytest.mark.parametrize("mixup", [None, 0.4])
def test_what_is_not_chosen_is_left_behind(mixup):
    """Losses and gradients are those of all nodes with the others masked, and only the chosen ones are held."""
    pairs = drawn_pairs(7, nodes=9)
    config = TrainingConfig(negatives="in-batch-mixed", n_negatives=4, hard_share=0.5, loss="bce", mixup=mixup)
    columns, exists = hardest(pairs.scores, pairs.exists, 2, 2)
    kept = torch.zeros_like(pairs.exists)
    for row, own in enumerate(zip(columns, exists, strict=True)):
        kept[row, own[0][own[1]]] = True
    found = []
    for make in (lambda of: chosen(of, config), lambda of: of._replace(exists=kept)):
        node = pairs.node.clone().requires_grad_()
        losses = mention_losses(make(pairs._replace(node=node)), config, "dot")
        found.append((losses.detach(), *torch.autograd.grad(losses.sum(), node)))
    for own, expected in zip(*found, strict=True):
        torch.testing.assert_close(own, expected)
    few = chosen(pairs, config)
    assert few.node.shape[:2] == few.exists.shape == (5, 5)
    assert torch.equal(few.node[0], pairs.node[0, columns[0]])


def numpy_losses(pairs, alpha, scale, metric):
    """BCE over the mixed-up vectors, equations 9 to 11, mention by mention."""
    values = []
    for query, nodes, exists in zip(*(part.numpy() for part in pairs), strict=True):
        positive, negatives = nodes[0], nodes[1:][exists[1:]]
        scores, loss = np.exp(scale * (nodes[exists] @ query)), np.log1p(np.exp(-scale * (query @ positive)))
        for negative in negatives:
            strong = negative + (alpha or 0) * scores[0] / scores.sum() * positive
            if alpha is not None and metric == "cosine":
                strong /= np.linalg.norm(strong)
            loss += np.log1p(np.exp(scale * (query @ strong)))
        values.append(loss)
    return np.array(values)


@pytest.mark.parametrize("metric", ["dot", "cosine"])
@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_loss_over_mixed_up_negatives(metric, alpha):
    pairs, config = drawn_pairs(1, metric), TrainingConfig(mixup=alpha, loss="bce", scale=1.5)
    expected = numpy_losses(pairs, alpha, 1.5, metric)
    np.testing.assert_allclose(mention_losses(pairs, config, metric).numpy(), expected, rtol=1e-5)
    plain = mention_losses(pairs, replace(config, mixup=None), metric)  # the control
    np.testing.assert_allclose(plain.numpy(), numpy_losses(pairs, None, 1.5, metric), rtol=1e-5)
    assert torch.equal(plain, LOSSES["bce"](1.5 * pairs.scores, pairs.exists))


def test_what_is_mixed_in_can_be_a_constant():
    """By inner products a mixed-up score is alpha W s_0 + s_i, of which the first has no gradient."""
    drawn_, config = drawn_pairs(2), TrainingConfig(mixup=0.5, loss="bce", mixup_gradient=False)
    node, other = (drawn_.node.clone().requires_grad_() for _ in range(2))
    (gradient,) = torch.autograd.grad(mention_losses(drawn_._replace(node=node), config, "dot").sum(), node)
    scores = (drawn_.mention[:, None] * other).sum(2)
    share = 0.5 * torch.softmax(scores.masked_fill(~drawn_.exists, -torch.inf), 1)[:, 0] * scores[:, 0]
    by_hand = torch.cat([scores[:, :1], scores[:, 1:] + share.detach()[:, None]], 1)
    (expected,) = torch.autograd.grad(LOSSES["bce"](by_hand, drawn_.exists).sum(), other)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_gradients_are_those_of_the_definition():
    """By central differences of a loss that is written down text by text in float64."""
    pairs, config = drawn_pairs(5, mentions=2, nodes=4, dim=3), TrainingConfig(loss="bce", scale=0.8, mixup=0.4)
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
