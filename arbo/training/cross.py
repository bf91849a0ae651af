"""Training of cross-encoders: tell the right entity from the other candidates of a first stage.

For each mention its candidates are scored, the gold entity in place of the last where the first stage missed it. What
is minimised is minus the logarithm of the gold entity's share in the softmax over them, `losses.cross_entropy`. Further
gold entities of a mention are not pushed away, nor is an entity that reads as the gold one does.

The candidates are found once and kept in ``OUT.training``, as `arbo.Candidates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from arbo.candidates import Candidates, gaps_filled, gold_rows, is_gold, with_gold
from arbo.documents import Corpus
from arbo.encoders import CrossEncoder, MentionInput
from arbo.encoders.cross import Pairs
from arbo.encoders.templates import TokenRow
from arbo.encoders.tower import packs
from arbo.errors import DataError, UsageError
from arbo.knowledge_base import KnowledgeBase
from arbo.linker import Linker
from arbo.progress import quiet
from arbo.reranker import rerank
from arbo.store import same_model
from arbo.training.config import RerankingConfig
from arbo.training.data import TrainingSet, corpora_of
from arbo.training.fgsm import check_perturbable, in_worst_direction
from arbo.training.loop import Trainer, accelerator_of, target_of, training
from arbo.training.losses import cross_entropy
from clustering.arrays import Bools, Floats, Ids


class Retrieved(NamedTuple):
    """Annotated documents, and what a first stage found for their mentions."""

    documents: Corpus
    kb: KnowledgeBase
    candidates: Candidates
    expand_abbreviations: bool


@dataclass(frozen=True, eq=False, slots=True)
class RerankingSet:
    """Mentions with gold ids, and the entities that each is compared with."""

    inputs: list[MentionInput]
    """The mentions that have gold ids."""
    kb: KnowledgeBase
    nodes: Ids
    """(mentions, 1 + k) rows of the knowledge base, the gold entity's first; -1 for none. A mention without a gold
    entity in its domain is not trained on."""
    retrieval: Floats
    """(mentions, 1 + k) the first stage's score of each, see `arbo.candidates.gaps_filled`."""

    @classmethod
    def of(cls, retrieved: Retrieved) -> Self:
        """Put the gold entity of each mention before its other candidates.

        Raises:
            DataError: no mention has a gold id that the knowledge base holds in its domain.

        """
        corpus, kb = retrieved.documents, retrieved.kb
        data = TrainingSet.of(corpus, kb, expand_abbreviations=retrieved.expand_abbreviations)
        annotated = np.array([bool(mention.gold) for mention in corpus.mentions], np.bool_)
        positive = np.full((len(corpus.mentions), 1), -1)
        positive[annotated, 0] = data.entity
        compared = with_gold(retrieved.candidates, positive)
        negatives = np.where(is_gold(compared.entities, gold_rows(corpus, kb)), -1, compared.entities)
        scores = gaps_filled(compared.scores)
        own = np.where(compared.entities == positive, scores, -np.inf).max(axis=1, initial=-np.inf, keepdims=True)
        nodes, retrieval = np.hstack([positive, negatives]), np.hstack([np.where(positive >= 0, own, 0), scores])
        return cls(data.inputs, kb, nodes[annotated], retrieval[annotated].astype(np.float32))

    @property
    def queries(self) -> Ids:
        """The mentions that are trained on."""
        return np.flatnonzero(self.nodes[:, 0] >= 0)


@dataclass(frozen=True, eq=False, slots=True)
class PairBatch:
    """Mentions with what each is compared with, pair by pair."""

    rows: list[TokenRow]
    """(pairs,) the shortest first."""
    mention: Ids
    """(pairs,) the mention of each."""
    place: Ids
    """(pairs,) where it stands among what the mention is compared with; 0 is the gold entity."""
    exists: Bools
    """(mentions, 1 + k) which entities are compared with."""
    retrieval: Floats
    """(mentions, 1 + k) what the first stage adds to their scores."""


