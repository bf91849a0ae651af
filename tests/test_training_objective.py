"""What lies between vectors and a loss, against numpy in float64: the hardest negatives, mixing up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from arbo.training.config import TrainingConfig  # noqa: E402
from arbo.training.hardest import hardest  # noqa: E402
from arbo.training.losses import LOSSES  # noqa: E402
from arbo.training.mixup import mixed_up, positive_share  # noqa: E402
from arbo.training.objective import Pairs, chosen, comparable, mention_losses  # noqa: E402


def drawn(seed, metric="dot", mentions=5, nodes=7, dim=4):
    rng = np.random.default_rng(seed)
    mention, node = rng.normal(size=(mentions, 1, dim)), rng.normal(size=(mentions, nodes, dim))
    exists = rng.random((mentions, nodes)) < 0.6
    exists[:, 0] = True
    return Pairs(*(comparable(torch.tensor(array), metric) for array in (mention, node)), torch.tensor(exists))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 8))
def test_the_hardest_are_those_with_the_highest_scores(seed, n):
    rng = np.random.default_rng(seed)
    scores, exists = rng.integers(3, size=(4, 6)).astype(float), rng.random((4, 6)) < 0.6
    exists[:, 0] = True
    kept = hardest(torch.tensor(scores), torch.tensor(exists), n).numpy()
    for row, own, there in zip(scores, kept, exists, strict=True):
        best = sorted((i for i in range(1, 6) if there[i]), key=lambda i: (-row[i], i))[:n]
        assert np.flatnonzero(own).tolist() == [0, *sorted(best)]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 8), st.integers(0, 8))
def test_others_than_the_hardest_are_the_first_of_the_rest(seed, n, n_others):
    rng = np.random.default_rng(seed)
    scores, exists = torch.tensor(rng.integers(3, size=(4, 6)).astype(float)), torch.tensor(rng.random((4, 6)) < 0.6)
    exists[:, 0] = True
    hard, both = hardest(scores, exists, n).numpy(), hardest(scores, exists, n, n_others).numpy()
    for own, kept, there in zip(hard, both, exists.numpy(), strict=True):
        rest = [i for i in range(6) if there[i] and not own[i]]
        assert np.flatnonzero(kept).tolist() == sorted([*np.flatnonzero(own), *rest[:n_others]])


def test_only_the_hard_ones_of_a_batch_look_at_the_scores():
    pairs = drawn(0)
    for negatives in ("in-batch", "knn"):
        assert chosen(pairs, TrainingConfig(negatives=negatives, n_negatives=1)) is pairs
    hard = chosen(pairs, TrainingConfig(negatives="in-batch-hard", n_negatives=1))
    assert torch.equal(hard.exists, hardest(pairs.scores, pairs.exists, 1))
    mixed = chosen(pairs, TrainingConfig(negatives="in-batch-mixed", n_negatives=4, hard_share=0.25))
    assert torch.equal(mixed.exists, hardest(pairs.scores, pairs.exists, 1, 3))


def numpy_losses(pairs, alpha, scale, metric):
    """BCE over the mixed-up vectors, equations 9 to 11, mention by mention."""
    values = []
    for (mention,), nodes, exists in zip(*(part.numpy().astype(np.float64) for part in pairs), strict=True):
        positive, negatives = nodes[0], nodes[1:][exists[1:] > 0]
        scores = np.exp(scale * np.array([mention @ positive, *(mention @ negative for negative in negatives)]))
        loss = np.log1p(np.exp(-scale * mention @ positive))
        for negative in negatives:
            strong = alpha * scores[0] / scores.sum() * positive + negative
            if metric == "cosine":
                strong /= np.linalg.norm(strong)
            loss += np.log1p(np.exp(scale * mention @ strong))
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
    np.testing.assert_allclose(plain.numpy(), numpy_losses(pairs, 0.0, 1.5, metric), rtol=1e-5)
    assert torch.equal(plain, LOSSES["bce"](1.5 * pairs.scores, pairs.exists))


def test_mixing_up_is_no_average():
    node = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [3.0, 3.0]]])
    assert mixed_up(node, torch.tensor([0.5])).tolist() == [[[1.0, 0.0], [0.5, 1.0], [3.5, 3.0]]]


def test_the_share_of_the_positive():
    scores = torch.tensor([[0.0, 0.0, 7.0], [np.log(3), 0.0, 0.0], [1.0, 2.0, 2.0], [900.0, -900.0, 0.0]])
    exists = torch.tensor([[True, True, False], [True, True, True], [True, False, False], [True, True, True]])
    assert positive_share(scores, exists).tolist() == pytest.approx([1 / 2, 3 / 5, 1, 1])


def test_what_is_mixed_in_is_differentiated_or_not():
    """By inner products a mixed-up score is alpha W s_0 + s_i; of which the first is a constant, or is not."""
    found = drawn(2)
    config = TrainingConfig(mixup=0.5, loss="bce")
    for through in (True, False):
        node = found.node.clone().requires_grad_()
        pairs = found._replace(node=node)
        loss = mention_losses(pairs, replace(config, mixup_gradient=through), "dot").sum()
        (gradient,) = torch.autograd.grad(loss, node)
        other = found.node.clone().requires_grad_()
        scores = (found.mention * other).sum(2)
        share = 0.5 * torch.softmax(scores.masked_fill(~found.exists, -torch.inf), 1)[:, 0] * scores[:, 0]
        mixed = scores[:, 1:] + (share if through else share.detach())[:, None]
        by_hand = torch.cat([scores[:, :1], mixed], 1)
        (expected,) = torch.autograd.grad(LOSSES["bce"](by_hand, found.exists).sum(), other)
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)


def test_a_mention_without_negatives_has_nothing_to_mix_up():
    pairs = drawn(3)
    alone = pairs._replace(exists=torch.eye(1, 7, dtype=torch.bool).expand(5, 7))
    config = TrainingConfig(mixup=0.3, loss="bce")
    expected = np.log1p(np.exp(-alone.scores[:, 0].numpy()))
    np.testing.assert_allclose(mention_losses(alone, config, "dot").numpy(), expected, rtol=1e-5)
