"""Training of dual-encoders: choose positives and negatives, compare their vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arbo.config import LinkerConfig
from arbo.documents import Corpus
from arbo.encoders import DualEncoder
from arbo.errors import UsageError
from arbo.knowledge_base import KnowledgeBase
from arbo.linker import Linker
from arbo.progress import Announce, quiet
from arbo.training.checkpoints import best_model, embeddings, load_plan
from arbo.training.config import TrainingConfig
from arbo.training.data import TrainingSet
from arbo.training.dual.adversarial import adversarial_nodes
from arbo.training.dual.batches import Batch, Reader
from arbo.training.dual.development import development_scores
from arbo.training.dual.objective import Pairs, chosen, mention_losses
from arbo.training.dual.plan import Plan, asks_the_model
from arbo.training.dual.snapshot import Snapshot
from arbo.training.fgsm import check_perturbable
from arbo.training.loop import Trainer, accelerator_of, target_of, training
from clustering.arrays import Ids


@dataclass(eq=False)
class DualTrainer(Trainer[DualEncoder, Batch]):
    """A training of a dual-encoder under way: `train` makes one and runs it."""

    data: TrainingSet
    dev: TrainingSet | None
    config: TrainingConfig

    def __post_init__(self) -> None:
        self.plan = Plan(np.empty(0, np.int64), np.empty((0, 0), np.int64))
        self.cache = self.encoder.cache
        super().__post_init__()

    def reading(self) -> Callable[..., Tensor]:
        """Collect the texts of the training data."""
        self.reader = Reader.of(self.encoder, self.data)
        return self.reader.encode

    def choose(self, step: int, place: int) -> None:
        """Choose positives and negatives anew at the beginning of an epoch, or as often as is wanted."""
        if place != 0 and (self.config.refresh is None or place % self.config.refresh != 0):
            return
        if asks_the_model(self.config, self.reader.owner):
            snapshot = Snapshot.of(self.data, self.as_it_is(), self.announce)
        else:
            snapshot = Snapshot.unread(self.data, self.reader.owner, self.encoder.metric)
        self.plan = Plan.of(self.data, snapshot, self.config, step)

    @property
    def chosen(self) -> Mapping[str, Ids]:
        """The plan of the epoch: the model that chose it will be gone."""
        return self.plan._asdict()

    def resume(self, checkpoint: Path) -> None:
        """Take up the plan."""
        self.plan = load_plan(checkpoint, Plan)

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Batch:
        """Collect the texts of some mentions of a batch and of what they are compared with."""
        nodes = self.plan.nodes(self.data, self.reader.owner, mentions, self.config, step)
        return self.reader.batch(mentions[rows], nodes[rows])

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

        def seed(*what: int) -> int:
            return self.dropout_seed(step, *what)

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
                    copies = adversarial_nodes(self.reader, batch, pairs, self.config.epsilon, seed(begin, 1))
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

    @property
    def best(self) -> str:
        """As the configuration says."""
        return self.config.best

    def development_scores(self) -> dict[str, float]:
        """Embed the development documents, and keep the embeddings."""
        assert self.dev is not None
        if self.accelerator.is_main_process:
            embeddings(self.folder, self.state.step).mkdir(parents=True, exist_ok=True)
        return development_scores(self.dev, Snapshot.of(self.dev, self.as_it_is(), self.announce))


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
    config, target = config or TrainingConfig(), target_of(out, checkpoint_every)
    if encoder.config.pooling == "tokens" and config.positives != "entity":
        raise UsageError(
            f"positives {config.positives!r} are chosen by one vector of each mention, where pooling 'tokens' keeps "
            "those of all tokens: choose positives 'entity', or another pooling"
        )
    if config.regulariser == "fgsm":
        check_perturbable(encoder.mention_tower, encoder.entity_tower)
    accelerator = accelerator_of(config)
    announce = announce if accelerator.is_main_process else quiet
    corpus, dev_corpus = Corpus.of(documents), None if dev is None else Corpus.of(dev)
    data = TrainingSet.of(corpus, kb, expand_abbreviations=expand_abbreviations)
    dev_data = None
    if dev_corpus is not None:
        dev_data = TrainingSet.of(
            dev_corpus, kb, expand_abbreviations=expand_abbreviations, purpose="choose the best model by"
        )
    job = {
        "config": config.decisive,
        "encoder": encoder.settings,
        "documents": corpus.fingerprint,
        "dev": None if dev_corpus is None else dev_corpus.fingerprint,
        "knowledge_base": kb.fingerprint,
        "expand_abbreviations": expand_abbreviations,
    }
    with training(target, job, accelerator) as folder:
        trainer = DualTrainer(
            encoder, data, dev_data, config, folder, accelerator, announce, checkpoint_every, tensorboard, on_log
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
    return DualEncoder.from_pretrained(target)


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
