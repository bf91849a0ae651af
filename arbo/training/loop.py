"""The loop: choose positives and negatives, compare, step; look at the development documents, keep the best.

What is kept while a training runs stands in a folder beside the model's, ``OUT.training``: checkpoints, the best model
so far and what it embedded, and ``log.jsonl``, one line a step. A training that was killed goes on from its last
checkpoint with the same losses; a finished one leaves the model folder and, beside it, ``OUT.log.jsonl``. Of several
processes that train together, each with a GPU of its own, the first one writes; one that is started apart is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs
from torch import Tensor

from arbo.config import LinkerConfig
from arbo.documents import Corpus
from arbo.encoders import DualEncoder
from arbo.encoders.model_folder import check_replaceable
from arbo.errors import ArboError, UsageError
from arbo.knowledge_base import KnowledgeBase
from arbo.linker import Linker
from arbo.progress import Announce, quiet
from arbo.store import beside, json_ready, write_json
from arbo.training.checkpoints import (
    LOCK,
    State,
    best_model,
    checkpoints,
    embeddings,
    load_optimizer,
    load_state,
    locked,
    save_checkpoint,
)
from arbo.training.config import TrainingConfig
from arbo.training.data import TrainingSet
from arbo.training.development import development_scores
from arbo.training.fgsm import adversarial_nodes, check_perturbable
from arbo.training.objective import Pairs, chosen, mention_losses
from arbo.training.plan import Plan, asks_the_model, order_of
from arbo.training.scores import Batch, Reader
from clustering.arrays import Ids

LOG = "log.jsonl"
_MIXED = {"float32": "no", "bfloat16": "bf16", "float16": "fp16"}


class TrainingError(ArboError):
    """The loss or a gradient is no number any more; what was good is kept."""


class Weights(torch.nn.Module):
    """The model as accelerate wants it: what has weights, and one forward pass."""

    def __init__(self, reader: Reader) -> None:
        super().__init__()
        self.parts = reader.encoder.module
        self.reader = reader

    def forward(self, batch: Batch, part: slice) -> Tensor:
        """Encode some of a batch's texts; see `Reader.encode`."""
        return self.reader.encode(batch, part)


