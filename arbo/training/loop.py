"""The loop: read a batch, compare, step; look at the development documents, keep the best.

What is kept while a training runs stands in a folder beside the model's, ``OUT.training``: checkpoints, the best model
so far and what it embedded, and ``log.jsonl``, one line a step. A training that was killed goes on from its last
checkpoint with the same losses; a finished one leaves the model folder and, beside it, ``OUT.log.jsonl``. Of several
processes that train together, each with a GPU of its own, the first one writes; one that is started apart is refused.

What is read of a batch, and learnt of it, is said by `arbo.training.dual` for dual-encoders, by `arbo.training.cross`
for cross-encoders, and by `arbo.training.oslat` for OSLAT.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor

from arbo.encoders.model_folder import check_replaceable
from arbo.errors import ArboError, UsageError
from arbo.progress import Announce
from arbo.store import beside, json_ready, write_json
from arbo.training.checkpoints import (
    LOCK,
    Saveable,
    State,
    best_model,
    checkpoints,
    load_optimizer,
    load_state,
    locked,
    save_checkpoint,
)
from arbo.training.config import LoopConfig
from clustering.arrays import Ids

LOG = "log.jsonl"
_MIXED = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}
_ORDER = 0


class TrainingError(ArboError):
    """The loss or a gradient is no number any more; what was good is kept."""


class Trainable(Saveable, Protocol):
    """A model as the loop sees it."""

    @property
    def config(self) -> Any:
        """How it reads."""

    @property
    def module(self) -> torch.nn.Module:
        """All that has weights, each once."""

    def copy(self) -> Self:
        """Return one with weights of its own."""

    @classmethod
    def from_pretrained(cls, model: Path, config: Any, /) -> Self:
        """Load what was saved, to be read as a configuration says."""


class Examples(Protocol):
    """Annotated mentions as the loop sees them."""

    @property
    def queries(self) -> Ids:
        """Those that are trained on."""


Model = TypeVar("Model", bound=Trainable)
Batch = TypeVar("Batch")


class Weights(torch.nn.Module):
    """The model as accelerate wants it: what has weights, and one forward pass."""

    def __init__(self, parts: torch.nn.Module, read: Callable[..., Tensor]) -> None:
        super().__init__()
        self.parts = parts
        self.read = read

    def forward(self, *given: Any) -> Tensor:
        """Read some of a batch; see `Trainer.reading`."""
        return self.read(*given)


def order_of(data: Examples, config: LoopConfig, epoch: int) -> Ids:
    """Shuffle the mentions that are trained on; the same each time for a seed and an epoch."""
    return np.random.default_rng([config.seed, _ORDER, epoch]).permutation(data.queries)


@dataclass(eq=False)
class Trainer(ABC, Generic[Model, Batch]):
    """A training under way, of whatever is read and learnt."""

    encoder: Model
    data: Examples
    dev: object | None
    config: LoopConfig
    folder: Path
    accelerator: Accelerator
    announce: Announce
    checkpoint_every: int
    tensorboard: str | PathLike[str] | None
    on_log: Callable[[dict[str, Any]], None]

    def __post_init__(self) -> None:
        self.steps_an_epoch = math.ceil(len(self.data.queries) / self.config.batch_size)
        self.n_steps = min(self.config.epochs * self.steps_an_epoch, self.config.steps or 10**12)
        self.state = State()
        saved = checkpoints(self.folder)
        if saved:
            self.state = load_state(saved[-1])
            self.resume(saved[-1])
            self.encoder = self.encoder.from_pretrained(saved[-1] / "model", self.encoder.config)
        self.encoder = self.encoder.copy()
        self.encoder.module.float()
        parameters = [weight for weight in self.encoder.module.parameters() if weight.requires_grad]
        weights = Weights(self.encoder.module, self.reading())
        self.model, self.optimizer = self.accelerator.prepare(weights, _optimizer(parameters, self.config))
        if saved:
            load_optimizer(saved[-1], self.optimizer.optimizer)
            if self.state.scaler and self.accelerator.scaler:
                self.accelerator.scaler.load_state_dict(self.state.scaler)
        is_shown = self.tensorboard is not None and self.accelerator.is_main_process
        self.writer = _summary_writer(self.tensorboard, self.state.step) if is_shown else None

    @abstractmethod
    def reading(self) -> Callable[..., Tensor]:
        """Collect what is to be read, and return what makes one forward pass."""

    @abstractmethod
    def batch(self, step: int, mentions: Ids, rows: Ids) -> Batch:
        """Return what is read of some rows of a batch of mentions."""

    @abstractmethod
    def add_gradients(self, step: int, batch: Batch, share: float) -> float:
        """Add the gradients of a batch's loss, each mention counting for a share, and return the loss."""

    @property
    @abstractmethod
    def best(self) -> str:
        """What the model that is kept is best in."""

    @abstractmethod
    def development_scores(self) -> dict[str, float]:
        """Score the development documents."""

    def choose(self, step: int, place: int) -> None:
        """Choose what mentions are compared with, before a step at a place of its epoch."""

    @property
    def chosen(self) -> Mapping[str, Ids]:
        """What was chosen, as far as it outlasts a step: arrays by name."""
        return {}

    def resume(self, checkpoint: Path) -> None:
        """Take up what was chosen."""

    def dropout_seed(self, step: int, *what: int) -> int:
        """Seed the dropout of some of a step."""
        return int(np.random.SeedSequence([self.config.seed, step, *what]).generate_state(1)[0])

    @property
    def kept(self) -> Model:
        """The model that a training is for: the best one on the development documents, without these the last."""
        if self.dev is None:
            return self.encoder
        return self.encoder.from_pretrained(best_model(self.folder, self.state), self.encoder.config)

    def run(self) -> None:
        """Train to the end."""
        done = f" ({self.state.step:,} of them done before)" if self.state.step else ""
        show = self.announce(f"training, {self.n_steps:,} steps{done}")
        order: Ids | None = None
        for step in show(range(self.state.step, self.n_steps), self.n_steps - self.state.step):
            epoch, place = divmod(step, self.steps_an_epoch)
            if order is None or place == 0:
                order = order_of(self.data, self.config, epoch)
            self.choose(step, place)
            begin = place * self.config.batch_size
            figures = self.step(step, order[begin : begin + self.config.batch_size])
            self.state = replace(self.state, step=step + 1)
            ends = step + 1 == self.n_steps
            if ends or place + 1 == self.steps_an_epoch:
                figures |= self.look()
            self.log({"step": step + 1, "epoch": epoch, **figures})
            if ends or (step + 1) % self.checkpoint_every == 0 or place + 1 == self.steps_an_epoch:
                self.keep()

    def step(self, step: int, mentions: Ids) -> dict[str, float]:
        """Make one step."""
        rate = self.config.learning_rate_at(step, self.n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        rows = np.arange(len(mentions))[rank::world]
        share = 1 / len(mentions)
        if not len(rows):  # a process without a mention compares one that counts for nothing: the others wait for it
            rows, share = np.arange(1), 0.0
        self.model.train()
        self.optimizer.zero_grad()
        try:
            total = self.add_gradients(step, self.batch(step, mentions, rows), share)
        except torch.OutOfMemoryError as error:
            raise ArboError(
                f"not enough memory for micro_batch={self.config.micro_batch}: choose a smaller one; the "
                "training then goes on from its last checkpoint"
            ) from error
        total = float(self.accelerator.reduce(torch.tensor(total, device=self.accelerator.device)))
        limit = math.inf if self.config.clip is None else self.config.clip
        norm = float(self.accelerator.clip_grad_norm_(self.model.parameters(), limit))
        is_scaled = self.accelerator.scaler is not None  # whose first gradients may overflow: that step is left out
        if not math.isfinite(total) or not (math.isfinite(norm) or is_scaled):
            raise TrainingError(
                f"step {step + 1}: the loss is {total}, the gradient {norm}; try a smaller learning rate, or "
                f"precision float32. What was good is in {self.folder}"
            )
        self.optimizer.step()
        return {"loss": total, "gradient": norm, "learning_rate": rate}

    def look(self) -> dict[str, float]:
        """Score the development documents, and keep the model if it is the best so far."""
        if self.dev is None:
            return {}
        scores = self.development_scores()
        if self.state.best is None or scores[self.best] > self.state.best:
            self.state = replace(self.state, best=scores[self.best], best_step=self.state.step)
            if self.accelerator.is_main_process:
                self.encoder.save_pretrained(best_model(self.folder, self.state))
        return scores

    def keep(self) -> None:
        """Write a checkpoint."""
        scaler = self.accelerator.scaler
        self.state = replace(self.state, scaler=None if scaler is None else scaler.state_dict())
        if self.accelerator.is_main_process:
            save_checkpoint(self.folder, self.state, self.encoder, self.optimizer.optimizer, self.chosen)
        self.accelerator.wait_for_everyone()

    def log(self, figures: dict[str, Any]) -> None:
        """Add a line to the log."""
        if self.accelerator.is_main_process:
            with open(self.folder / LOG, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(json_ready(figures)) + "\n")
            self.on_log(figures)
        if self.writer is not None:
            for name, value in figures.items():
                self.writer.add_scalar(name, value, figures["step"])
            self.writer.flush()


def target_of(out: str | PathLike[str], checkpoint_every: int) -> Path:
    """Return the folder that a model is to be written to, before anything is done for it.

    Raises:
        UsageError: it cannot be written, or holds anything but a model that arbo saved; or checkpoints never come.

    """
    target = Path(out).resolve()
    check_replaceable(target)
    if checkpoint_every < 1:
        raise UsageError(f"checkpoint_every must be at least 1 step, not {checkpoint_every}")
    return target


@contextmanager
def training(target: Path, job: dict[str, Any], accelerator: Accelerator) -> Iterator[Path]:
    """Give the folder of a training, to write a model in it to ``target``; when that is done the folder is removed.

    Raises:
        UsageError: it is of another job, or another process is at it.

    """
    folder = target.with_name(f"{target.name}.training")
    with _begun(folder, target, job) if accelerator.is_main_process else nullcontext():
        accelerator.wait_for_everyone()
        yield folder
        if accelerator.is_main_process:
            _finish(folder, target)
        accelerator.wait_for_everyone()


def accelerator_of(config: LoopConfig) -> Accelerator:
    """Find out about devices and processes."""
    AcceleratorState._reset_state()  # an earlier training of this process may have had another precision
    try:
        return Accelerator(
            mixed_precision=_MIXED[config.precision],
            kwargs_handlers=[
                DistributedDataParallelKwargs(find_unused_parameters=True),
                InitProcessGroupKwargs(timeout=timedelta(days=1)),  # the others wait while the first one tunes
            ],
        )
    except ValueError as error:
        raise UsageError(f"precision {config.precision!r} cannot be had here: {error}") from error


def _optimizer(parameters: list[torch.nn.Parameter], config: LoopConfig) -> torch.optim.Optimizer:
    if config.optimizer == "adamw":
        return torch.optim.AdamW(
            parameters, lr=config.learning_rate, eps=1e-6, weight_decay=config.weight_decay, fused=True
        )
    return torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)