@dataclass(frozen=True, eq=False, slots=True)
class PairReader:
    """Turns mentions, each with its entities, into scores with gradients."""

    encoder: CrossEncoder
    data: RerankingSet
    pairs: Pairs
    used: Ids
    """(entities,) ascending rows of the knowledge base: those that any mention is compared with."""

    @classmethod
    def of(cls, encoder: CrossEncoder, data: RerankingSet) -> Self:
        """Collect the texts of the training data."""
        used = np.unique(data.nodes[data.nodes >= 0])
        return cls(encoder, data, encoder.pairs(data.inputs, KnowledgeBase(data.kb.entities[i] for i in used)), used)

    def batch(self, mentions: Ids) -> PairBatch:
        """Collect the pairs of some mentions."""
        nodes = self.data.nodes[mentions]
        text = self.pairs.entities.row[np.searchsorted(self.used, nodes)]
        exists = nodes >= 0
        exists[:, 1:] &= text[:, 1:] != text[:, :1]
        mention, place = np.nonzero(exists)
        rows = self.pairs.spell(self.pairs.mentions.row[mentions[mention]], text[mention, place])
        order = np.argsort([len(row.ids) for row in rows], kind="stable")
        retrieval = np.float32(self.encoder.retrieval_weight) * self.data.retrieval[mentions]
        return PairBatch([rows[i] for i in order], mention[order], place[order], exists, retrieval)

    def encode(self, batch: PairBatch) -> Tensor:
        """Score the pairs of a batch, those of like length together; (mentions, 1 + k)."""
        return self._scattered(batch, [self._score(batch.rows[own]) for own in self._packs(batch)])

    def perturbed(self, batch: PairBatch, epsilon: float, seed: int) -> Tensor:
        """Score copies whose inputs are changed in the worst direction, see `arbo.training.fgsm`; as `encode` does."""
        tower, found = self.encoder.tower, []
        for i, own in enumerate(self._packs(batch)):
            step = torch.from_numpy(np.where(batch.place[own] == 0, -epsilon, epsilon)).float()
            score = partial(self._score, batch.rows[own])
            found.append(in_worst_direction(tower, score, lambda scores: scores, step.to(tower.model.device), seed + i))
        return self._scattered(batch, found)

    def _packs(self, batch: PairBatch) -> Iterator[slice]:
        return packs([len(row.ids) for row in batch.rows], self.encoder.tower.tokens_a_batch)

    def _score(self, rows: list[TokenRow]) -> Tensor:
        return self.encoder.tower.encode(rows, self.encoder.config.pooling)[:, 0, 0]

    def _scattered(self, batch: PairBatch, scores: list[Tensor]) -> Tensor:
        found = torch.cat(scores)
        mention, place = (torch.from_numpy(array).to(found.device) for array in (batch.mention, batch.place))
        retrieval = torch.from_numpy(batch.retrieval).to(found)
        return retrieval.index_put((mention, place), found, accumulate=True)


