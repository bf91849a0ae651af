"""A transformer as a function from rows of tokens to vectors: batches, pooling, memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from arbo.encoders.pretrained import first_line, load_pretrained
from arbo.encoders.templates import TokenRow
from arbo.errors import ArboError, DataError, UsageError
from clustering.arrays import Floats

if TYPE_CHECKING:
    import torch

Pooling = Literal["cls", "mean", "mention"]
Precision = Literal["float32", "bfloat16", "float16"]

POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

# A batch this large fills the device; a larger one only pads more (measured on two cores for the processor).
_TOKENS_A_BATCH = {"cpu": 2048}
_TOKENS_A_BATCH_ELSEWHERE = 65536


@dataclass(frozen=True, eq=False, slots=True)
class Tower:
    """A transformer and its tokenizer."""

    model: Any
    """A `transformers.PreTrainedModel` in evaluation mode."""
    tokenizer: Any
    """A fast tokenizer of transformers."""
    fingerprint: str
    """SHA-256 of weights, configuration and tokenizer."""

    @classmethod
    def load(
        cls,
        name: str | PathLike[str],
        *,
        revision: str | None = None,
        device: str | None = None,
        precision: Precision = "float32",
    ) -> Tower:
        """Load a model from a local folder, or from the hub by name; weights as safetensors, code from nowhere.

        Args:
            name: a folder that exists, else a hub name such as ``"org/model"``.
            revision: branch, tag or commit of a hub model.
            device: of torch, such as ``"cuda:1"``; by default a GPU if there is one.
            precision: of the weights and the computation.

        Raises:
            MissingDependency: torch or transformers is not installed.
            DataError: no such model, no safetensors weights, weights or a vocabulary that are incomplete, a tokenizer
                or an architecture that needs code.
            UsageError: no such device.

        """
        if precision not in PRECISIONS:
            raise UsageError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        model, tokenizer = load_pretrained(name, revision=revision, precision=precision)
        import torch

        place = device or _best_device()
        try:
            model = model.to(torch.device(place))
        except (AssertionError, RuntimeError) as error:
            raise UsageError(f"cannot put the model on the device {place!r}: {first_line(error)}") from error
        return cls.of(model, tokenizer)

    @classmethod
    def of(cls, model: Any, tokenizer: Any) -> Tower:
        """Make one of a model that is loaded."""
        return cls(model, tokenizer, _fingerprint(model, tokenizer))

    @property
    def dim(self) -> int:
        """Length of its vectors."""
        return int(self.model.config.hidden_size)

    @property
    def longest(self) -> int | None:
        """How many tokens it can read at once; None if it does not say."""
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is None:
            return None
        # RoBERTa and its kin count positions from the one after the padding token's.
        table = getattr(getattr(self.model, "embeddings", None), "position_embeddings", None)
        padding = getattr(table, "padding_idx", None)
        return int(positions) - (0 if padding is None else padding + 1)

    def embed(self, rows: Sequence[TokenRow], pooling: Pooling, *, tokens_a_batch: int | None = None) -> Floats:
        """Embed rows of tokens, those of like length together; (rows, dim).

        Where memory runs out batches are halved, which changes the result by rounding alone. A row without tokens
        is a vector of zeros.

        Raises:
            ArboError: not even one row fits into memory.
            DataError: the model gives NaN or infinity.

        """
        import torch

        budget = tokens_a_batch or _TOKENS_A_BATCH.get(self.model.device.type, _TOKENS_A_BATCH_ELSEWHERE)
        vectors = np.zeros((len(rows), self.dim), np.float32)
        order = sorted((i for i, row in enumerate(rows) if row.ids), key=lambda i: len(rows[i].ids))
        begin = 0
        while begin < len(order):
            end = begin + 1
            while end < len(order) and (end + 1 - begin) * len(rows[order[end]].ids) <= budget:
                end += 1
            longest = len(rows[order[end - 1]].ids)
            try:
                vectors[order[begin:end]] = self._embed_batch([rows[i] for i in order[begin:end]], pooling)
                begin = end
                continue
            except RuntimeError as error:
                if not _is_out_of_memory(error):
                    raise
                if end - begin == 1:
                    raise ArboError(
                        f"not enough memory to embed one text of {longest} tokens: choose a smaller max_length, "
                        "or another device"
                    ) from error
            # Not in the handler, where the error still holds what the batch had allocated.
            budget = (end - begin) // 2 * longest
            if self.model.device.type == "cuda":
                torch.cuda.empty_cache()
        bad = int((~np.isfinite(vectors).all(axis=1)).sum())
        if bad:
            hint = "" if self.model.dtype == torch.float32 else "; use precision='float32'"
            raise DataError(f"the model gives NaN or infinity for {bad:,} of {len(rows):,} texts{hint}")
        return vectors

    def _embed_batch(self, rows: Sequence[TokenRow], pooling: Pooling) -> Floats:
        import torch

        longest = len(rows[-1].ids)
        ids = np.full((len(rows), longest), self.tokenizer.pad_token_id or 0, np.int64)
        mask = np.zeros((len(rows), longest), np.int64)
        focus = np.zeros((len(rows), longest), np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row.ids)] = row.ids
            mask[place, : len(row.ids)] = 1
            focus[place, row.begin : row.end] = 1
        device = self.model.device
        with torch.inference_mode():
            attended = torch.from_numpy(mask).to(device)
            hidden = self.model(input_ids=torch.from_numpy(ids).to(device), attention_mask=attended).last_hidden_state
            pooled = pool(hidden, attended, torch.from_numpy(focus).to(device), pooling)
        result: Floats = pooled.cpu().numpy()
        return result


def pool(hidden: torch.Tensor, mask: torch.Tensor, focus: torch.Tensor, pooling: Pooling) -> torch.Tensor:
    """Make one vector of a row's token vectors: (rows, tokens, dim) to (rows, dim), in float32.

    ``"cls"`` takes the first, ``"mean"`` the mean over all tokens in ``mask``, ``"mention"`` that over those in
    ``focus``, or over all where a mention has no token of its own.
    """
    hidden = hidden.float()
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "mention":
        mask = focus + mask * (focus.sum(dim=1, keepdim=True) == 0)
    weight = mask.unsqueeze(-1).float()
    return (hidden * weight).sum(dim=1) / weight.sum(dim=1)


def _is_out_of_memory(error: RuntimeError) -> bool:
    """Recognise what CUDA, its libraries and Metal say, and the processor on Linux and on Windows."""
    import torch

    said = ("out of memory", "ALLOC_FAILED", "can't allocate memory", "not enough memory")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in said)


def _best_device() -> str:
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _fingerprint(model: Any, tokenizer: Any) -> str:
    """Hash what the vectors depend on; neither the folder nor the version of transformers, nor the unused pooler."""
    import torch

    config = model.config.to_diff_dict()
    for name in ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"):
        config.pop(name, None)
    digest = hashlib.sha256(type(model).__name__.encode())
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(tokenizer.backend_tokenizer.to_str().encode())
    for name, tensor in sorted(model.state_dict().items()):
        if not name.startswith("pooler."):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