def _summary_writer(folder: str | PathLike[str] | None, step: int) -> Any:
    """Write for TensorBoard, what stands there of later steps being forgotten."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError("TensorBoard is not installed; run: pip install tensorboard") from error
    return SummaryWriter(folder, purge_step=step + 1)


@contextmanager
def _begun(folder: Path, target: Path, job: dict[str, Any]) -> Iterator[None]:
    """Make the folder of a training, or find that of the same training; no other process is let in meanwhile."""
    file, log = folder / "job.json", _log_of(target)
    own = hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()
    if not file.is_file():
        names = (path.name for path in folder.iterdir()) if folder.is_dir() else ()
        if any(name != LOCK and not name.startswith(".arbo-partial-") for name in names):
            raise UsageError(f"{folder} is in the way: trainings are kept there, and it is none; move it")
        if log.exists() and not target.exists():
            raise UsageError(f"{log} is in the way: the log will be kept there, and its model is gone; move it")
    with locked(folder):
        if not file.is_file():
            write_json({"hash": own, **job}, file)
        elif (other := json.loads(file.read_text("utf-8"))).get("hash") != own:
            raise UsageError(
                f"{folder} is of another training, with other {_differing(other, job)} (see {file.name} in it); "
                "delete it, or name another --out"
            )
        shutil.rmtree(_old_of(target), ignore_errors=True)
        for left in folder.glob(".*-*"):  # by whoever was killed while writing
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        saved = checkpoints(folder)
        _shorten(folder / LOG, load_state(saved[-1]).step if saved else 0)
        yield


def _differing(there: dict[str, Any], here: dict[str, Any]) -> str:
    """Name what two trainings do not have in common, those settings that differ."""
    names: list[str] = []
    own = json_ready(here)
    for name in dict.fromkeys([*own, *there]):
        value, other = own.get(name), there.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            names += [key for key in dict.fromkeys([*value, *other]) if value.get(key) != other.get(key)]
        elif value != other and name != "hash":
            names.append(name.replace("_", " "))
    return ", ".join(names) or "settings"


def _shorten(log: Path, step: int) -> None:
    """Forget the lines of steps that are done again."""
    if log.is_file():
        lines = [line for line in log.read_text("utf-8").splitlines() if line.endswith("}")]
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        partial = beside(log, "partial")
        partial.write_text("".join(f"{line}\n" for line in kept), "utf-8")
        partial.replace(log)


def _finish(folder: Path, target: Path) -> None:
    """Put the log beside the model, and remove the folder of the training: at once, so that no half of one is left."""
    partial, old = beside(folder / LOG, "partial"), _old_of(target)
    shutil.copyfile(folder / LOG, partial)
    partial.replace(_log_of(target))
    folder.rename(old)
    shutil.rmtree(old, ignore_errors=True)  # the next training removes it too


def _old_of(target: Path) -> Path:
    """Return what the folder of a finished training is called while it is removed."""
    return target.with_name(f".{target.name}.training.old")


def _log_of(target: Path) -> Path:
    """Return where the log of a finished training is kept."""
    return target.with_name(f"{target.name}.{LOG}")