@dataclass(eq=False)
class RerankingTrainer(Trainer[CrossEncoder, Ids]):
    """A training of a cross-encoder under way: `train_reranker` makes one and runs it."""

    data: RerankingSet
    dev: Retrieved | None
    config: RerankingConfig

    def reading(self) -> Callable[..., Tensor]:
        """Collect the texts of the training data."""
        self.reader = PairReader.of(self.encoder, self.data)
        return self.reader.encode

    def batch(self, step: int, mentions: Ids, rows: Ids) -> Ids:
        """Take some of the mentions: what each is compared with is the same in every step."""
        return mentions[rows]

    def add_gradients(self, step: int, batch: Ids, share: float) -> float:
        """Add the gradients of a batch's loss, each mention counting for a share, and return the loss.

        Micro-batch by micro-batch, as no mention's loss depends on another's.
        """
        total, world, begins = 0.0, self.accelerator.num_processes, range(0, len(batch), self.config.micro_batch)
        for begin in begins:
            pairs = self.reader.batch(batch[begin : begin + self.config.micro_batch])
            with nullcontext() if begin == begins[-1] else self.accelerator.no_sync(self.model):
                loss = share * self.loss_of(pairs, step, begin)
                self.accelerator.backward(loss * world)
            total += float(loss.detach())
        return total

    def loss_of(self, pairs: PairBatch, step: int, begin: int) -> Tensor:
        """Sum the losses of mentions, those of perturbed copies added; ``begin`` is the place of the first."""
        torch.manual_seed(self.dropout_seed(step, begin))
        scores = self.model(pairs)
        exists = torch.from_numpy(pairs.exists).to(scores.device)
        loss = cross_entropy(scores, exists).sum()
        if self.config.regulariser == "none":
            return loss
        with self.accelerator.autocast():
            copies = self.reader.perturbed(pairs, self.config.epsilon, self.dropout_seed(step, begin, 1))
        return loss + self.config.adversarial_weight * cross_entropy(copies, exists).sum()

    @property
    def best(self) -> str:
        """How often the first candidate is right, of all mentions with a gold id."""
        return "accuracy"

    def development_scores(self) -> dict[str, float]:
        """Rerank the candidates of the development documents."""
        assert self.dev is not None
        documents, kb = self.dev.documents, self.dev.kb
        found = rerank(
            self.encoder,
            self.dev.candidates,
            documents,
            kb,
            expand_abbreviations=self.dev.expand_abbreviations,
            announce=self.announce,
        ).evaluate(documents, kb)
        return {"accuracy": found.accuracy, "accuracy_normalized": found.accuracy_normalized or 0.0}


def train_reranker(
    reranker: CrossEncoder,
    linker: Linker,
    documents: Iterable[Any],
    *,
    out: str | PathLike[str],
    dev: Iterable[Any] | None = None,
    candidates: Mapping[str, Candidates] | None = None,
    config: RerankingConfig | None = None,
    checkpoint_every: int = 500,
    tensorboard: str | PathLike[str] | None = None,
    on_log: Callable[[dict[str, Any]], None] = lambda figures: None,
) -> CrossEncoder:
    """Train a cross-encoder to choose among the candidates of a first stage, and write it to a folder.

    Args:
        reranker: where it starts, see `CrossEncoder.of`; it is not changed. Of each mention it reads as many candidates
            as its configuration says.
        linker: the first stage: its encoder finds the candidates, in its knowledge base; it has no reranker, and shows
            progress too.
        documents: annotated ones, or whatever `Corpus.of` makes them of.
        out: the model folder to write. A training that was interrupted goes on where ``OUT.training`` has it.
        dev: other annotated documents, to keep the best model: the one whose first candidate is right most often.
            Without them the last model is kept.
        candidates: those of ``documents`` or of ``dev`` that the same encoder found before, such as a run's, see
            `Candidates.of_result`, by what errors shall call them; others are searched. Of more than the reranker reads
            the best are taken.
        config: how it is trained.
        checkpoint_every: steps between two checkpoints.
        tensorboard: a folder for the log in the format of TensorBoard too.
        on_log: is given each line of the log: the figures of a step, at the end of an epoch those of ``dev`` too.

    Raises:
        DataError: no mention has a gold id that the knowledge base holds; a checkpoint cannot be read; or candidates
            are of other documents, of another knowledge base or of another first stage, or too few.
        TrainingError: the loss is NaN or infinite.
        UsageError: the linker has no knowledge base, or a reranker; one candidate alone; candidates of the same
            documents twice; the folder cannot be written, or holds anything but a model that arbo saved;
            ``OUT.training`` is of another training, or another process is at it; the device does not compute in that
            precision; TensorBoard is not installed.

    """
    config, target = config or RerankingConfig(), target_of(out, checkpoint_every)
    kb, k, expand = linker.kb, reranker.config.candidates, linker.config.expand_abbreviations
    if kb is None:
        raise UsageError("candidates are entities of a knowledge base, and this linker has none: Linker(kb)")
    if linker.reranker is not None:
        raise UsageError("a cross-encoder learns among what an encoder finds, and this linker has a reranker")
    if min(k, len(kb)) < 2:
        raise UsageError(
            f"candidates={k} of {len(kb):,} entities: among one there is nothing to choose; a cross-encoder reads at "
            "least 2"
        )
    if config.regulariser == "fgsm":
        check_perturbable(reranker.tower)
    accelerator = accelerator_of(config)
    linker = linker if accelerator.is_main_process else linker.configured(announce=quiet)
    corpora = corpora_of(documents, dev)
    for corpus, purpose in zip(corpora.values(), ("train on", "choose the best model by"), strict=False):
        TrainingSet.of(corpus, kb, expand_abbreviations=expand, purpose=purpose)
    job: dict[str, Any] = {
        "config": config.decisive,
        "reranker": reranker.settings,
        "candidates": {"k": k, "encoder": linker.encoder.settings, "search": linker.config.search},
        **{name: corpus.fingerprint for name, corpus in corpora.items()},
        "knowledge_base": kb.fingerprint,
        "expand_abbreviations": expand,
    }
    found = _given(candidates or {}, corpora, linker, k)
    job["candidates"] |= {f"candidates of {name}": own.fingerprint for name, own in found.items()}
    with training(target, job, accelerator) as folder:
        kept = _kept(folder, linker, corpora, found, k, accelerator)
        given = [Retrieved(corpus, kb, own, expand) for corpus, own in zip(corpora.values(), kept, strict=True)]
        trainer = RerankingTrainer(
            reranker,
            RerankingSet.of(given[0]),
            given[1] if dev is not None else None,
            config,
            folder,
            accelerator,
            linker.announce,
            checkpoint_every,
            tensorboard,
            on_log,
        )
        trainer.run()
        if accelerator.is_main_process:
            trainer.kept.save_pretrained(target)
    return CrossEncoder.from_pretrained(target)


