"""The tower: vectors do not depend on how texts are batched, pooled vectors are what their definition says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import POOLINGS, PRECISIONS, Pooling, Precision, Tower
from arbo.errors import ArboError, DataError

Batches = Callable[[Tower], AbstractContextManager[list[tuple[int, int]]]]


def rows(tower: Tower, n: int = 24, longest: int = 50) -> list[TokenRow]:
    """Random rows of many lengths, each with a focus."""
    rng = np.random.default_rng(0)
    made = []
    for length in rng.integers(1, longest, n):
        begin, end = np.sort(rng.integers(0, length + 1, 2))
        made.append(TokenRow(rng.integers(5, len(tower.tokenizer), length).tolist(), int(begin), int(end)))
    return made


# Batches


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_batches_of_any_size_give_the_same(kind: str, pooling: Pooling, request: pytest.FixtureRequest) -> None:
    tower: Tower = request.getfixturevalue(kind)
    made = rows(tower)
    alone = np.concatenate([tower.embed([row], pooling) for row in made])
    assert alone.dtype == np.float32
    for tokens in (1, 60, 500, 10**6):
        np.testing.assert_allclose(tower.embed(made, pooling, tokens_a_batch=tokens), alone, atol=1e-5)
    np.testing.assert_allclose(tower.embed(made[::-1], pooling), alone[::-1], atol=1e-5)


def test_texts_of_like_length_go_together(bert: Tower, batches: Batches) -> None:
    made = rows(bert, 200)
    with batches(bert) as shapes:
        bert.embed(made, "mean", tokens_a_batch=200)
    lengths = sorted(len(row.ids) for row in made)
    assert sum(n for n, _ in shapes) == len(made)
    assert [longest for _, longest in shapes] == [lengths[i - 1] for i in np.cumsum([n for n, _ in shapes])]
    assert all(n * longest <= 200 for n, longest in shapes)
    assert sum(n * longest for n, longest in shapes) < 1.1 * sum(lengths)


def test_no_texts_and_texts_without_tokens(bert: Tower) -> None:
    assert bert.embed([], "mean").shape == (0, 64)
    empty = TokenRow([], 0, 0)
    assert not bert.embed([empty], "cls").any()
    vectors = bert.embed([empty, TokenRow([7], 0, 1), empty], "mention")
    assert vectors.any(axis=1).tolist() == [False, True, False]


# Memory


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
def test_out_of_memory_halves_the_batch(bert: Tower, error: RuntimeError) -> None:
    made = rows(bert)
    narrow = Narrow(bert.model, 130, error)
    vectors = replace(bert, model=narrow).embed(made, "mean")
    np.testing.assert_allclose(vectors, bert.embed(made, "mean"), atol=1e-5)
    assert 0 < narrow.failed <= 4


def test_it_is_the_batch_that_is_halved_and_not_the_limit(bert: Tower) -> None:
    narrow = Narrow(bert.model, 45, MEMORY[0])
    replace(bert, model=narrow).embed([TokenRow([7] * 20, 0, 1)] * 8, "mean", tokens_a_batch=10**9)
    assert narrow.failed == 2  # of 8 rows, and of 4


@pytest.mark.parametrize("error", MEMORY)
def test_a_text_that_does_not_fit_into_memory(bert: Tower, error: RuntimeError) -> None:
    made = [TokenRow([7] * 30, 0, 1), TokenRow([7] * 20, 0, 1)]
    with pytest.raises(
        ArboError, match="not enough memory to embed one text of 30 tokens: choose a smaller max_length"
    ):
        replace(bert, model=Narrow(bert.model, 25, error)).embed(made, "mean")


def test_what_the_processor_says_when_memory_runs_out(bert: Tower) -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    with pytest.raises(ArboError, match="not enough memory"):
        replace(bert, model=Narrow(bert.model, 0, caught.value)).embed([TokenRow([7], 0, 1)], "mean")


def test_other_errors_are_not_hidden(bert: Tower) -> None:
    with pytest.raises(RuntimeError, match="no kernel image"):
        replace(bert, model=Narrow(bert.model, 0, RuntimeError("no kernel image"))).embed([TokenRow([7], 0, 1)], "mean")


# Pooling


def test_pooling_by_hand(bert: Tower) -> None:
    ids = [2, 9, 10, 11, 3]
    with torch.inference_mode():
        hidden = bert.model(torch.tensor([ids])).last_hidden_state[0].numpy()
    longer = TokenRow([*ids, *ids], 0, 1)  # so that the row is padded

    def pooled(pooling: Pooling, begin: int, end: int) -> np.ndarray:
        return bert.embed([TokenRow(ids, begin, end), longer], pooling)[0]

    np.testing.assert_allclose(pooled("cls", 1, 3), hidden[0], atol=1e-5)
    np.testing.assert_allclose(pooled("mean", 1, 3), hidden.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(pooled("mention", 1, 3), hidden[1:3].mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(pooled("mention", 2, 2), hidden.mean(axis=0), atol=1e-5)
    assert get_args(Pooling) == POOLINGS


# Numbers


@pytest.mark.parametrize("precision", PRECISIONS)
def test_coarser_precisions_give_nearly_the_same(bert_folder: Path, bert: Tower, precision: Precision) -> None:
    coarse = Tower.load(bert_folder, precision=precision, device="cpu")
    made = rows(bert)
    vectors, exact = coarse.embed(made, "mean"), bert.embed(made, "mean")
    assert vectors.dtype == np.float32
    assert next(coarse.model.parameters()).dtype == getattr(torch, precision)
    np.testing.assert_allclose(vectors, exact, atol=0.05)


@pytest.mark.parametrize(("precision", "hint"), [("float32", "texts$"), ("float16", "use precision='float32'$")])
def test_models_that_give_no_numbers(bert: Tower, precision: str, hint: str) -> None:
    model = deepcopy(bert.model).to(getattr(torch, precision))
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[9] = torch.nan
    made = [TokenRow([2, 9, 3], 1, 2), TokenRow([2, 10, 3], 1, 2)]
    with pytest.raises(DataError, match=f"the model gives NaN or infinity for 1 of 2 .*{hint}"):
        replace(bert, model=model).embed(made, "mean", tokens_a_batch=1)
