"""FGSM: copies of positives and negatives, slightly perturbed in the worst direction (proxy paper, section 4.2).

The perturbation changes the input of the transformer: the sum of the word, position and segment embeddings of each
token. Each component moves by epsilon along the sign of the gradient of the text's similarity to the mention if the
text is a negative, and against it if it is a positive (equations 6 and 7). The weighted loss of the copies is added to
the loss of the originals (equation 8). A text has one copy for each mention that it is compared with.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from arbo.encoders.pooling import Pooling
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Tower, packs
from arbo.errors import UsageError


def check_perturbable(*towers: Tower) -> None:
    """Raise UsageError for a transformer without the layer `embeddings.LayerNorm`, whose inputs cannot be perturbed."""
    for tower in towers:
        _input_norm(tower)


def in_worst_direction(
    tower: Tower,
    rows: Sequence[TokenRow],
    pooling: Pooling,
    similarity: Callable[[Tensor, slice], Tensor],
    step: Tensor,
    seeds: Iterator[int],
) -> Tensor:
    """Encode texts after moving their inputs by ``step`` along the sign of the gradient of their similarity.

    ``step`` has the shape (texts,); where it is negative, inputs move against the gradient. The texts, ``rows`` of
    ascending length, are encoded in batches, see `Tower.encode_apart`: ``similarity`` maps the vectors of some texts
    and their places to (texts,), each text by itself. The next of ``seeds`` gives the texts of a batch and their moved
    copies the same dropout.
    """
    inputs: list[Tensor] = []

    def encoded(part: slice, seed: int, change: Callable[[Tensor], Tensor]) -> Tensor:
        torch.manual_seed(seed)
        with _inputs_changed(tower, change):
            return tower.encode(rows[part], pooling)

    def keep(summed: Tensor) -> Tensor:
        inputs[:] = [summed.detach().requires_grad_()]
        return inputs[0]

    def moved(part: slice, seed: int) -> Tensor:
        (gradient,) = torch.autograd.grad(similarity(encoded(part, seed, keep), part).sum(), inputs)
        return encoded(part, seed, lambda summed: summed + step[part, None, None] * gradient.sign())

    batches = packs([len(row.ids) for row in rows], tower.tokens_a_batch)
    return torch.cat([moved(part, next(seeds)) for part in batches])


@contextmanager
def _inputs_changed(tower: Tower, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Change the summed embeddings before they are normalised; their shape is (texts, tokens, hidden size)."""
    hook = _input_norm(tower).register_forward_pre_hook(lambda _, given: (change(given[0]),))
    try:
        yield
    finally:
        hook.remove()


def _input_norm(tower: Tower) -> torch.nn.Module:
    """Find the layer that receives the sum of a token's embeddings."""
    norm = getattr(getattr(tower.model, "embeddings", None), "LayerNorm", None)
    if not isinstance(norm, torch.nn.Module):
        raise UsageError(
            "regulariser 'fgsm' needs a model with the layer `embeddings.LayerNorm`, such as BERT or RoBERTa, not "
            f"{type(tower.model).__name__}; choose regulariser 'none', or another model"
        )
    return norm
