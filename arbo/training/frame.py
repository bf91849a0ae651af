"""The frame of every training run: its folder with its checkpoints, its processes and its final files.

During training, the folder ``OUT.training`` beside the model holds its checkpoints, the best model so far with its
embeddings, and ``log.jsonl`` with one line per step. A killed run resumes from its last checkpoint with the same
losses; a finished run leaves the model folder and ``OUT.log.jsonl`` beside it. If several processes train together,
such as one for each GPU, only the first one writes.

A checkpoint is a folder named after its step, which is written completely or not at all. Random choices are seeded with
the index of the step, so no state of a random generator is saved.
"""

import json
import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs
from safetensors import SafetensorError
from safetensors.numpy import load_file as load_arrays, save_file as save_arrays
from safetensors.torch import load_file, save_file

from arbo.data import Arrays, KnowledgeBase
from arbo.encoders.model_folder import check_model_replaceable
from arbo.errors import DataError, UsageError
from arbo.files import PathLike, json_ready, real, whole_folder, write_json, write_lines, write_whole, writing
from arbo.progress import quiet
from arbo.training.config import LoopConfig, RunOptions

LOG, _LOCK = "log.jsonl", "lock"
_PREFIX = "step-"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, slots=True)
class Workplace:
    """The folders, processes and options of a training run."""

    target: Path  # the model folder to write
    folder: Path  # the training folder, which exists while the training runs
    accelerator: Accelerator
    options: RunOptions  # if several processes train together, only the first one shows progress


@contextmanager
def training(out: PathLike, job: dict[str, Any], config: LoopConfig, options: RunOptions | None) -> Iterator[Workplace]:
    """Prepare a training run; the block writes the model folder ``out``. See `arbo.train` for the errors.

    If the block raises an error, the training folder is kept, and only a run with the same ``job`` can resume it.
    """
    target, options = real(out), options or RunOptions()
    accelerator = accelerator_of(config)
    is_first = accelerator.is_main_process
    folder = target.with_name(f"{target.name}.training")
    with _begun(folder, target, job) if is_first else nullcontext():
        accelerator.wait_for_everyone()
        yield Workplace(target, folder, accelerator, options if is_first else replace(options, announce=quiet))
    accelerator.wait_for_everyone()


def check_start(out: PathLike, kb: KnowledgeBase | None) -> KnowledgeBase:
    """Raise UsageError, before any work, unless a model can be written to ``out`` and ``kb`` is a knowledge base."""
    check_model_replaceable(real(out))
    if not isinstance(kb, KnowledgeBase):
        wrong = f"training needs a knowledge base, not {type(kb).__name__}; read one, for example with"
        raise UsageError(f"{wrong} arbo.read_knowledge_base(path), or make one from rows with KnowledgeBase.of(rows)")
    return kb


def accelerator_of(config: LoopConfig) -> Accelerator:
    """Make an accelerator, which finds the devices and processes; raise UsageError if they lack the precision."""
    AcceleratorState._reset_state()  # an earlier training of this process may have had another precision
    try:
        return Accelerator(
            mixed_precision={"float32": "no", "bfloat16": "bf16", "float16": "fp16"}[config.precision],
            kwargs_handlers=[
                DistributedDataParallelKwargs(find_unused_parameters=True),
                InitProcessGroupKwargs(timeout=timedelta(days=1)),  # other processes wait while the first one tunes
            ],
        )
    except ValueError as error:
        raise UsageError(f"cannot train with precision {config.precision!r}: {error}; choose 'float32'") from error