def _given(
    candidates: Mapping[str, Candidates], corpora: Mapping[str, Corpus], linker: Linker, k: int
) -> dict[str, Candidates]:
    """Tell which documents candidates are of, and take ``k`` of each mention."""
    found: dict[str, Candidates] = {}
    for called, own in candidates.items():
        name = next((name for name, corpus in corpora.items() if corpus.fingerprint == own.documents), "documents")
        try:
            _check_given(own, corpora[name], linker, k)
        except DataError as error:
            raise error.at(called) from None
        if name in found:
            raise UsageError(f"{called}: candidates of the same documents were given before; leave one out")
        found[name] = own.first(k)
    return found


def _check_given(candidates: Candidates, documents: Corpus, linker: Linker, k: int) -> None:
    """Raise DataError unless candidates are what a first stage would find."""
    assert linker.kb is not None
    candidates.check(documents, linker.kb)
    if "reranker" in candidates.made_by:
        raise DataError("a reranker put these candidates into its order: take those of an encoder alone")
    if not same_model(candidates.made_by, linker.encoder.settings):
        whose = candidates.made_by.get("model", candidates.made_by.get("encoder"))
        raise DataError(
            f"these candidates are of another first stage ({whose}), or of other weights or settings of it: train with "
            "the one that made them"
        )
    if candidates.k < (least := min(k, len(linker.kb))):
        raise DataError(
            f"{candidates.k} candidates of each mention, and the cross-encoder reads {least}: find as many, or let it "
            "read fewer"
        )


def _kept(
    folder: Path,
    linker: Linker,
    corpora: Mapping[str, Corpus],
    found: Mapping[str, Candidates],
    k: int,
    accelerator: Accelerator,
) -> list[Candidates]:
    """Find the candidates of documents, unless they were found before and kept in the folder of the training."""
    assert linker.kb is not None
    files = {name: folder / f"candidates-{name}.parquet" for name in corpora}
    if accelerator.is_main_process:
        for name, file in files.items():
            if not file.is_file():
                own = found[name] if name in found else Candidates.of(linker, corpora[name], k=k)
                own.save(file)
    accelerator.wait_for_everyone()
    return [_checked(file, corpora[name], linker.kb) for name, file in files.items()]


def _checked(file: Path, documents: Corpus, kb: KnowledgeBase) -> Candidates:
    """Load candidates, unless they are stale."""
    try:
        candidates = Candidates.load(file)
        candidates.check(documents, kb)
    except DataError as error:
        raise DataError(f"{error.problem}: delete the file, and they are found anew", file=str(file)) from error
    return candidates
