"""FGSM: copies of what a mention is compared with, changed a little in the worst direction.

The proxy paper, section 4.2. What is changed is the input of the transformer, the sum of the word, position and
segment embeddings of each token: that of a positive by epsilon against, of a negative by epsilon along the sign of the
gradient of its similarity to the mention (equations 6 and 7). The loss of the copies, by a weight, is added to that of
what they are copies of (equation 8). The direction depends on the mention, so that a text which several mentions are
compared with has a copy for each.

A copy has the dropout with which its direction was found. Nodes that are mentions are treated as entities are. For a
cross-encoder the input is that of a pair, and its similarity is the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from arbo.encoders.tower import Tower
from arbo.errors import UsageError


def check_perturbable(*towers: Tower) -> None:
    """Raise UsageError where the inputs of a model cannot be got at."""
    for tower in towers:
        _input_norm(tower)


def in_worst_direction(
    tower: Tower, encode: Callable[[], Tensor], similarity: Callable[[Tensor], Tensor], step: Tensor, seed: int
) -> Tensor:
    """Encode texts whose inputs are changed by a step times the sign of their similarity's gradient.

    Args:
        tower: what reads them.
        encode: reads them once; (texts, ...).
        similarity: of what it gives; (texts,), each depending on its own text.
        step: (texts,) by how much; below 0, less similar.
        seed: of dropout, which is the same for the direction and for the copies.

    """

    def encoded(change: Callable[[Tensor], Tensor]) -> Tensor:
        torch.manual_seed(seed)
        with _inputs_changed(tower, change):
            return encode()

    inputs: list[Tensor] = []

    def keep(summed: Tensor) -> Tensor:
        inputs.append(summed.detach().requires_grad_())
        return inputs[-1]

    (gradient,) = torch.autograd.grad(similarity(encoded(keep)).sum(), inputs)
    return encoded(lambda summed: summed + step[:, None, None] * gradient.sign())


@contextmanager
def _inputs_changed(tower: Tower, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change the summed embeddings, (texts, tokens, hidden size), before they are normalised."""
    hook = _input_norm(tower).register_forward_pre_hook(lambda _, given: (change(given[0]),))
    try:
        yield
    finally:
        hook.remove()


def _input_norm(tower: Tower) -> torch.nn.Module:
    """Find the layer that the sum of all embeddings of a token goes to."""
    norm = getattr(getattr(tower.model, "embeddings", None), "LayerNorm", None)
    if not isinstance(norm, torch.nn.Module):
        raise UsageError(
            "regulariser 'fgsm' needs a model with the layer `embeddings.LayerNorm`, such as BERT or RoBERTa, not "
            f"{type(tower.model).__name__}; choose 'none', or another model"
        )
    return norm