@dataclass(eq=False)
class Trainer:
    """A training under way: `train` makes one and runs it."""

    encoder: DualEncoder
    data: TrainingSet
    dev: TrainingSet | None
    config: TrainingConfig
    folder: Path
    accelerator: Accelerator
    announce: Announce
    checkpoint_every: int
    tensorboard: Path | None
    on_log: Callable[[dict[str, Any]], None]

    def __post_init__(self) -> None:
        self.steps_an_epoch = math.ceil(len(self.data.queries) / self.config.batch_size)
        self.n_steps = min(self.config.epochs * self.steps_an_epoch, self.config.steps or 10**12)
        self.state, self.plan = State(), Plan(np.empty(0, np.int64), np.empty((0, 0), np.int64))
        self.cache = self.encoder.cache
        saved = checkpoints(self.folder)
        if saved:
            self.state, self.plan = load_state(saved[-1])
            self.encoder = replace(DualEncoder.from_pretrained(saved[-1] / "model"), config=self.encoder.config)
        self.encoder = self.encoder.copy()
        self.encoder.module.float()
        self.reader = Reader.of(self.encoder, self.data)
        parameters = [weight for weight in self.encoder.module.parameters() if weight.requires_grad]
        self.model, self.optimizer = self.accelerator.prepare(Weights(self.reader), _optimizer(parameters, self.config))
        if saved:
            load_optimizer(saved[-1], self.optimizer.optimizer)
            if self.state.scaler and self.accelerator.scaler:
                self.accelerator.scaler.load_state_dict(self.state.scaler)
        is_shown = self.tensorboard is not None and self.accelerator.is_main_process
        self.writer = _summary_writer(self.tensorboard, self.state.step) if is_shown else None

    def run(self) -> None:
        """Train to the end."""
        show = self.announce(f"training, {self.n_steps:,} steps")
        order: Ids | None = None
        for step in show(range(self.state.step, self.n_steps), self.n_steps - self.state.step):
            epoch, place = divmod(step, self.steps_an_epoch)
            if order is None or place == 0:
                order = order_of(self.data, self.config, epoch)
            fresh = place == 0 or (self.config.refresh is not None and place % self.config.refresh == 0)
            if fresh:
                if asks_the_model(self.config, self.reader.owner):
                    snapshot = self.data.snapshot(self.as_it_is(), self.announce)
                else:
                    snapshot = self.data.unread(self.reader.owner, self.encoder.metric)
                self.plan = Plan.of(self.data, snapshot, self.config, step)
            begin = place * self.config.batch_size
            figures = self.step(step, order[begin : begin + self.config.batch_size])
            self.state = replace(self.state, step=step + 1)
            ends = step + 1 == self.n_steps
            if ends or place + 1 == self.steps_an_epoch:
                figures |= self.look()
            self.log({"step": step + 1, "epoch": epoch, **figures})
            if ends or (step + 1) % self.checkpoint_every == 0 or place + 1 == self.steps_an_epoch:
                self.keep()

    def step(self, step: int, batch: Ids) -> dict[str, float]:
        """Make one step."""
        rate = self.config.learning_rate_at(step, self.n_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        nodes = self.plan.nodes(self.data, self.reader.owner, batch, self.config, step)
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        rows = np.arange(len(batch))[rank::world]
        share = 1 / len(batch)
        if not len(rows):  # a process without a mention compares one that counts for nothing: the others wait for it
            rows, share = np.arange(1), 0.0
        self.model.train()
        self.optimizer.zero_grad()
        try:
            total = self.add_gradients(step, self.reader.batch(batch[rows], nodes[rows]), share)
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

    def add_gradients(self, step: int, batch: Batch, share: float) -> float:
        """Add the gradients of a batch's loss, each mention counting for a share, and return the loss.

        A batch of several micro-batches goes through gradient caching (Gao et al. 2021, "Scaling deep contrastive
        learning batch size under memory limited setup"): its texts, each once, are encoded part by part without
        gradients; the loss is differentiated with respect to their vectors; then each part is encoded again, with the
        same dropout, to take that on to the weights. So one part is in memory at once, also where mentions share their
        nodes, and the gradients are the same, to rounding, but for what dropout draws.

        Perturbed copies (`arbo.training.fgsm`) are of one mention each and shared by nobody: those of a micro-batch of
        mentions are encoded when the loss of these is differentiated, which takes it on to the weights at once.
        """
        n_mentions, size = len(batch.mention), self.config.micro_batch
        n_parts = min(math.ceil(n_mentions / size), len(batch.texts))
        parts = [slice(i, None, n_parts) for i in range(n_parts)]
        world = self.accelerator.num_processes
        perturbs = self.config.regulariser == "fgsm"

        def seed(*what: int) -> int:  # of dropout
            return int(np.random.SeedSequence([self.config.seed, step, *what]).generate_state(1)[0])

        def encode(part: slice) -> Tensor:
            torch.manual_seed(seed(part.start))
            vectors: Tensor = self.model(batch, part)
            return vectors

        def pairs_of(vectors: Tensor, rows: slice) -> Pairs:
            return chosen(self.reader.pairs(batch, vectors, rows), self.config)

        def loss_of(pairs: Pairs) -> Tensor:
            return share * mention_losses(pairs, self.config, self.encoder.metric).sum()

        if n_parts == 1 and not perturbs:
            loss = loss_of(pairs_of(encode(parts[0]), slice(None)))
            self.accelerator.backward(loss * world)
            return float(loss.detach())
        with torch.no_grad():
            encoded = [encode(part) for part in parts]
        vectors = encoded[0].new_empty(len(batch.texts), *encoded[0].shape[1:])
        for part, own in zip(parts, encoded, strict=True):
            vectors[part] = own
        vectors.requires_grad_()
        total = 0.0
        for begin in range(0, n_mentions, size):
            rows = slice(begin, begin + size)
            pairs = pairs_of(vectors, rows)
            loss = loss_of(pairs)
            if perturbs:
                with self.accelerator.autocast():
                    copies = adversarial_nodes(self.reader, batch, rows, pairs, self.config.epsilon, seed(begin, 1))
                nodes = copies.detach().requires_grad_()
                loss = loss + self.config.adversarial_weight * loss_of(pairs._replace(node=nodes))
            (loss * world).backward()
            if perturbs:
                assert nodes.grad is not None
                with self.accelerator.no_sync(self.model):
                    self.accelerator.backward((copies * nodes.grad).sum())
            total += float(loss.detach())
        assert vectors.grad is not None
        for part in parts:
            with nullcontext() if part is parts[-1] else self.accelerator.no_sync(self.model):
                self.accelerator.backward((encode(part) * vectors.grad[part]).sum())
        return total

    def as_it_is(self) -> DualEncoder:
        """Return what embeds with the weights of now: from the cache it came with, or what the look embedded.

        Of several processes the first one keeps what a look embeds.
        """
        cache = self.cache
        if self.state.step:
            kept = embeddings(self.folder, self.state.step)
            cache = kept if self.accelerator.is_main_process and kept.is_dir() else None
        return self.encoder if cache is None else replace(self.encoder.copy(), cache=cache)

    def look(self) -> dict[str, float]:
        """Score the development documents, and keep the model if it is the best so far."""
        if self.dev is None:
            return {}
        if self.accelerator.is_main_process:
            embeddings(self.folder, self.state.step).mkdir(parents=True, exist_ok=True)
        scores = development_scores(self.dev, self.dev.snapshot(self.as_it_is(), self.announce))
        if self.state.best is None or scores[self.config.best] > self.state.best:
            self.state = replace(self.state, best=scores[self.config.best], best_step=self.state.step)
            if self.accelerator.is_main_process:
                self.encoder.save_pretrained(best_model(self.folder, self.state))
        return scores

    def keep(self) -> None:
        """Write a checkpoint."""
        scaler = self.accelerator.scaler
        self.state = replace(self.state, scaler=None if scaler is None else scaler.state_dict())
        if self.accelerator.is_main_process:
            save_checkpoint(self.folder, self.state, self.encoder, self.optimizer.optimizer, self.plan)
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


def train(
    encoder: DualEncoder,
    documents: Iterable[Any],
    kb: KnowledgeBase,
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    config: TrainingConfig | None = None,
    expand_abbreviations: bool = True,
    checkpoint_every: int = 500,
    tensorboard: str | PathLike[str] | None = None,
    announce: Announce = quiet,
    on_log: Callable[[dict[str, Any]], None] = lambda figures: None,
) -> DualEncoder:
    """Train a dual-encoder to bring mentions near their entities and near each other, and write it to a folder.

    Args:
        encoder: where it starts; it is not changed.
        documents: annotated ones, or whatever `Corpus.of` makes them of.
        kb: the knowledge base.
        out: the model folder to write. A training that was interrupted goes on where ``OUT.training`` has it.
        dev: other annotated documents, to keep the best model and to choose its default thresholds; without them the
            last model is kept.
        config: what is trained on what, and how.
        expand_abbreviations: whether abbreviations that a document defines are written out, as in linking.
        checkpoint_every: steps between two checkpoints.
        tensorboard: a folder for the log in the format of TensorBoard too.
        announce: shows progress.
        on_log: is given each line of the log: the figures of a step, at the end of an epoch those of ``dev`` too.

    Raises:
        DataError: no mention has a gold id that the knowledge base holds, or a checkpoint cannot be read.
        TrainingError: the loss is NaN or infinite.
        UsageError: the folder cannot be written, or holds anything but a model that arbo saved; ``OUT.training`` is
            of another training, or another process is at it; the device does not compute in that precision; positives
            other than ``entity`` for an encoder that keeps all tokens; TensorBoard is not installed.

    """
    config, target = config or TrainingConfig(), Path(out).resolve()
    check_replaceable(target)
    if checkpoint_every < 1:
        raise UsageError(f"checkpoint_every must be at least 1 step, not {checkpoint_every}")
    if encoder.config.pooling == "tokens" and config.positives != "entity":
        raise UsageError(
            f"positives {config.positives!r} are chosen by one vector of each mention, where pooling 'tokens' keeps "
            "those of all tokens: choose positives 'entity', or another pooling"
        )
    if config.regulariser == "fgsm":
        check_perturbable(encoder)
    accelerator = _accelerator(config)
    announce = announce if accelerator.is_main_process else quiet
    corpus, dev_corpus = Corpus.of(documents), None if dev is None else Corpus.of(dev)
    data = TrainingSet.of(corpus, kb, expand_abbreviations=expand_abbreviations)
    dev_data = None
    if dev_corpus is not None:
        dev_data = TrainingSet.of(
            dev_corpus, kb, expand_abbreviations=expand_abbreviations, purpose="choose the best model by"
        )
    folder = target.with_name(f"{target.name}.training")
    job = {
        "config": {name: value for name, value in config.as_dict().items() if name != "micro_batch"},
        "encoder": encoder.settings,
        "documents": corpus.fingerprint,
        "dev": None if dev_corpus is None else dev_corpus.fingerprint,
        "knowledge_base": kb.fingerprint,
        "expand_abbreviations": expand_abbreviations,
    }
    shown = None if tensorboard is None else Path(tensorboard)
    with _begun(folder, target, job) if accelerator.is_main_process else nullcontext():
        accelerator.wait_for_everyone()
        trainer = Trainer(
            encoder, data, dev_data, config, folder, accelerator, announce, checkpoint_every, shown, on_log
        )
        trainer.run()
        if accelerator.is_main_process:
            trained = trainer.encoder
            if dev_corpus is not None:
                best = trainer.state.best_step
                trained = DualEncoder.from_pretrained(best_model(folder, trainer.state), cache=embeddings(folder, best))
                linker = Linker(kb, trained, LinkerConfig(expand_abbreviations=expand_abbreviations), announce)
                trained = _with_thresholds(trained, linker.tune(dev_corpus))
            trained.save_pretrained(target)
            _finish(folder, target)
        accelerator.wait_for_everyone()
    return DualEncoder.from_pretrained(target)


def _accelerator(config: TrainingConfig) -> Accelerator:
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


def _optimizer(parameters: list[torch.nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    if config.optimizer == "adamw":
        return torch.optim.AdamW(
            parameters, lr=config.learning_rate, eps=1e-6, weight_decay=config.weight_decay, fused=True
        )
    return torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)


def _summary_writer(folder: Path | None, step: int) -> Any:
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
        elif json.loads(file.read_text("utf-8")).get("hash") != own:
            raise UsageError(
                f"{folder} is of another training (see {file.name} in it); delete it, or name another --out"
            )
        shutil.rmtree(_old_of(target), ignore_errors=True)
        for left in folder.glob(".*-*"):  # by whoever was killed while writing
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        saved = checkpoints(folder)
        _shorten(folder / LOG, load_state(saved[-1])[0].step if saved else 0)
        yield


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


def _with_thresholds(encoder: DualEncoder, linker: Linker) -> DualEncoder:
    """Give the model the best thresholds that tuning found for the method and the k that linking has by default."""
    own = LinkerConfig()
    assert linker.tuning is not None
    tried = [trial for trial in linker.tuning.trials if (trial.method, trial.k) == (own.method, own.k)]
    best = max(tried, key=lambda trial: trial.score)
    # No limit is a number too: one that nothing reaches.
    far = 1e6 if encoder.metric == "dot" else 2.0
    entity, mention = (far if limit is None else limit for limit in (best.entity_threshold, best.mention_threshold))
    return replace(encoder, config=replace(encoder.config, entity_threshold=entity, mention_threshold=mention))
