"""A transformer as a function from rows of tokens to vectors, with batches and pooling."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, get_args

import numpy as np
import torch
from safetensors.torch import save

from arbo.encoders import pretrained
from arbo.encoders.encoder_config import Pooling
from arbo.encoders.pretrained import PROJECTION, first_line
from arbo.encoders.templates import TokenRow
from arbo.engine import Floats, Ids, pairs_of
from arbo.errors import ArboError, DataError, UsageError
from arbo.settings import check_choice

Precision = Literal["float32", "bfloat16", "float16"]


class Loading(TypedDict, total=False):
    """The options of `Tower.load`, for functions that pass them on."""

    device: str | None
    precision: Precision


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Tower:
    """A transformer and its tokenizer; training makes the fingerprint wrong: train a `copy`, and copy the result."""

    model: Any  # a `transformers.PreTrainedModel`
    tokenizer: Any  # a fast tokenizer of transformers
    fingerprint: str  # SHA-256 of weights, configuration and tokenizer, computed when the tower was made
    projection: torch.nn.Linear | None = None  # a linear layer after pooling, in float32; None without a projection

    @classmethod
    def load(cls, name: str | PathLike[str], *, device: str | None = None, precision: Precision = "float32") -> Self:
        """Load a model from a local folder, or from the hub by name: only safetensors weights, no remote code.

        ``device`` is one of torch, such as ``"cuda:1"``; by default a GPU if there is one. Raise DataError if the model
        is not found, cannot be downloaded, has no safetensors weights, is incomplete or damaged, or needs remote code;
        and UsageError if the precision or the device is unknown, or the device has too little memory.
        """
        check_choice("precision", precision, get_args(Precision))
        model, tokenizer, projection = pretrained.load_pretrained(pretrained.find_folder(name), precision=precision)
        best = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        place = device or best
        try:
            model = model.to(torch.device(place))
        except (AssertionError, RuntimeError) as error:
            raise UsageError(f"cannot put the model on the device {place!r}: {first_line(error)}") from error
        return cls.of(model, tokenizer, None if projection is None else projection.to(model.device))

    @classmethod
    def of(cls, model: Any, tokenizer: Any, projection: torch.nn.Linear | None = None) -> Self:
        """Make a tower from a loaded model."""
        return cls(model, tokenizer, _fingerprint(model, tokenizer, projection), projection)

    def save(self, folder: Path) -> None:
        """Write the model and its projection to a folder that `load` can read."""
        pretrained.save_pretrained(self.model, self.tokenizer, folder)
        if self.projection is not None:
            (folder / PROJECTION).write_bytes(save(self.projection.state_dict()))

    def copy(self) -> Self:
        """Return a copy with its own weights, in evaluation mode."""
        return self.with_markers({})

    def with_markers(self, markers: Mapping[str, Sequence[int]]) -> Self:
        """Return a copy with the markers as special tokens; each vector starts as the mean of its former tokens'."""
        model, tokenizer, projection = deepcopy((self.model, self.tokenizer, self.projection))
        tokenizer.add_tokens(list(markers), special_tokens=True)
        ids = tokenizer.convert_tokens_to_ids(list(markers))
        rows = max(ids, default=-1) + 1
        if rows > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(rows, mean_resizing=False)
        weight = model.get_input_embeddings().weight
        with torch.no_grad():
            for id_, pieces in zip(ids, markers.values(), strict=True):
                weight[id_] = weight[list(pieces)].mean(dim=0)
        return self.of(model.eval(), tokenizer, projection)

    @property
    def modules(self) -> tuple[torch.nn.Module, ...]:
        """The modules with weights: the model, and the projection if there is one."""
        return (self.model,) if self.projection is None else (self.model, self.projection)

    @property
    def dim(self) -> int:
        """Length of its vectors."""
        return int(self.model.config.hidden_size if self.projection is None else self.projection.out_features)

    def check_length(self, max_length: int) -> None:
        """Raise UsageError if the model cannot read ``max_length`` tokens at once, as far as its configuration says."""
        positions = getattr(self.model.config, "max_position_embeddings", None) or math.inf
        # RoBERTa and similar models count positions from the one after that of the padding token.
        table = getattr(getattr(self.model, "embeddings", None), "position_embeddings", None)
        padding = getattr(table, "padding_idx", None)
        longest = positions - (0 if padding is None else padding + 1)
        if max_length > longest:
            problem = f"max_length={max_length}, but the model reads at most {longest} tokens"
            raise UsageError(f"{problem}; lower it (`--set max_length={longest}`)")

    @property
    def tokens_a_batch(self) -> int:
        """Number of tokens in a batch that fills the device; a larger batch only has more padding."""
        return 2048 if self.model.device.type == "cpu" else 65536  # measured on two cores for the CPU

    def encode(self, rows: Sequence[TokenRow], pooling: Pooling | None) -> torch.Tensor:
        """Compute the vectors of rows of tokens in one batch, (rows, dim), in float32, on the model's device.

        ``"cls"`` takes the vector of the first token, ``"mean"`` the mean of all, ``"mention"`` that of the tokens of
        the mention or the name, or of all if there are none. Without a pooling, a row has a vector for each token,
        (rows, tokens, dim). The padding of shorter rows, and the vector of a row without tokens, are zeros.
        """
        longest = max([1, *(len(row.ids) for row in rows)])
        ids = np.full((len(rows), longest), self.tokenizer.pad_token_id or 0, np.int64)
        exists, is_pooled = np.zeros((2, len(rows), longest), np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row.ids)] = row.ids
            exists[place, : len(row.ids)] = 1
            in_focus = row[1:] if pooling == "mention" and row.begin < row.end else (0, len(row.ids))
            is_pooled[place, slice(*in_focus)] = 1
        attended = exists.copy()
        attended[:, 0] = 1  # attention over nothing, in a row without tokens, is NaN

        def tensor(array: Ids) -> torch.Tensor:
            if self.model.device.type == "cuda":  # from pinned memory, so that it does not wait for the previous batch
                return torch.from_numpy(array).pin_memory().to(self.model.device, non_blocking=True)
            return torch.from_numpy(array).to(self.model.device)

        hidden = self.model(input_ids=tensor(ids), attention_mask=tensor(attended)).last_hidden_state
        mask, weight = tensor(exists), tensor(is_pooled).unsqueeze(-1).float()
        vectors: torch.Tensor = hidden.float()
        if pooling == "cls":
            vectors = vectors[:, 0]
        elif pooling is not None:
            vectors = (vectors * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1)
        if self.projection is not None:
            vectors = self.projection(vectors).float()
        return vectors * (mask[..., None] if pooling is None else mask[:, :1])

    def encode_apart(self, rows: Sequence[TokenRow], pooling: Pooling) -> torch.Tensor:
        """Compute the same vectors as `encode`, in the order of ``rows``, but in batches of rows of similar length."""
        order = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
        ascending = [rows[i] for i in order]
        batches = packs([len(row.ids) for row in ascending], self.tokens_a_batch)
        vectors = torch.cat([self.encode(ascending[batch], pooling) for batch in batches])
        return vectors[torch.from_numpy(np.argsort(order)).to(vectors.device)]

    def embed(self, rows: Sequence[TokenRow], pooling: Pooling | None) -> Floats:
        """Embed rows of tokens in evaluation mode, in batches of similar length; (vectors, dim), row after row.

        See `encode` for the vectors. If memory runs out, batches are halved, which affects only rounding. Raise
        ArboError if it is too small for one row, and DataError if the model returns NaN or infinity.
        """
        count = np.array([len(row.ids) if pooling is None else 1 for row in rows], np.int64)
        owner = np.repeat(np.arange(len(rows)), count)
        vectors = np.zeros((len(owner), self.dim), np.float32)
        order = np.array(sorted((i for i, row in enumerate(rows) if row.ids), key=lambda i: len(rows[i].ids)), np.int64)
        if len(order):
            # Vectors leave the device together, since fetching the vectors of each batch would wait for it.
            batches = self._in_batches([rows[i] for i in order], pooling)
            vectors[pairs_of(owner, order)[0]] = torch.cat([*batches]).cpu().numpy()
        if len(bad := np.unique(owner[~np.isfinite(vectors).all(axis=1)])):
            advice = "choose another model" if self.model.dtype == torch.float32 else "use precision='float32'"
            raise DataError(f"the model gives NaN or infinity for {len(bad):,} of {len(rows):,} texts; {advice}")
        return vectors

    def _in_batches(self, rows: Sequence[TokenRow], pooling: Pooling | None) -> Iterator[torch.Tensor]:
        """Yield the vectors of rows of ascending lengths, batch by batch; see `embed`."""
        lengths = [len(row.ids) for row in rows]
        batches = packs(lengths, self.tokens_a_batch)
        while batch := next(batches, None):
            n, longest = batch.stop - batch.start, lengths[batch.stop - 1]
            try:
                with torch.inference_mode(), _evaluating(self.modules):
                    vectors = self.encode(rows[batch], pooling)
                    if pooling is None:
                        vectors = torch.cat([row[:m] for row, m in zip(vectors, lengths[batch], strict=True)])
            except RuntimeError as error:
                # Errors of CUDA, its libraries, Metal, and the CPU on Linux and Windows.
                signs = ("out of memory", "ALLOC_FAILED", "can't allocate memory", "not enough memory")
                if not (isinstance(error, torch.OutOfMemoryError) or any(sign in str(error) for sign in signs)):
                    raise
                if n == 1:
                    advice = "choose a smaller max_length, or another device"
                    raise ArboError(f"not enough memory to embed one text of {longest} tokens; {advice}") from error
            else:
                yield vectors
                continue
            # Not in the handler, where the error still keeps the memory of the batch alive.
            batches = packs(lengths, n // 2 * longest, batch.start)
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()


@contextmanager
def _evaluating(modules: Sequence[torch.nn.Module]) -> Iterator[None]:
    training = [part for module in modules for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _fingerprint(model: Any, tokenizer: Any, projection: torch.nn.Linear | None) -> str:
    """Hash everything that determines vectors, so not the folder, the version of transformers or the pooler."""
    config = model.config.to_diff_dict()
    # transformers 4 takes the first away where it saves a model.
    history = "_attn_implementation_autoset _name_or_path architectures dtype torch_dtype transformers_version"
    for name in history.split():
        config.pop(name, None)
    digest = hashlib.sha256(type(model).__name__.encode())
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    weights = sorted((name, tensor) for name, tensor in model.state_dict().items() if not name.startswith("pooler."))
    if projection is not None:
        weights += [(f"projection.{name}", tensor) for name, tensor in projection.state_dict().items()]
    for name, tensor in weights:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def packs(lengths: Sequence[int], budget: int, begin: int = 0) -> Iterator[slice]:
    """Yield batches of ascending lengths, from ``begin`` on: as many rows as fit a budget of tokens, but at least one.

    >>> list(packs([2, 3, 3, 9], 9))
    [slice(0, 3, None), slice(3, 4, None)]
    """
    while begin < len(lengths):
        end = begin + 1
        while end < len(lengths) and (end + 1 - begin) * lengths[end] <= budget:
            end += 1
        yield slice(begin, end)
        begin = end
