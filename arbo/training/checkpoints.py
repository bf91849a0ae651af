"""Checkpoints: everything that a training needs to go on as if it had not been interrupted.

A checkpoint is a folder named after its step, written beside its place and moved there in one step, so that the newest
one is always whole. So is the best model; the one that a checkpoint speaks of is there as long as the checkpoint is.
What is random in a step is seeded by the step's number: no generator has a state to keep.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from arbo.encoders import DualEncoder
from arbo.errors import DataError
from arbo.training.plan import Plan

_PREFIX = "step-"


@dataclass(frozen=True, slots=True)
class State:
    """Where a training is."""

    step: int = 0
    """Steps done."""
    best: float | None = None
    """The best score on the development documents so far."""
    best_step: int | None = None
    """After which step that was; see `best_model`."""
    scaler: dict[str, float] | None = None
    """Of float16: by what gradients are scaled."""


def save_checkpoint(
    folder: Path, state: State, encoder: DualEncoder, optimizer: torch.optim.Optimizer, plan: Plan
) -> None:
    """Write a checkpoint, and remove those before it and the models that are the best no more."""
    partial = folder / f".partial-{uuid4().hex}"
    partial.mkdir(parents=True)
    try:
        encoder.save_pretrained(partial / "model")
        tensors = {
            f"{index}.{name}": value.detach().cpu().contiguous().clone()
            for index, values in optimizer.state_dict()["state"].items()
            for name, value in values.items()
        }
        save_file(tensors, partial / "optimizer.safetensors")
        save_arrays(plan._asdict(), partial / "plan.safetensors")
        (partial / "state.json").write_text(json.dumps(asdict(state)) + "\n", "utf-8")
        earlier = checkpoints(folder) + [old for old in folder.glob("best-*") if old != best_model(folder, state)]
        partial.rename(folder / f"{_PREFIX}{state.step:09d}")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    for old in earlier:
        shutil.rmtree(old)


def checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints there are, the newest last."""
    return sorted(folder.glob(f"{_PREFIX}*"))


def best_model(folder: Path, state: State) -> Path:
    """Return where the best model so far is kept."""
    return folder / f"best-{state.best_step}"


def load_state(checkpoint: Path) -> tuple[State, Plan]:
    """Read where a training was, and its plan."""
    try:
        state = State(**json.loads((checkpoint / "state.json").read_text("utf-8")))
        return state, Plan(**load_arrays(checkpoint / "plan.safetensors"))
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        raise _unreadable(checkpoint, error) from error


def load_optimizer(checkpoint: Path, optimizer: torch.optim.Optimizer) -> None:
    """Give an optimiser the state that it had."""
    state: dict[int, dict[str, Any]] = {}
    try:
        tensors = load_file(checkpoint / "optimizer.safetensors")
    except (OSError, SafetensorError) as error:
        raise _unreadable(checkpoint, error) from error
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _unreadable(checkpoint: Path, error: Exception) -> DataError:
    return DataError(
        f"the checkpoint cannot be read ({error}); delete the folder {checkpoint.parent} to begin anew",
        file=str(checkpoint),
    )
