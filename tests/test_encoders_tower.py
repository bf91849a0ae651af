"""The tower: vectors do not depend on how texts are batched, pooled vectors are what their definition says."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from builders import projecting

from arbo.encoders.encoder_config import Pooling
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import Precision, Tower
from arbo.errors import ArboError, DataError

POOLINGS = (*get_args(Pooling), None)  # None for the vectors of all tokens


def rows(tower: Tower, n: int = 24, longest: int = 50) -> list[TokenRow]:
    """Random rows of many lengths, each with a focus."""
    rng = np.random.default_rng(0)
    made = []
    for length in rng.integers(1, longest, n):
        begin, end = np.sort(rng.integers(0, length + 1, 2))
        made.append(TokenRow(rng.integers(5, len(tower.tokenizer), length).tolist(), int(begin), int(end)))
    return made


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_batches_of_any_size(kind: str, pooling: Any, request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tower: Tower = request.getfixturevalue(kind)
    made = rows(tower)
    alone = np.concatenate([tower.embed([row], pooling) for row in made])
    assert alone.dtype == np.float32
    back = np.concatenate([tower.embed([row], pooling) for row in made[::-1]])
    np.testing.assert_allclose(tower.embed(made[::-1], pooling), back, atol=1e-5)
    for tokens in (1, 60, 500, 10**6):
        monkeypatch.setattr(Tower, "tokens_a_batch", tokens)
        np.testing.assert_allclose(tower.embed(made, pooling), alone, atol=1e-5)


class Narrow:
    """A model that runs out of memory above some number of tokens."""

    def __init__(self, model: Any, n: int, error: RuntimeError) -> None:
        self.model, self.n, self.error, self.failed = model, n, error, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, **given: torch.Tensor) -> Any:
        if given["input_ids"].numel() > self.n:
            self.failed += 1
            raise self.error
        return self.model(**given)


MEMORY = [
    torch.OutOfMemoryError("no"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("MPS backend out of memory (MPS allocated: 9 GB)"),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes. Error code 12"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
]


@pytest.mark.parametrize("error", MEMORY)
def test_out_of_memory_halves_the_batch_down_to_one_text(bert: Tower, error: RuntimeError) -> None:
    made = rows(bert)
    narrow = Narrow(bert.model, 130, error)
    vectors = replace(bert, model=narrow).embed(made, "mean")
    np.testing.assert_allclose(vectors, bert.embed(made, "mean"), atol=1e-5)
    assert 0 < narrow.failed <= 4
    made = [TokenRow([7] * 30, 0, 1), TokenRow([7] * 20, 0, 1)]
    with pytest.raises(ArboError, match="not enough memory to embed one text of 30 tokens; choose a smaller max_len"):
        replace(bert, model=Narrow(bert.model, 25, error)).embed(made, "mean")


def test_pooling_by_hand(bert: Tower) -> None:
    ids = [2, 9, 10, 11, 3]
    with torch.inference_mode():
        hidden = bert.model(torch.tensor([ids])).last_hidden_state[0].numpy()
    longer = TokenRow([*ids, *ids], 0, 1)  # so that the row is padded

    mean, focus = hidden.mean(axis=0), hidden[1:3].mean(axis=0)
    cases = [("cls", 3, hidden[0]), ("mean", 3, mean), ("mention", 3, focus), ("mention", 1, mean)]
    for pooling, end, wanted in cases:
        np.testing.assert_allclose(bert.embed([TokenRow(ids, 1, end), longer], pooling)[0], wanted, atol=1e-5)
    np.testing.assert_allclose(bert.embed([TokenRow(ids, 1, 3), longer], None)[:5], hidden, atol=1e-5)
    assert get_args(Pooling) == POOLINGS[:3] == ("cls", "mean", "mention")


@pytest.mark.parametrize("precision", get_args(Precision))
def test_coarser_precisions_give_nearly_the_same(bert_folder: Path, bert: Tower, precision: Precision) -> None:
    coarse = Tower.load(bert_folder, precision=precision, device="cpu")
    made = rows(bert)
    vectors, exact = coarse.embed(made, "mean"), bert.embed(made, "mean")
    assert vectors.dtype == np.float32
    assert next(coarse.model.parameters()).dtype == getattr(torch, precision)
    np.testing.assert_allclose(vectors, exact, atol=0.05)


@pytest.mark.parametrize(("precision", "hint"), [("float32", "another model$"), ("float16", "precision='float32'$")])
def test_models_that_give_no_numbers(bert: Tower, precision: str, hint: str) -> None:
    model = deepcopy(bert.model).to(getattr(torch, precision))
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[9] = torch.nan
    made = [TokenRow([2, 9, 3], 1, 2), TokenRow([2, 10, 3], 1, 2)]
    with pytest.raises(DataError, match=f"the model gives NaN or infinity for 1 of 2 .*{hint}"):
        replace(bert, model=model).embed(made, "mean")


@pytest.fixture
def dropping(bert: Tower) -> Tower:
    """The tiny BERT with much dropout, in training mode but for its embeddings."""
    model = deepcopy(bert.model)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    model.train().embeddings.eval()
    return replace(bert, model=model)


def modes(tower: Tower) -> list[bool]:
    return [part.training for module in tower.modules for part in module.modules()]


@pytest.mark.parametrize("pooling", POOLINGS)
def test_what_is_trained_is_what_is_embedded(bert: Tower, pooling: Pooling | None) -> None:
    tower, made = projecting(bert, 16), [*rows(bert, 6), TokenRow([], 0, 0)]
    vectors = tower.encode(made, pooling)
    counts = [1 if pooling else len(row.ids) for row in made]
    vectors = vectors[:, None] if pooling else vectors
    assert (vectors.shape, vectors.dtype) == ((7, max(counts), 16), torch.float32)
    own = np.concatenate([found[:count] for found, count in zip(vectors.detach().numpy(), counts, strict=True)])
    np.testing.assert_allclose(own, tower.embed(made, pooling), atol=1e-5)
    assert not any(found[count:].any() for found, count in zip(vectors, counts, strict=True))
    vectors.square().sum().backward()
    without = {name for name, weight in tower.model.named_parameters() if weight.grad is None}
    assert without == {"pooler.dense.weight", "pooler.dense.bias"}
    assert tower.projection.weight.grad is not None
    assert all(weight.grad is None for weight in bert.model.parameters())


def test_dropout_is_of_training_alone(dropping: Tower, bert: Tower) -> None:
    made = rows(bert)
    before = modes(dropping)
    assert {True, False} <= set(before)
    assert np.array_equal(dropping.embed(made, "mean"), bert.embed(made, "mean"))
    assert modes(dropping) == before
    first, second = (dropping.encode(made[:5], "mean") for _ in range(2))
    assert not torch.allclose(first, second)
    assert first.requires_grad


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("precision", get_args(Precision))
def test_a_row_without_tokens_is_zeros_whatever_follows(bert: Tower, pooling: Pooling | None, precision: str) -> None:
    model = deepcopy(bert.model).to(getattr(torch, precision))
    tower = Tower.of(model, bert.tokenizer, torch.nn.Linear(64, 8))  # with a bias
    empty = TokenRow([], 0, 0)
    vectors = tower.encode([TokenRow([7, 8, 9], 1, 2), empty], pooling)
    assert vectors.flatten(1).any(dim=1).tolist() == [True, False]
    vectors.sum().backward()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
    assert not tower.encode([empty, empty], pooling).any()
    assert tower.embed([], pooling).shape == (0, 8)
    is_read = tower.embed([empty, TokenRow([7], 0, 1)], pooling).any(axis=1).tolist()
    assert is_read == ([False, True] if pooling else [True])


def test_a_projection_is_of_the_pooled_vector(bert: Tower) -> None:
    made, tower = rows(bert), projecting(bert, 10)
    assert (tower.dim, bert.dim) == (10, 64)
    assert tower.projection.bias is None
    weight = tower.projection.weight.detach().numpy()
    np.testing.assert_allclose(tower.embed(made, "mean"), bert.embed(made, "mean") @ weight.T, atol=1e-5)


def test_a_copy_has_weights_of_its_own_as_they_are_now(dropping: Tower, bert: Tower) -> None:
    with torch.no_grad():
        dropping.model.embeddings.word_embeddings.weight[9] += 1
    copy = dropping.copy()
    assert not copy.model.training
    assert dropping.model.training
    assert copy.fingerprint == Tower.of(dropping.model, dropping.tokenizer).fingerprint != dropping.fingerprint
    with torch.no_grad():
        copy.model.embeddings.word_embeddings.weight[9] -= 1
    assert Tower.of(dropping.model, dropping.tokenizer).fingerprint == copy.fingerprint
    assert bert.copy().fingerprint == bert.fingerprint


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_markers_begin_as_the_mean_of_what_spelt_them(kind: str, request: pytest.FixtureRequest) -> None:
    tower: Tower = request.getfixturevalue(kind)
    known, before = len(tower.tokenizer), tower.model.get_input_embeddings().weight.detach().clone()
    marked = tower.with_markers({"[START]": [7, 8, 8], "[END]": [9]})
    after = marked.model.get_input_embeddings().weight.detach()
    assert marked.tokenizer.convert_tokens_to_ids(["[START]", "[END]"]) == [known, known + 1]
    assert torch.equal(after[:known], before)
    torch.testing.assert_close(after[known:], torch.stack([(before[7] + 2 * before[8]) / 3, before[9]]))
    assert marked.model.config.vocab_size == known + 2
    assert marked.fingerprint == tower.with_markers({"[START]": [7, 8, 8], "[END]": [9]}).fingerprint
    # The tower itself is as it was.
    assert len(tower.tokenizer) == known
    assert Tower.of(tower.model, tower.tokenizer).fingerprint == tower.fingerprint
