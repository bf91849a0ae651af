"""Checkpoints: everything that a training run needs to resume as if it had not been interrupted.

A checkpoint is a folder named after its step. It is written to a temporary folder and then renamed, so a checkpoint is
never incomplete. The best model is written the same way. Random choices are seeded with the index of the step, so no
state of a random generator is saved.
"""

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays, save_file as save_arrays
from safetensors.torch import load_file, save_file

from arbo.errors import DataError, UsageError
from arbo.files import whole_folder

LOCK = "lock"
_PREFIX = "step-"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """The progress of a training run."""

    step: int = 0  # completed steps
    best: float | None = None  # the best score on the development documents so far
    best_step: int | None = None  # step of the best score; see `best_model`
    scaler: dict[str, float] | None = None  # for float16: state of the gradient scaler


def save_checkpoint(
    folder: Path,
    state: State,
    save: Callable[[Path], None],
    optimizer: torch.optim.Optimizer,
    plan: Mapping[str, npt.NDArray[Any]],
) -> None:
    """Write a checkpoint with ``plan`` (`Trainer.chosen`); remove earlier ones, and unused models and embeddings.

    Raise UsageError if it cannot be written; the earlier ones are still there.
    """
    try:
        with whole_folder(target := folder / f"{_PREFIX}{state.step:09d}") as partial:
            save(partial / "model")
            tensors = {
                f"{index}.{name}": value.detach().cpu().contiguous().clone()
                for index, values in optimizer.state_dict()["state"].items()
                for name, value in values.items()
            }
            save_file(tensors, partial / "optimizer.safetensors")
            save_arrays(dict(plan), partial / "plan.safetensors")
            (partial / "state.json").write_text(json.dumps(asdict(state)) + "\n", "utf-8")
            current = {target, best_model(folder, state)}
            earlier = [old for old in (*checkpoints(folder), *folder.glob("best-*")) if old not in current]
            found_again = {embeddings(folder, state.best_step), embeddings(folder, state.step)}
            earlier += [old for old in (folder / "embeddings").glob("*") if old not in found_again]
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        advice = "mend that, and the same command goes on from the last one"
        raise UsageError(f"cannot write a checkpoint in {folder}: {reason}; {advice}") from error
    for old in earlier:
        shutil.rmtree(old)


def checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints in a training folder, the newest last."""
    return sorted(folder.glob(f"{_PREFIX}*"))


def step_of(checkpoint: Path) -> int:
    """Return the number of steps that were completed at a checkpoint."""
    return int(checkpoint.name.removeprefix(_PREFIX))


def best_model(folder: Path, state: State) -> Path:
    """Return the folder of the model with the best score on the development documents."""
    return folder / f"best-{state.best_step}"


def embeddings(folder: Path, step: int | None) -> Path:
    """Return the folder with the embeddings that the model computed at a step."""
    return folder / "embeddings" / str(step)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a folder if necessary, and lock it against other processes until the block or this process ends.

    Raise UsageError if another process has the lock, or the folder cannot be written. On a file system without locks,
    only log a warning. Do nothing on Windows.
    """
    if sys.platform == "win32":  # Windows cannot move a folder with an open file
        yield
        return
    import fcntl

    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stream = stack.enter_context(open(folder / LOCK, "a"))
        except OSError as error:
            raise UsageError(
                f"cannot write the training folder {folder}: {error.strerror}; choose another --out"
            ) from error
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process is training in {folder}; wait for it, stop it, or choose another --out "
                "(processes that train together on CPUs need ACCELERATE_USE_CPU=true)"
            ) from error
        except OSError as error:  # some file systems of clusters have no locks
            logger.warning("cannot lock %s (%s); make sure that no other process trains there", folder, error.strerror)
        yield


class Checkpoint(NamedTuple):
    """What a checkpoint holds besides the model."""

    state: State
    chosen: dict[str, npt.NDArray[Any]]
    optimizer: dict[int, dict[str, Any]]


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint; raise DataError if it cannot be read."""
    try:
        state = State(**json.loads((folder / "state.json").read_text("utf-8")))
        chosen, tensors = load_arrays(folder / "plan.safetensors"), load_file(folder / "optimizer.safetensors")
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        advice = f"delete the folder {folder.parent} to start again"
        raise DataError(f"the checkpoint cannot be read ({error}); {advice}", file=str(folder)) from error
    optimizer: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        optimizer.setdefault(int(index), {})[name] = value
    return Checkpoint(state, chosen, optimizer)
