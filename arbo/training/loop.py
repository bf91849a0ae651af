"""The training loop: encode a batch, compute the loss, take a step; after each epoch, keep the best model."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils import deterministic

from arbo.encoders.model_folder import TowerModel
from arbo.engine import Ids
from arbo.errors import ArboError
from arbo.files import json_ready
from arbo.training.config import LoopConfig
from arbo.training.frame import LOG, State, Workplace, best_model, checkpoints, load_checkpoint, save_checkpoint

_ORDER = 0  # seed of the order of queries, beside the seeds of what a step samples


Model = TypeVar("Model", bound=TowerModel)
Batch = TypeVar("Batch", bound=Sized)


@dataclass(eq=False)
class Trainer(ABC, Generic[Model, Batch]):
    """Base class of trainers; subclasses define batches and losses."""

    best = ""  # name of the score on development documents that selects the best model
    model: Model
    data: Any  # annotated mentions, names or texts; its ``queries`` are the indices of those to train on
    dev: object | None
    config: LoopConfig
    workplace: Workplace

    def __post_init__(self) -> None:
        self.folder, self.accelerator = self.workplace.folder, self.workplace.accelerator
        self.options = self.workplace.options
        self.steps_an_epoch = math.ceil(len(self.data.queries) / self.config.batch_size)
        self.n_steps = min(self.config.epochs * self.steps_an_epoch, self.config.steps or 10**12)
        self.state = State()
        self.chosen: Mapping[str, npt.NDArray[Any]] = {}  # what is used for several steps; checkpoints have it too
        self.model = self.model.copy()
        module = self.module.float()
        if saved := checkpoints(self.folder):
            self.state, self.chosen, weights, moments = load_checkpoint(saved[-1])
            module.load_state_dict(weights)
        parameters = [weight for weight in module.parameters() if weight.requires_grad]
        read = self.reading()
        module.forward = lambda *given: read(*given)  # accelerate would bind a method to the module
        how: dict[str, Any] = {"lr": self.config.learning_rate, "fused": True}
        optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, **how)
        if self.config.optimizer == "adamw":
            optimizer = torch.optim.AdamW(parameters, eps=1e-6, weight_decay=self.config.weight_decay, **how)
        self.prepared, self.optimizer = self.accelerator.prepare(module, optimizer)
        if saved:
            optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
            if self.state.scaler and self.accelerator.scaler:
                self.accelerator.scaler.load_state_dict(self.state.scaler)

    @abstractmethod
    def reading(self) -> Callable[..., Tensor]:
        """Collect the texts of the training data, and return the function that is one forward pass."""

    @abstractmethod
    def batch(self, step: int, mentions: Ids, rows: Ids) -> Batch:
        """Collect the inputs for some of the ``mentions`` of a batch, those at the indices ``rows``."""

    @abstractmethod
    def loss_of(self, batch: Batch, rows: slice) -> Tensor:
        """Sum the losses of some rows of a batch; the caller seeds dropout."""

    def development_scores(self) -> dict[str, float]:
        """Return the scores of the development documents by name, among them the score `best`."""
        raise NotImplementedError

    def choose(self, step: int, place: int) -> None:
        """Choose positives and negatives before a step; ``place`` is its index in the epoch."""

    @property
    def module(self) -> torch.nn.Module:
        """All modules with weights to train."""
        return self.model.module

    def dropout_seed(self, step: int, *what: int) -> int:
        """Return the dropout seed for a part of a step, which the numbers in ``what`` identify."""
        return int(np.random.SeedSequence([self.config.seed, step, *what]).generate_state(1)[0])

    def add_gradients(self, step: int, batch: Batch, share: float) -> float:
        """Add the gradients of a batch's loss, in which each row has the weight ``share``, and return the loss."""
        total, begins = 0.0, range(0, len(batch), self.config.micro_batch)
        for begin in begins:
            torch.manual_seed(self.dropout_seed(step, begin))
            with self.reducing(is_last=begin == begins[-1]):
                loss = share * self.loss_of(batch, slice(begin, begin + self.config.micro_batch))
                self.accelerator.backward(loss * self.accelerator.num_processes)
            total += float(loss.detach())
        return total

    def reducing(self, *, is_last: bool) -> AbstractContextManager[Any]:
        """Return a context in which processes average their gradients only if this is the last part of a step."""
        return nullcontext() if is_last else self.accelerator.no_sync(self.prepared)

    @property
    def final(self) -> Model:
        """The final model: the best one on the development documents if there are any, otherwise the last one."""
        if self.dev is None:
            return self.model
        return self.model.from_pretrained(best_model(self.folder, self.state), self.model.config)

    def run(self, finish: Callable[[Model], Model] = lambda model: model) -> None:
        """Train to the end, and write what ``finish`` makes of the final model."""
        done = f" ({self.state.step:,} of them done before)" if self.state.step else ""
        show = self.options.announce(f"training, {self.n_steps:,} steps{done}")
        order: Ids | None = None
        for step in show(range(self.state.step, self.n_steps), self.n_steps - self.state.step):
            epoch, place = divmod(step, self.steps_an_epoch)
            if order is None or place == 0:
                order = np.random.default_rng([self.config.seed, _ORDER, epoch]).permutation(self.data.queries)
            self.choose(step, place)
            begin = place * self.config.batch_size
            figures = self.step(step, order[begin : begin + self.config.batch_size])
            self.state = replace(self.state, step=step + 1)
            if is_end := step + 1 == self.n_steps or place + 1 == self.steps_an_epoch:
                figures |= self.look()
            self.log({"step": step + 1, "epoch": epoch, **figures})
            if is_end or (step + 1) % self.options.checkpoint_every == 0:
                self.checkpoint()
        if self.accelerator.is_main_process:
            finish(self.final).save_pretrained(self.workplace.target)

    def step(self, step: int, mentions: Ids) -> dict[str, float]:
        """Take one optimisation step; return its loss, the norm of its gradient and its learning rate, by name."""
        rate = self.config.learning_rate_at(step, self.n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        rows = np.arange(len(mentions))[rank::world]
        share = 1 / len(mentions)
        if not len(rows):  # a process without a mention takes one with weight 0, as the others wait for it
            rows, share = np.arange(1), 0.0
        self.prepared.train()
        self.optimizer.zero_grad()
        try:
            with _repeatable(self.accelerator.device):
                total = self.add_gradients(step, self.batch(step, mentions, rows), share)
        except torch.OutOfMemoryError as error:
            wrong = f"not enough memory for micro_batch={self.config.micro_batch}"
            advice = "choose a smaller micro_batch to resume from the last checkpoint or, if it is 1 already,"
            raise ArboError(f"{wrong}; {advice} a smaller max_length to start again") from error
        total = float(self.accelerator.reduce(torch.tensor(total, device=self.accelerator.device)))
        norm = float(self.accelerator.clip_grad_norm_(self.prepared.parameters(), self.config.clip or math.inf))
        is_scaled = self.accelerator.scaler is not None  # its first gradients may overflow; it skips that step
        if not math.isfinite(total) or not (math.isfinite(norm) or is_scaled):
            advice = f"delete {self.folder}, and train with a smaller learning rate, or with precision 'float32'"
            raise ArboError(f"step {step + 1}: the loss is {total}, the norm of the gradient {norm}; {advice}")
        self.optimizer.step()
        return {"loss": total, "gradient": norm, "learning_rate": rate}

    def look(self) -> dict[str, float]:
        """Score the development documents, keep the model if it is the best so far, and return the scores by name."""
        if self.dev is None:
            return {}
        scores = self.development_scores()
        if self.state.best is None or scores[self.best] > self.state.best:
            self.state = replace(self.state, best=scores[self.best], best_step=self.state.step)
            if self.accelerator.is_main_process:
                self.model.save_pretrained(best_model(self.folder, self.state))
        return scores

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        scaler = self.accelerator.scaler
        self.state = replace(self.state, scaler=None if scaler is None else scaler.state_dict())
        if self.accelerator.is_main_process:
            save_checkpoint(self.folder, self.state, self.module, self.optimizer.optimizer, self.chosen)
        self.accelerator.wait_for_everyone()

    def log(self, figures: dict[str, Any]) -> None:
        """Write a line of the log."""
        if self.accelerator.is_main_process:
            with open(self.folder / LOG, "a", encoding="utf-8") as stream:
                stream.write(json.dumps(json_ready(figures)) + "\n")
            self.options.on_log(figures)


@contextmanager
def _repeatable(device: torch.device) -> Iterator[None]:
    """Let a CPU add the gradients of a row that was taken several times in a fixed order; its threads would race."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = deterministic  # whose types do not tell what it has
    fills = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(before[0] or device.type == "cpu", warn_only=not before[0] or before[1])
    memory.fill_uninitialized_memory = fills and before[0]  # filling takes 7 % of a step
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = fills