@contextmanager
def _begun(folder: Path, target: Path, job: dict[str, Any]) -> Iterator[None]:
    """Create or reopen the folder of a training, and lock it; after the block, keep its log beside the model alone."""
    file, values = folder / "job.json", json_ready(job)
    log, old = target.with_name(f"{target.name}.{LOG}"), target.with_name(f".{target.name}.training.old")
    if not file.is_file():
        names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
        if any(name != _LOCK and not name.startswith(".arbo-partial-") for name in names):
            raise UsageError(f"{folder} exists and is not a training folder; move it")
    with _locked(folder):
        if not file.is_file():
            write_json(values, file)
        elif (other := json.loads(file.read_text("utf-8"))) != values:
            here, there = _parts(values), _parts(other)
            differing = [name for name in {**here, **there} if here.get(name) != there.get(name)]
            wrong = f"{folder} belongs to another training run, which differs in {', '.join(differing)}"
            advice = "repeat that run, delete the folder, or choose another --out"
            raise UsageError(f"{wrong} (see its {file.name}); {advice}")
        shutil.rmtree(old, ignore_errors=True)
        for left in folder.glob(".*-*"):  # left by a process that was killed while writing
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        done = max((int(one.name.removeprefix(_PREFIX)) for one in checkpoints(folder)), default=0)
        if (folder / LOG).is_file():  # without the lines of steps that will be repeated
            lines = [line for line in (folder / LOG).read_text("utf-8").splitlines() if line.endswith("}")]
            write_lines([line for line in lines if json.loads(line)["step"] <= done], folder / LOG)
        yield
        write_whole(log, lambda partial: shutil.copyfile(folder / LOG, partial))
        folder.rename(old)  # so that no partial folder is left
        shutil.rmtree(old, ignore_errors=True)  # the next training removes it too


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create a folder if necessary, and lock it against other processes until the block or this process ends."""
    if sys.platform == "win32":  # Windows cannot move a folder with an open file
        yield
        return
    import fcntl

    with ExitStack() as stack:
        with writing(f"the training folder {folder}", "; choose another --out"):
            folder.mkdir(parents=True, exist_ok=True)
            stream = stack.enter_context(open(folder / _LOCK, "a"))
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            advice = "wait for it, stop it, or choose another --out"
            hint = "processes that train together on CPUs need ACCELERATE_USE_CPU=true"
            raise UsageError(f"another process is training in {folder}; {advice} ({hint})") from error
        except OSError as error:  # some file systems of clusters have no locks
            logger.warning("cannot lock %s (%s); make sure that no other process trains there", folder, error.strerror)
        yield


def _parts(job: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a training run, and those of its settings and models instead of these."""
    parts = (value.items() if isinstance(value, dict) else [(name, value)] for name, value in job.items())
    return dict(chain.from_iterable(parts))


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
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    plan: Arrays,
) -> None:
    """Write a checkpoint and, unless that raises UsageError, remove earlier ones, and unused models and embeddings."""
    try:
        with whole_folder(target := folder / f"{_PREFIX}{state.step:09d}") as partial:
            moments = optimizer.state_dict()["state"].items()
            tensors = {f"{index}.{name}": value for index, values in moments for name, value in values.items()}
            for file, parts in (("weights", module.state_dict()), ("optimizer", tensors)):
                copies = {name: value.detach().cpu().contiguous().clone() for name, value in parts.items()}
                save_file(copies, partial / f"{file}.safetensors")
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


def best_model(folder: Path, state: State) -> Path:
    """Return the folder of the model with the best score on the development documents."""
    return folder / f"best-{state.best_step}"


def embeddings(folder: Path, step: int | None) -> Path:
    """Return the folder with the embeddings that the model computed at a step."""
    return folder / "embeddings" / str(step)


def load_checkpoint(
    folder: Path,
) -> tuple[State, Arrays, dict[str, torch.Tensor], dict[int, dict[str, Any]]]:
    """Read state, choices, weights and optimiser of a checkpoint; raise DataError if it cannot be read."""
    try:
        state = State(**json.loads((folder / "state.json").read_text("utf-8")))
        chosen = load_arrays(folder / "plan.safetensors")
        weights, tensors = (load_file(folder / f"{name}.safetensors") for name in ("weights", "optimizer"))
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        advice = f"delete the folder {folder.parent} to start again"
        raise DataError(f"the checkpoint cannot be read ({error}); {advice}", file=str(folder)) from error
    optimizer: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        optimizer.setdefault(int(index), {})[name] = value
    return state, chosen, weights, optimizer
